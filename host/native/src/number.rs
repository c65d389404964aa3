//! The two number formats that kernels read and write.

#![allow(unsafe_code)]

use crate::lanes::{Lanes, bf16_bits, bf16_value};
use half::bf16;

/// A number format of weights, activations and caches: f32 or bf16. Sums are always f32.
///
/// The methods over lanes are for the kernels of this crate; no other type can implement them.
pub trait Number: Copy + Default + Send + Sync + 'static {
    /// How many neighbouring values along the inner dimension one product step takes.
    const PAIR: usize;

    /// The value as f32, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value, ties to even.
    fn from_f32(x: f32) -> Self;

    /// Reads 16 values.
    /// # Safety
    /// `p` is valid for reading them.
    unsafe fn load<L: Lanes>(p: *const Self) -> L;
    /// Writes 16 values.
    /// # Safety
    /// `p` is valid for writing them.
    unsafe fn store<L: Lanes>(p: *mut Self, x: L);
    /// `acc + a * b` over `PAIR` values: `a` the same for all lanes, `b` interleaved by pairs.
    /// # Safety
    /// `a` is valid for reading `PAIR` values, `b` for 16 times as many.
    unsafe fn step<L: Lanes>(acc: L, a: *const Self, b: *const Self) -> L;
    /// What becomes of values that are stored and loaded again.
    fn round<L: Lanes>(x: L) -> L;
}

impl Number for f32 {
    const PAIR: usize = 1;

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(p) }
    }
    #[inline(always)]
    unsafe fn store<L: Lanes>(p: *mut Self, x: L) {
        // SAFETY: the caller's promise.
        unsafe { x.store(p) }
    }
    #[inline(always)]
    unsafe fn step<L: Lanes>(acc: L, a: *const Self, b: *const Self) -> L {
        // SAFETY: the caller's promise.
        unsafe { acc.fma(L::splat(*a), L::load(b)) }
    }
    #[inline(always)]
    fn round<L: Lanes>(x: L) -> L {
        x
    }
}

impl Number for bf16 {
    const PAIR: usize = 2;

    #[inline(always)]
    fn to_f32(self) -> f32 {
        bf16_value(self.to_bits())
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        bf16::from_bits(bf16_bits(x))
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const Self) -> L {
        // SAFETY: the caller's promise; bf16 is a transparent u16.
        unsafe { L::load_bf16(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store<L: Lanes>(p: *mut Self, x: L) {
        // SAFETY: the caller's promise; bf16 is a transparent u16.
        unsafe { x.store_bf16(p.cast()) }
    }
    #[inline(always)]
    unsafe fn step<L: Lanes>(acc: L, a: *const Self, b: *const Self) -> L {
        // SAFETY: the caller's promise; two bf16 are read as one u32, at any alignment.
        unsafe { acc.pair_dot(a.cast(), b.cast()) }
    }
    #[inline(always)]
    fn round<L: Lanes>(x: L) -> L {
        x.through_bf16()
    }
}
