//! What Rust's checks cannot see: SIMD kernels over raw buffers, tensor views, libtorch's environment. The only crate with unsafe code.

pub mod cuda;
pub mod environment;
pub mod view;
