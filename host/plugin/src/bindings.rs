//! Rust types of `wit/`, generated.
//!
//! `base` holds what every plugin shares (capabilities, types, `meta`); the other modules hold one
//! exported interface each and borrow their types from `base`, so that one linker and one set of
//! conversions serve all worlds.

#![allow(missing_docs)]

pub mod base {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package whet:host;
            world base {
                include whet:plugin/capabilities@0.1.0;
                import whet:plugin/types@0.1.0;
                export whet:plugin/meta@0.1.0;
            }
        ",
        world: "whet:host/base",
        imports: { default: trappable },
        with: { "whet:plugin/types.media": crate::media::HostMedia },
    });
}

pub mod reward {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package whet:host; world rewarding { export whet:plugin/reward@0.1.0; }",
        world: "whet:host/rewarding",
        with: { "whet:plugin/types": super::base::whet::plugin::types },
    });
}

pub mod isolated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package whet:host; world isolating { export whet:plugin/isolated@0.1.0; }",
        world: "whet:host/isolating",
        with: { "whet:plugin/types": super::base::whet::plugin::types },
    });
}

pub mod filter {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package whet:host; world filtering { export whet:plugin/filter@0.1.0; }",
        world: "whet:host/filtering",
        with: { "whet:plugin/types": super::base::whet::plugin::types },
    });
}

pub mod advantage {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package whet:host; world estimating { export whet:plugin/advantage@0.1.0; }",
        world: "whet:host/estimating",
        with: { "whet:plugin/types": super::base::whet::plugin::types },
    });
}
