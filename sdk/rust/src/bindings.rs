//! Bindings generated from the contract, in WebAssembly only. `unsafe` lives in this generated code.
//!
//! The capabilities and the shared types exist once. Every exported interface has a small world of
//! its own: a plugin's macro exports `meta` and one other, and the encoder merges these worlds with
//! the capabilities that the code uses into one of the contract's.
#![allow(unsafe_code, missing_docs, unused_unsafe, clippy::all, reason = "generated code")]

pub mod capabilities {
    wit_bindgen::generate!({
        path: "wit",
        world: "capabilities",
        generate_unused_types: true,
    });
}

pub mod meta {
    wit_bindgen::generate!({
        path: "wit",
        inline: "package whet:sdk-meta; world meta-exports { export whet:plugin/meta@0.1.0; }",
        pub_export_macro: true,
    });
}

pub mod reward {
    wit_bindgen::generate!({
        path: "wit",
        inline: "package whet:sdk-reward; world reward-exports { export whet:plugin/reward@0.1.0; }",
        pub_export_macro: true,
        with: { "whet:plugin/types@0.1.0": crate::bindings::capabilities::whet::plugin::types },
    });
}

pub mod filter {
    wit_bindgen::generate!({
        path: "wit",
        inline: "package whet:sdk-filter; world filter-exports { export whet:plugin/filter@0.1.0; }",
        pub_export_macro: true,
        with: { "whet:plugin/types@0.1.0": crate::bindings::capabilities::whet::plugin::types },
    });
}

pub mod advantage {
    wit_bindgen::generate!({
        path: "wit",
        inline: "package whet:sdk-advantage; world advantage-exports { export whet:plugin/advantage@0.1.0; }",
        pub_export_macro: true,
        with: { "whet:plugin/types@0.1.0": crate::bindings::capabilities::whet::plugin::types },
    });
}
