//! What Rust's checks cannot see: SIMD kernels over raw buffers, tensor views, libtorch's environment. The only crate with unsafe code.

pub mod adam;
pub mod attention;
pub mod cuda;
pub mod environment;
pub mod exit;
pub mod gemm;
pub mod heap;
mod lanes;
pub mod map;
mod number;
pub mod rows;
pub mod view;
pub mod vocabulary;

pub use lanes::Isa;
pub use number::Number;
