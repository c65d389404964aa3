//! Exact integers: bounds on their size, and their prime factors.

use num_bigint::{BigInt, BigUint};
use num_traits::{One, ToPrimitive, Zero};

/// No number grows beyond this many bits; what would is not evaluated.
pub const MAX_BITS: u64 = 2304;
/// Literals longer than this are not read as numbers.
pub const MAX_DIGITS: usize = 1200;
/// Factors are divided out up to here; a larger rest counts as one factor.
const TRIAL_LIMIT: u32 = 1000;

/// Prime factors of `n` with their exponents, ascending. A rest without small factors stays whole
/// unless it is a square.
pub fn factors(n: &BigUint) -> Vec<(BigUint, i64)> {
    let mut found = Vec::new();
    let mut rest = n.clone();
    let mut p = 2u32;
    while p <= TRIAL_LIMIT {
        if let Some(small) = rest.to_u64() {
            if small <= 1 {
                return found;
            }
            if u64::from(p) * u64::from(p) > small {
                break;
            }
        }
        let mut exponent = 0;
        while (&rest % p).is_zero() {
            rest /= p;
            exponent += 1;
        }
        if exponent > 0 {
            found.push((BigUint::from(p), exponent));
        }
        p += if p == 2 { 1 } else { 2 };
    }
    if !rest.is_one() && !rest.is_zero() {
        let root = rest.sqrt();
        if &root * &root == rest {
            found.push((root, 2));
        } else {
            found.push((rest, 1));
        }
    }
    found
}

/// `n!`, or none when it would be too large.
pub fn factorial(n: u64) -> Option<BigInt> {
    if n > 500 {
        return None;
    }
    let product = (2..=n).fold(BigInt::one(), |product, k| product * k);
    (product.bits() <= MAX_BITS).then_some(product)
}

/// `n` over `k`, or none when it would be too large.
pub fn binomial(n: u64, k: u64) -> Option<BigInt> {
    if k > n {
        return Some(BigInt::zero());
    }
    let k = k.min(n - k);
    if k > 500 {
        return None;
    }
    let mut value = BigInt::one();
    for j in 0..k {
        value = value * (n - j) / (j + 1);
        if value.bits() > MAX_BITS {
            return None;
        }
    }
    Some(value)
}
