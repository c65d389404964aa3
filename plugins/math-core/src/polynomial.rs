//! Polynomials over exact rationals whose unknowns are atoms: variables, constants, primes under
//! roots, and functions of other normal forms.
//!
//! Exponents are rational. A prime keeps an exponent in [0, 1): whole powers go to the coefficient,
//! so sums of roots of rationals have one form only. `i` and sines are reduced by `i^2 = -1` and
//! `sin^2 = 1 - cos^2`. All work is counted and refused beyond a budget.

use crate::number::MAX_BITS;
use crate::syntax::Rational;
use num_bigint::{BigInt, BigUint};
use num_rational::Ratio;
use num_traits::{CheckedAdd, CheckedMul, One, Signed, ToPrimitive, Zero};
use std::collections::BTreeMap;

/// An exponent.
pub type Exponent = Ratio<i64>;
/// Atoms by their index, ascending, with their exponents.
pub type Monomial = Vec<(usize, Exponent)>;
/// Monomials with their coefficients, none of them 0.
pub type Poly = BTreeMap<Monomial, Rational>;

/// More terms than this are not expanded.
const MAX_TERMS: usize = 300;

/// A quotient of polynomials.
#[derive(Clone, Debug, PartialEq)]
pub struct Quotient {
    /// Numerator.
    pub num: Poly,
    /// Denominator, never empty.
    pub den: Poly,
}

/// What an unknown stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// A variable or a constant.
    Symbol(String),
    /// A prime (or a large integer whose factors are not known).
    Prime(BigUint),
    /// The imaginary unit.
    Imaginary,
    /// A sine.
    Sin(Quotient),
    /// A cosine.
    Cos(Quotient),
    /// The natural logarithm.
    Ln(Quotient),
    /// A polynomial under a root.
    Radicand(Poly),
    /// An absolute value.
    Abs(Quotient),
    /// An atom raised to a monomial.
    Power(usize, Monomial),
    /// Any other function.
    Call(String, Vec<Quotient>),
}

/// The atoms that the two sides of a comparison share, and the work that is left.
pub struct Algebra {
    /// By index.
    pub atoms: Vec<Atom>,
    budget: u64,
    /// Angles are multiples of a term over this.
    pub angle_unit: i64,
    /// Least common multiple of the denominators of angles.
    pub angle_denominators: i64,
}

/// A constant polynomial.
pub fn constant(c: Rational) -> Poly {
    let mut poly = Poly::new();
    if !c.is_zero() {
        poly.insert(Monomial::new(), c);
    }
    poly
}

/// The constant that a polynomial is.
pub fn as_constant(poly: &Poly) -> Option<Rational> {
    match poly.len() {
        0 => Some(Rational::zero()),
        1 => poly.get(&Monomial::new()).cloned(),
        _ => None,
    }
}

impl Quotient {
    /// A polynomial over 1.
    pub fn whole(num: Poly) -> Quotient {
        Quotient { num, den: constant(Rational::one()) }
    }

    /// A rational number.
    pub fn number(c: Rational) -> Quotient {
        Quotient::whole(constant(c))
    }

    /// A small integer.
    pub fn integer(n: i64) -> Quotient {
        Quotient::number(Rational::from_integer(n.into()))
    }

    /// The rational number that this is.
    pub fn as_number(&self) -> Option<Rational> {
        Some(as_constant(&self.num)? / as_constant(&self.den).filter(|d| !d.is_zero())?)
    }

    /// The polynomial that this is.
    pub fn as_poly(&self) -> Option<Poly> {
        let den = as_constant(&self.den).filter(|d| !d.is_zero())?;
        if den.is_one() {
            return Some(self.num.clone());
        }
        Some(self.num.iter().map(|(m, c)| (m.clone(), c / &den)).collect())
    }
}

/// Units of work in a product: what reduces it, greatest common divisors, is quadratic in the size.
fn cost(c: &Rational, d: &Rational) -> u64 {
    let divisor = |a: u64, b: u64| if a.min(b) <= 64 { 0 } else { ((a + b) / 64).pow(2) / 4 };
    let (above, below) = (c.numer().bits(), c.denom().bits());
    let (other, under) = (d.numer().bits(), d.denom().bits());
    (above + other) / 128 + divisor(above, under) + divisor(other, below)
}

fn small(c: Rational) -> Option<Rational> {
    (c.numer().bits() <= MAX_BITS && c.denom().bits() <= MAX_BITS).then_some(c)
}

/// `base^n`, or none when it would be too large.
pub fn power(base: &Rational, n: i64) -> Option<Rational> {
    let bits = base.numer().bits().max(base.denom().bits());
    if base.is_zero() {
        return (n > 0).then(Rational::zero);
    }
    if base.abs().is_one() {
        return Some(if n % 2 == 0 { Rational::one() } else { base.clone() });
    }
    if bits.saturating_sub(1).max(1).saturating_mul(n.unsigned_abs()) > MAX_BITS {
        return None;
    }
    small(base.pow(i32::try_from(n).ok()?))
}

impl Algebra {
    /// An algebra that may do so many multiplications of small coefficients.
    pub fn with_budget(budget: u64) -> Algebra {
        Algebra { atoms: Vec::new(), budget, angle_unit: 1, angle_denominators: 1 }
    }

    /// The work that is left.
    pub fn budget_left(&self) -> u64 {
        self.budget
    }

    /// The algebra in which angles are read as multiples of a term over `parts`.
    pub fn with_angle_parts(self, parts: i64) -> Algebra {
        Algebra { angle_unit: parts, ..self }
    }

    /// By what angles should be divided to have them in common, if that may help.
    pub fn angle_parts(&self) -> Option<i64> {
        (2..=6).contains(&self.angle_denominators).then_some(self.angle_denominators)
    }

    /// Counts work; none when the budget is spent.
    pub fn spend(&mut self, work: u64) -> Option<()> {
        self.budget = self.budget.checked_sub(work)?;
        Some(())
    }

    /// The index of an atom.
    pub fn atom(&mut self, atom: Atom) -> usize {
        if let Some(i) = self.atoms.iter().position(|a| *a == atom) {
            return i;
        }
        self.atoms.push(atom);
        self.atoms.len() - 1
    }

    /// An atom as a normal form.
    pub fn atomic(&mut self, atom: Atom) -> Quotient {
        let i = self.atom(atom);
        Quotient::whole(Poly::from([(vec![(i, Exponent::one())], Rational::one())]))
    }

    /// The sum of two polynomials.
    pub fn add_poly(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        self.spend((a.len() + b.len()) as u64)?;
        let mut sum = a.clone();
        for (m, c) in b {
            if let Some(d) = a.get(m) {
                self.spend(cost(c, d))?;
            }
            add_term(&mut sum, m.clone(), c.clone())?;
        }
        (sum.len() <= MAX_TERMS).then_some(sum)
    }

    /// The product of two polynomials, reduced.
    pub fn mul_poly(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        let mut product = Poly::new();
        for (m, c) in a {
            for (n, d) in b {
                self.spend(1 + cost(c, d))?;
                let (monomial, factor) = self.mul_monomial(m, n)?;
                let product_of = c * d;
                let coefficient = if factor.is_one() { product_of } else { product_of * factor };
                add_term(&mut product, monomial, coefficient)?;
                if product.len() > MAX_TERMS {
                    return None;
                }
            }
        }
        self.reduce(product)
    }

    fn mul_monomial(&self, m: &Monomial, n: &Monomial) -> Option<(Monomial, Rational)> {
        let mut merged = m.clone();
        for &(atom, e) in n {
            match merged.binary_search_by_key(&atom, |f| f.0) {
                Ok(i) => merged[i].1 = merged[i].1.checked_add(&e)?,
                Err(i) => merged.insert(i, (atom, e)),
            }
        }
        self.settle(merged)
    }

    /// Takes whole powers of primes and of `i` out of a monomial.
    pub fn settle(&self, monomial: Monomial) -> Option<(Monomial, Rational)> {
        let mut factor = Rational::one();
        let mut rest = Monomial::new();
        for (atom, mut e) in monomial {
            match &self.atoms[atom] {
                Atom::Prime(p) => {
                    let whole = e.floor();
                    if let Some(power) =
                        power(&Rational::from_integer(BigInt::from(p.clone())), whole.to_integer())
                    {
                        factor = small(factor * power)?;
                        e -= whole;
                    }
                }
                Atom::Imaginary if e.is_integer() => {
                    let turns = e.to_integer().rem_euclid(4);
                    if turns >= 2 {
                        factor = -factor;
                    }
                    e = Exponent::from_integer(turns % 2);
                }
                _ => {}
            }
            if !e.is_zero() {
                rest.push((atom, e));
            }
        }
        Some((rest, factor))
    }

    /// Replaces powers that a relation reduces, until none is left.
    fn reduce(&mut self, mut poly: Poly) -> Option<Poly> {
        loop {
            let found = poly.iter().find_map(|(m, _)| {
                let reducible = |&&(atom, e): &&(usize, Exponent)| match self.atoms[atom] {
                    Atom::Sin(_) | Atom::Abs(_) => e.is_integer() && e >= Exponent::from_integer(2),
                    Atom::Radicand(_) => e >= Exponent::one(),
                    _ => false,
                };
                m.iter().find(reducible).map(|&(atom, e)| (m.clone(), atom, e))
            });
            let Some((m, atom, e)) = found else { return Some(poly) };
            self.spend(1)?;
            let c = poly.remove(&m)?;
            let (step, by) = match self.atoms[atom].clone() {
                Atom::Sin(arg) => {
                    let cos = self.atom(Atom::Cos(arg));
                    let mut one_less = constant(Rational::one());
                    one_less.insert(vec![(cos, Exponent::from_integer(2))], -Rational::one());
                    (2, one_less)
                }
                Atom::Abs(arg) => {
                    let arg = arg.as_poly()?;
                    (2, self.mul_poly(&arg, &arg)?)
                }
                Atom::Radicand(inside) => (1, inside),
                _ => return None,
            };
            let mut rest = m;
            let i = rest.iter().position(|f| f.0 == atom)?;
            rest[i].1 = e - Exponent::from_integer(step);
            rest.retain(|f| !f.1.is_zero());
            let expanded = self.mul_poly(&Poly::from([(rest, c)]), &by)?;
            poly = self.add_poly(&poly, &expanded)?;
        }
    }

    /// Whether a polynomial is 0 once its negative powers are cleared.
    pub fn is_zero(&mut self, poly: &Poly) -> Option<bool> {
        if poly.is_empty() {
            return Some(true);
        }
        let mut clear = Monomial::new();
        for (atom, kind) in self.atoms.iter().enumerate() {
            if matches!(kind, Atom::Sin(_) | Atom::Abs(_) | Atom::Radicand(_)) {
                let exponent = |m: &Monomial| m.iter().find(|f| f.0 == atom).map(|f| f.1);
                let least = poly.keys().filter_map(exponent).min().filter(|e| *e < Exponent::zero());
                clear.extend(least.map(|e| (atom, -e)));
            }
        }
        if clear.is_empty() {
            return Some(false);
        }
        Some(self.mul_poly(poly, &Poly::from([(clear, Rational::one())]))?.is_empty())
    }

    /// Whether two normal forms are equal.
    pub fn equal(&mut self, a: &Quotient, b: &Quotient) -> Option<bool> {
        let difference = self.sub(a, b)?;
        self.is_zero(&difference.num)
    }

    /// Minus a normal form.
    pub fn neg(&self, a: &Quotient) -> Quotient {
        Quotient { num: a.num.iter().map(|(m, c)| (m.clone(), -c)).collect(), den: a.den.clone() }
    }

    /// The sum.
    pub fn add(&mut self, a: &Quotient, b: &Quotient) -> Option<Quotient> {
        if a.den == b.den {
            return Some(Quotient { num: self.add_poly(&a.num, &b.num)?, den: a.den.clone() });
        }
        let left = self.mul_poly(&a.num, &b.den)?;
        let right = self.mul_poly(&b.num, &a.den)?;
        Some(Quotient { num: self.add_poly(&left, &right)?, den: self.mul_poly(&a.den, &b.den)? })
    }

    /// The difference.
    pub fn sub(&mut self, a: &Quotient, b: &Quotient) -> Option<Quotient> {
        let b = self.neg(b);
        self.add(a, &b)
    }

    /// The product.
    pub fn mul(&mut self, a: &Quotient, b: &Quotient) -> Option<Quotient> {
        Some(Quotient { num: self.mul_poly(&a.num, &b.num)?, den: self.mul_poly(&a.den, &b.den)? })
    }

    /// One over a normal form; none for 0.
    pub fn inverse(&mut self, a: &Quotient) -> Option<Quotient> {
        if self.is_zero(&a.num)? {
            return None;
        }
        if a.num.len() == 1 {
            let (m, c) = a.num.first_key_value()?;
            let flipped = m.iter().map(|&(atom, e)| (atom, -e)).collect();
            let (m, factor) = self.settle(flipped)?;
            let inverse = Poly::from([(m, factor / c)]);
            return Some(Quotient::whole(self.mul_poly(&inverse, &a.den)?));
        }
        Some(Quotient { num: a.den.clone(), den: a.num.clone() })
    }

    /// An integer power by squaring.
    pub fn integer_power(&mut self, a: &Quotient, n: i64) -> Option<Quotient> {
        if n < 0 {
            let inverse = self.inverse(a)?;
            return self.integer_power(&inverse, n.checked_neg()?);
        }
        if n == 0 && self.is_zero(&a.num)? {
            return None;
        }
        if a.num.len() == 1 && a.den.len() == 1 {
            let one_power = |algebra: &Self, poly: &Poly| -> Option<Poly> {
                let (m, c) = poly.first_key_value()?;
                let raised: Option<Monomial> = m
                    .iter()
                    .map(|&(atom, e)| Some((atom, e.checked_mul(&Exponent::from_integer(n))?)))
                    .collect();
                let (m, factor) = algebra.settle(raised?)?;
                let c = small(power(c, n)? * factor)?;
                Some(Poly::from([(m, c)]))
            };
            self.spend(8)?;
            let (num, den) = (one_power(self, &a.num)?, one_power(self, &a.den)?);
            return Some(Quotient { num: self.reduce(num)?, den: self.reduce(den)? });
        }
        if n > 64 {
            return None;
        }
        let mut result = Quotient::integer(1);
        let mut square = a.clone();
        let mut left = n;
        while left > 0 {
            if left & 1 == 1 {
                result = self.mul(&result, &square)?;
            }
            left >>= 1;
            if left > 0 {
                square = self.mul(&square, &square)?;
            }
        }
        Some(result)
    }
}

fn add_term(poly: &mut Poly, monomial: Monomial, c: Rational) -> Option<()> {
    use std::collections::btree_map::Entry;
    match poly.entry(monomial) {
        Entry::Vacant(entry) => {
            if !c.is_zero() {
                entry.insert(small(c)?);
            }
        }
        Entry::Occupied(mut entry) => {
            let sum = small(entry.get() + c)?;
            if sum.is_zero() {
                entry.remove();
            } else {
                entry.insert(sum);
            }
        }
    }
    Some(())
}

/// An exact rational as an exponent.
pub fn exponent(q: &Rational) -> Option<Exponent> {
    Some(Exponent::new(
        q.numer().to_i64().filter(|n| n.abs() < 1 << 40)?,
        q.denom().to_i64().filter(|d| *d < 1 << 20)?,
    ))
}
