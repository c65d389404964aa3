//! Bindings generated from the contract, in WebAssembly only. `unsafe` lives in this generated code.
//!
//! The capabilities and the shared types exist once; the worlds refer to them.
#![allow(unsafe_code, missing_docs, unused_unsafe, clippy::all, reason = "generated code")]

pub mod capabilities {
    wit_bindgen::generate!({
        path: "wit",
        world: "capabilities",
        generate_unused_types: true,
    });
}

pub mod reward {
    wit_bindgen::generate!({
        path: "wit",
        world: "reward-plugin",
        pub_export_macro: true,
        with: {
            "whet:plugin/types@0.1.0": crate::bindings::capabilities::whet::plugin::types,
            "whet:plugin/log@0.1.0": crate::bindings::capabilities::whet::plugin::log,
            "whet:plugin/random@0.1.0": crate::bindings::capabilities::whet::plugin::random,
            "whet:plugin/judge@0.1.0": crate::bindings::capabilities::whet::plugin::judge,
            "whet:plugin/http@0.1.0": crate::bindings::capabilities::whet::plugin::http,
            "whet:plugin/store@0.1.0": crate::bindings::capabilities::whet::plugin::store,
        },
    });
}

pub mod filter {
    wit_bindgen::generate!({
        path: "wit",
        world: "filter-plugin",
        pub_export_macro: true,
        with: {
            "whet:plugin/types@0.1.0": crate::bindings::capabilities::whet::plugin::types,
            "whet:plugin/log@0.1.0": crate::bindings::capabilities::whet::plugin::log,
            "whet:plugin/random@0.1.0": crate::bindings::capabilities::whet::plugin::random,
            "whet:plugin/judge@0.1.0": crate::bindings::capabilities::whet::plugin::judge,
            "whet:plugin/http@0.1.0": crate::bindings::capabilities::whet::plugin::http,
            "whet:plugin/store@0.1.0": crate::bindings::capabilities::whet::plugin::store,
        },
    });
}

pub mod advantage {
    wit_bindgen::generate!({
        path: "wit",
        world: "advantage-plugin",
        pub_export_macro: true,
        with: {
            "whet:plugin/types@0.1.0": crate::bindings::capabilities::whet::plugin::types,
            "whet:plugin/log@0.1.0": crate::bindings::capabilities::whet::plugin::log,
            "whet:plugin/random@0.1.0": crate::bindings::capabilities::whet::plugin::random,
            "whet:plugin/judge@0.1.0": crate::bindings::capabilities::whet::plugin::judge,
            "whet:plugin/http@0.1.0": crate::bindings::capabilities::whet::plugin::http,
            "whet:plugin/store@0.1.0": crate::bindings::capabilities::whet::plugin::store,
        },
    });
}
