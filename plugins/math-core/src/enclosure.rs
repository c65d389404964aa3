//! The sign of a number that has no variables, by exact bounds below and above. No rounding decides:
//! where the bounds do not tell, there is no answer.

use crate::polynomial::{Algebra, Atom, Exponent, Poly, Quotient};
use crate::syntax::Rational;
use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;

/// Bits behind the point.
const POINT: u64 = 128;
/// Numbers larger than this many bits before the point have no bounds.
const MAX_BITS: u64 = 1024;
/// Roots of a higher order have no bounds.
const MAX_ROOT: u32 = 8;
/// What the bounds of a power cost, in multiplications of small coefficients.
const WORK: u64 = 20;
/// Digits of the constants, and the power of ten that they are divided by.
const PI: u128 = 314_159_265_358_979_323_846_264_338_327_950_288;
const E: u128 = 271_828_182_845_904_523_536_028_747_135_266_249;
const SCALE: u128 = 100_000_000_000_000_000_000_000_000_000_000_000;

/// How a number compares with 0; none where that cannot be told.
pub fn sign(algebra: &mut Algebra, number: &Quotient) -> Option<Ordering> {
    if let Some(exact) = number.as_number() {
        return Some(exact.cmp(&Rational::zero()));
    }
    let (above, below) =
        (polynomial(algebra, &number.num)?.sign()?, polynomial(algebra, &number.den)?.sign()?);
    Some(if below == Ordering::Less { above.reverse() } else { above })
}

/// Bounds in units of `2^-POINT`.
struct Bounds {
    low: BigInt,
    high: BigInt,
}

impl Bounds {
    fn of(c: &Rational) -> Bounds {
        let low = (c.numer() << POINT).div_floor(c.denom());
        Bounds { high: &low + 1, low }
    }

    fn sign(&self) -> Option<Ordering> {
        if self.low.is_positive() {
            Some(Ordering::Greater)
        } else if self.high.is_negative() {
            Some(Ordering::Less)
        } else {
            None
        }
    }

    fn times(&self, other: &Bounds) -> Option<Bounds> {
        let products = [
            (&self.low, &other.low),
            (&self.low, &other.high),
            (&self.high, &other.low),
            (&self.high, &other.high),
        ]
        .map(|(a, b)| (a * b) >> POINT);
        let [low, high] = [products.iter().min()?.clone(), products.iter().max()? + 1];
        let fits = low.bits().max(high.bits()) <= MAX_BITS + POINT;
        fits.then_some(Bounds { low, high })
    }

    /// A power of a positive number.
    fn raised(&self, by: Exponent) -> Option<Bounds> {
        if !self.low.is_positive() {
            return None;
        }
        let mut power = Bounds::of(&Rational::one());
        for _ in 0..by.numer().unsigned_abs().to_u8().filter(|n| *n <= 32)? {
            power = power.times(self)?;
        }
        let order = by.denom().to_u32().filter(|n| *n <= MAX_ROOT)?;
        let root = |n: &BigInt| -> Option<BigInt> {
            let shifted: BigUint = n.to_biguint()? << (POINT * u64::from(order - 1));
            Some(shifted.nth_root(order).into())
        };
        let (low, high) = (root(&power.low)?, root(&power.high)? + 1);
        if !by.is_negative() {
            return Some(Bounds { low, high });
        }
        let one = BigInt::one() << (2 * POINT);
        low.is_positive().then(|| Bounds { low: &one / high, high: &one / low + 1 })
    }
}

fn polynomial(algebra: &mut Algebra, poly: &Poly) -> Option<Bounds> {
    let mut sum = Bounds { low: BigInt::zero(), high: BigInt::zero() };
    for (monomial, c) in poly {
        let mut term = Bounds::of(c);
        for &(atom, by) in monomial {
            algebra.spend(WORK)?;
            let atom = algebra.atoms[atom].clone();
            term = term.times(&base(algebra, &atom)?.raised(by)?)?;
        }
        sum = Bounds { low: sum.low + term.low, high: sum.high + term.high };
    }
    Some(sum)
}

fn base(algebra: &mut Algebra, atom: &Atom) -> Option<Bounds> {
    let digits = |n: u128| {
        let part = |n: u128| Rational::new(n.into(), SCALE.into());
        Bounds { low: Bounds::of(&part(n)).low, high: Bounds::of(&part(n + 1)).high }
    };
    match atom {
        Atom::Prime(p) => Some(Bounds::of(&Rational::from_integer(p.clone().into()))),
        Atom::Symbol(name) if name == "pi" => Some(digits(PI)),
        Atom::Symbol(name) if name == "e" => Some(digits(E)),
        Atom::Radicand(inside) => polynomial(algebra, inside),
        _ => None,
    }
}
