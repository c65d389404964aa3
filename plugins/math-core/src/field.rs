//! Values of formulas in two large prime fields at seeded points: for formulas that are equal but
//! too large to expand. Exact arithmetic; different formulas agree with a chance below 2^-60 per field.

use crate::syntax::Expr;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, ToPrimitive};

/// The largest primes below 2^64 and 2^63.
const PRIMES: [u64; 2] = [18_446_744_073_709_551_557, 9_223_372_036_854_775_783];
/// Operations per evaluation.
const MAX_WORK: u32 = 3000;
/// What a power or an inverse costs.
const POWER_WORK: u32 = 30;

/// Whether two formulas have equal values; none when either cannot be evaluated so.
pub fn equal(a: &Expr, b: &Expr) -> Option<bool> {
    let mut same = true;
    for p in PRIMES {
        let mut work = MAX_WORK;
        same &= evaluate(a, p, &mut work)? == evaluate(b, p, &mut work)?;
    }
    Some(same)
}

fn times(a: u64, b: u64, p: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(p)) as u64
}

fn raised(mut base: u64, mut n: u64, p: u64) -> u64 {
    let mut result = 1;
    while n > 0 {
        if n & 1 == 1 {
            result = times(result, base, p);
        }
        base = times(base, base, p);
        n >>= 1;
    }
    result
}

fn residue(n: &BigInt, p: u64) -> Option<u64> {
    n.mod_floor(&BigInt::from(p)).to_u64()
}

/// The value of a name: the same for both sides, different for other names and fields.
fn point(name: &str, p: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ p;
    for b in name.bytes() {
        hash = (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 31;
    hash = hash.wrapping_mul(0x7fb5_d329_728e_a185);
    (hash ^ (hash >> 27)) % p
}

fn evaluate(expr: &Expr, p: u64, work: &mut u32) -> Option<u64> {
    *work = work.checked_sub(1)?;
    match expr {
        Expr::Number(n) => {
            let above = residue(n.numer(), p)?;
            if n.is_integer() {
                return Some(above);
            }
            *work = work.checked_sub(POWER_WORK)?;
            Some(times(above, inverse(residue(n.denom(), p)?, p)?, p))
        }
        Expr::Symbol(name) if name == "i" || name == "infty" => None,
        Expr::Symbol(name) => Some(point(name, p)),
        Expr::Sum(terms) => terms.iter().try_fold(0, |sum, term| {
            let term = evaluate(term, p, work)?;
            Some(((u128::from(sum) + u128::from(term)) % u128::from(p)) as u64)
        }),
        Expr::Product(items) => {
            items.iter().try_fold(1, |product, item| Some(times(product, evaluate(item, p, work)?, p)))
        }
        Expr::Quotient(a, b) => {
            *work = work.checked_sub(POWER_WORK)?;
            let below = evaluate(b, p, work)?;
            Some(times(evaluate(a, p, work)?, inverse(below, p)?, p))
        }
        Expr::Negative(a) => {
            let value = evaluate(a, p, work)?;
            Some(if value == 0 { 0 } else { p - value })
        }
        Expr::Power(base, by) => {
            *work = work.checked_sub(POWER_WORK)?;
            let base = evaluate(base, p, work)?;
            let (by, negative) = match &**by {
                Expr::Negative(by) => (&**by, true),
                by => (by, false),
            };
            let Expr::Number(n) = by else { return None };
            if !n.denom().is_one() || base == 0 {
                return None;
            }
            let value = raised(base, residue(&n.to_integer(), p - 1)?, p);
            if negative { inverse(value, p) } else { Some(value) }
        }
        Expr::Call(name, arguments) if name == "factorial" => match &arguments[..] {
            [Expr::Number(n)] if n.denom().is_one() => {
                let n = n.to_integer().to_u64().filter(|n| *n <= 5000)?;
                *work = work.checked_sub(n as u32 / 4)?;
                Some((2..=n).fold(1, |product, k| times(product, k, p)))
            }
            _ => None,
        },
        Expr::Call(..) | Expr::Degrees(_) => None,
    }
}

fn inverse(a: u64, p: u64) -> Option<u64> {
    (a != 0).then(|| raised(a, p - 2, p))
}
