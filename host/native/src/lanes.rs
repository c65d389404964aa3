//! Sixteen f32 lanes, in three forms, and the choice between them at run time.
//!
//! A kernel is written once against [`Lanes`] and compiled for every [`Isa`]; `dispatch` enters it with
//! the instructions of that set enabled. All forms give the same results up to rounding, and one form
//! gives the same bits for a row whatever other rows are computed beside it. Nothing here knows what
//! a kernel computes.

// Indices keep the arrays' loops in the one form that is vectorised reliably.
#![allow(unsafe_code, clippy::needless_range_loop)]

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every machine has.
    Portable,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 with dot products of bf16 pairs.
    Avx512Bf16,
}

impl Isa {
    /// The best set of this machine.
    pub fn detect() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Isa::available().pop().unwrap_or(Isa::Portable))
    }

    /// Every set of this machine, the best last.
    pub fn available() -> Vec<Isa> {
        let mut sets = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Isa::Avx2);
            }
            let avx512 = sets.len() == 2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx512 {
                sets.push(Isa::Avx512);
                if is_x86_feature_detected!("avx512bf16") {
                    sets.push(Isa::Avx512Bf16);
                }
            }
        }
        sets
    }
}

/// The number of lanes.
pub const LANES: usize = 16;

/// Asks for the cache line at `p`, which need not be valid.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which faults on no address; SSE is part of x86-64.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Sixteen f32 values. All methods are to be inlined into a function that [`dispatch`] enters.
pub trait Lanes: Copy {
    /// How many rows of a matrix product keep their sums in registers.
    const ROWS: usize;

    fn splat(x: f32) -> Self;
    /// # Safety
    /// `p` is valid for reading 16 values.
    unsafe fn load(p: *const f32) -> Self;
    /// # Safety
    /// `p` is valid for reading 16 bf16 values.
    unsafe fn load_bf16(p: *const u16) -> Self;
    /// # Safety
    /// `p` is valid for writing 16 values.
    unsafe fn store(self, p: *mut f32);
    /// Rounds to nearest even.
    /// # Safety
    /// `p` is valid for writing 16 bf16 values.
    unsafe fn store_bf16(self, p: *mut u16);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    /// `self + a * b`.
    fn fma(self, a: Self, b: Self) -> Self;
    /// `self + a0 * b0 + a1 * b1` with pairs of bf16: the same `a` for all lanes, sixteen pairs at `b`.
    /// # Safety
    /// `a` is valid for reading one pair, `b` for sixteen.
    unsafe fn pair_dot(self, a: *const u32, b: *const u32) -> Self;
    /// `2^n` with `n` the integer in the low mantissa bits of `self` (see [`exp`]).
    fn exponent(self) -> Self;

    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        let mut out = [0f32; LANES];
        // SAFETY: `out` holds 16 values.
        unsafe { self.store(out.as_mut_ptr()) };
        out
    }

    /// The sum of the lanes, in a fixed order.
    #[inline(always)]
    fn sum(self) -> f32 {
        let mut a = self.to_array();
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                a[i] += a[i + half];
            }
            half /= 2;
        }
        a[0]
    }

    /// The greatest lane.
    #[inline(always)]
    fn greatest(self) -> f32 {
        self.to_array().into_iter().fold(f32::NEG_INFINITY, f32::max)
    }

    /// Every lane rounded to the nearest bf16.
    #[inline(always)]
    fn through_bf16(self) -> Self {
        let mut bits = [0u16; LANES];
        // SAFETY: `bits` holds 16 values.
        unsafe {
            self.store_bf16(bits.as_mut_ptr());
            Self::load_bf16(bits.as_ptr())
        }
    }
}

/// `e^x` within two units in the last place; 0 below -87, as for `-inf` (Cephes' `expf`).
#[inline(always)]
pub fn exp<L: Lanes>(x: L) -> L {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum.
    let magic = L::splat(12_582_912.0);
    let x = x.max(L::splat(-104.0));
    let shifted = magic.fma(x, L::splat(std::f32::consts::LOG2_E));
    let n = shifted.sub(magic);
    // ln 2 as a number of few bits and a rest, so that the products are exact.
    let r = x.fma(n, L::splat(-355.0 / 512.0)).fma(n, L::splat(2.121_944_4e-4));
    let mut p = L::splat(1.987_569_1e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0] {
        p = L::splat(c).fma(p, r);
    }
    p.mul(shifted.exponent())
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub fn silu<L: Lanes>(x: L) -> L {
    // Beyond 80 the exponential would leave the range of f32; the result is 0 there anyway.
    x.div(L::splat(1.0).add(exp(L::splat(0.0).sub(x).min(L::splat(80.0)))))
}

/// The bf16 nearest to `x`, ties to even.
#[inline(always)]
pub fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if x.is_nan() { 0x7fc0 } else { rounded }
}

#[inline(always)]
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Lanes that the compiler vectorises as far as the enabled instructions go.
#[derive(Clone, Copy)]
pub struct Plain<const FMA: bool>([f32; LANES]);

impl<const FMA: bool> Plain<FMA> {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut out = [0f32; LANES];
        for i in 0..LANES {
            out[i] = f(self.0[i], other.0[i]);
        }
        Plain(out)
    }
}

impl<const FMA: bool> Lanes for Plain<FMA> {
    const ROWS: usize = 3;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Plain([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Plain(unsafe { p.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's promise.
        let bits = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        let mut out = [0f32; LANES];
        for i in 0..LANES {
            out[i] = bf16_value(bits[i]);
        }
        Plain(out)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        let mut bits = [0u16; LANES];
        for i in 0..LANES {
            bits[i] = bf16_bits(self.0[i]);
        }
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[u16; LANES]>().write_unaligned(bits) };
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        let mut out = [0f32; LANES];
        for i in 0..LANES {
            out[i] = if FMA { a.0[i].mul_add(b.0[i], self.0[i]) } else { a.0[i] * b.0[i] + self.0[i] };
        }
        Plain(out)
    }
    #[inline(always)]
    unsafe fn pair_dot(self, a: *const u32, b: *const u32) -> Self {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (a.read_unaligned(), b.cast::<[u32; LANES]>().read_unaligned()) };
        let (mut low, mut high) = ([0f32; LANES], [0f32; LANES]);
        for i in 0..LANES {
            low[i] = f32::from_bits(b[i] << 16);
            high[i] = f32::from_bits(b[i] & 0xffff_0000);
        }
        self.fma(Self::splat(f32::from_bits(a << 16)), Plain(low))
            .fma(Self::splat(f32::from_bits(a & 0xffff_0000)), Plain(high))
    }
    #[inline(always)]
    fn exponent(self) -> Self {
        let mut out = [0f32; LANES];
        for i in 0..LANES {
            let biased = (self.0[i].to_bits() as i32) - 0x4b40_0000 + 127;
            out[i] = f32::from_bits((biased.max(0) as u32) << 23);
        }
        Plain(out)
    }
}

/// One AVX-512 register; `BF16` where pairs of bf16 are multiplied natively.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Wide<const BF16: bool>(__m512);

// SAFETY of every block below: `dispatch` enters with these instructions only where they exist, and
// pointers are the caller's promise.
#[cfg(target_arch = "x86_64")]
impl<const BF16: bool> Lanes for Wide<BF16> {
    const ROWS: usize = 14;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Wide(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        Wide(unsafe { _mm512_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        Wide(unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        unsafe { _mm512_storeu_ps(p, self.0) };
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        unsafe {
            // In integers, since the native conversion flushes denormals.
            let bits = _mm512_castps_si512(self.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let rounded = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0_0000));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded)));
        }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Wide(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Wide(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Wide(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Wide(unsafe { _mm512_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Wide(unsafe { _mm512_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Wide(unsafe { _mm512_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        Wide(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
    }
    #[inline(always)]
    unsafe fn pair_dot(self, a: *const u32, b: *const u32) -> Self {
        unsafe {
            let a = _mm512_set1_epi32(a.cast::<i32>().read_unaligned());
            let b = _mm512_loadu_si512(b.cast());
            if BF16 {
                let (a, b) = (
                    std::mem::transmute::<__m512i, __m512bh>(a),
                    std::mem::transmute::<__m512i, __m512bh>(b),
                );
                return Wide(_mm512_dpbf16_ps(self.0, a, b));
            }
            let high = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            let low = |x| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(x));
            let first = _mm512_fmadd_ps(low(a), low(b), self.0);
            let (a, b) = (_mm512_and_si512(a, high), _mm512_and_si512(b, high));
            Wide(_mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), first))
        }
    }
    #[inline(always)]
    fn exponent(self) -> Self {
        Wide(unsafe {
            let biased = _mm512_sub_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(0x4b40_0000 - 127));
            let biased = _mm512_max_epi32(biased, _mm512_setzero_si512());
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }
}

/// A computation that [`dispatch`] runs with the lanes of an instruction set.
pub trait Kernel {
    type Output;
    /// To be marked `#[inline(always)]`: it must be compiled inside the function that enables the instructions.
    fn run<L: Lanes>(self) -> Self::Output;
}

/// Runs `kernel` with the lanes of `isa`; a set that this machine lacks falls back to the portable one.
pub fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        // `isa` may come from anywhere: never enter with instructions that do not exist here.
        let rank = |isa| match isa {
            Isa::Portable => 0,
            Isa::Avx2 => 1,
            Isa::Avx512 => 2,
            Isa::Avx512Bf16 => 3,
        };
        let isa = if rank(isa) <= rank(Isa::detect()) { isa } else { Isa::Portable };
        // SAFETY: the machine has the instructions, by the line above.
        match isa {
            Isa::Portable => {}
            Isa::Avx2 => return unsafe { enter_avx2(kernel) },
            Isa::Avx512 => return unsafe { enter_avx512(kernel) },
            Isa::Avx512Bf16 => return unsafe { enter_avx512_bf16(kernel) },
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    kernel.run::<Plain<false>>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn enter_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Plain<true>>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn enter_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Wide<false>>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn enter_avx512_bf16<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Wide<true>>()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exp([f32; LANES]);
    impl Kernel for Exp {
        type Output = [f32; LANES];
        #[inline(always)]
        fn run<L: Lanes>(self) -> Self::Output {
            // SAFETY: the array holds 16 values.
            exp(unsafe { L::load(self.0.as_ptr()) }).to_array()
        }
    }

    #[test]
    fn the_exponential_is_exact_to_a_few_units_in_every_instruction_set() {
        for isa in Isa::available() {
            for step in -2000..=1400 {
                let x = step as f32 * 0.0437;
                let got = dispatch(isa, Exp([x; LANES]))[7];
                let want = f64::from(x).exp();
                assert!(
                    (f64::from(got) - want).abs() <= 4e-7 * want + 2e-38,
                    "{isa:?}: exp({x}) = {got}, not {want}"
                );
            }
            assert_eq!(dispatch(isa, Exp([f32::NEG_INFINITY; LANES]))[0], 0.0, "{isa:?}");
        }
    }

    #[test]
    fn rounding_to_bf16_is_to_nearest_even() {
        for bits in (0..u32::MAX).step_by(65_537 * 3) {
            let x = f32::from_bits(bits);
            if !x.is_nan() {
                assert_eq!(bf16_bits(x), half::bf16::from_f32(x).to_bits(), "{x}");
            }
        }
    }
}
