//! From a Rust plugin crate to a WebAssembly component: cargo, then wit-component in process.
