//! Formulas as quotients of polynomials: roots, powers, logarithms and trigonometry become atoms
//! with the relations that are known of them. Equal normal forms are equal; what has none within
//! the bounds on work gives none.

use crate::number::{binomial, factorial, factors};
use crate::polynomial::{Algebra, Atom, Exponent, Monomial, Poly, Quotient, as_constant, constant, exponent};
use crate::syntax::{Expr, Rational};
use num_integer::Integer;
use num_traits::{CheckedMul, One, Signed, ToPrimitive, Zero};

impl Algebra {
    /// The normal form of a formula; none when it is undefined or too large.
    pub fn normal(&mut self, expr: &Expr) -> Option<Quotient> {
        match expr {
            Expr::Number(n) => Some(Quotient::number(n.clone())),
            Expr::Symbol(name) if name == "i" => Some(self.atomic(Atom::Imaginary)),
            Expr::Symbol(name) => Some(self.atomic(Atom::Symbol(name.clone()))),
            Expr::Sum(terms) => {
                let mut sum = Quotient::integer(0);
                for term in terms {
                    let term = self.normal(term)?;
                    sum = self.add(&sum, &term)?;
                }
                Some(sum)
            }
            Expr::Product(items) => {
                let mut product = Quotient::integer(1);
                for item in items {
                    let item = self.normal(item)?;
                    product = self.mul(&product, &item)?;
                }
                Some(product)
            }
            Expr::Quotient(a, b) => {
                let (a, b) = (self.normal(a)?, self.normal(b)?);
                let inverse = self.inverse(&b)?;
                self.mul(&a, &inverse)
            }
            Expr::Negative(a) => {
                let a = self.normal(a)?;
                Some(self.neg(&a))
            }
            Expr::Power(base, by) => {
                let (base, by) = (self.normal(base)?, self.normal(by)?);
                self.power(&base, &by)
            }
            Expr::Degrees(angle) => {
                let angle = self.normal(angle)?;
                let turn = self.pi(Rational::new(1.into(), 180.into()));
                self.mul(&angle, &turn)
            }
            Expr::Call(name, arguments) => {
                let arguments: Vec<Quotient> =
                    arguments.iter().map(|a| self.normal(a)).collect::<Option<_>>()?;
                self.call(name, arguments)
            }
        }
    }

    /// `c pi`
    fn pi(&mut self, c: Rational) -> Quotient {
        let pi = self.atom(Atom::Symbol("pi".into()));
        if c.is_zero() {
            return Quotient::integer(0);
        }
        Quotient::whole(Poly::from([(vec![(pi, Exponent::one())], c)]))
    }

    /// A power, of either sign where it has one.
    pub fn power(&mut self, base: &Quotient, by: &Quotient) -> Option<Quotient> {
        if let Some(q) = by.as_number() {
            if q.is_integer() {
                return self.integer_power(base, q.to_integer().to_i64()?);
            }
            let q = exponent(&q)?;
            let above = self.rational_power(&base.num, q)?;
            let below = self.rational_power(&base.den, q)?;
            let inverse = self.inverse(&below)?;
            return self.mul(&above, &inverse);
        }
        let (Some(bottom), Some(top)) = (base.as_poly(), by.as_poly()) else {
            return Some(self.atomic(Atom::Call("pow".into(), vec![base.clone(), by.clone()])));
        };
        let positive = bottom.len() == 1 && bottom.values().all(|c| c.is_positive());
        if !positive {
            return Some(self.atomic(Atom::Call("pow".into(), vec![base.clone(), by.clone()])));
        }
        let (monomial, c) = bottom.first_key_value()?;
        let mut parts: Vec<(usize, Exponent)> = self.prime_parts(c)?;
        parts.extend(monomial.iter().copied());
        let e = self.atom(Atom::Symbol("e".into()));
        let mut result = Quotient::integer(1);
        for (m, c) in &top {
            let c = exponent(c)?;
            let mut factor = Quotient::integer(1);
            if m.is_empty() {
                factor = self.rational_power(&bottom, c)?;
            } else if parts == [(e, Exponent::one())]
                && let Some(angle) = self.turn(m)
            {
                let angle = Quotient::whole(Poly::from([(
                    angle,
                    Rational::new((*c.numer()).into(), (*c.denom()).into()),
                )]));
                let (sin, cos) = self.sin_cos(&angle)?;
                let i = self.atomic(Atom::Imaginary);
                let imaginary = self.mul(&i, &sin)?;
                factor = self.add(&cos, &imaginary)?;
            } else {
                for &(atom, a) in &parts {
                    let times = c.checked_mul(&a)?;
                    if atom == e
                        && let [(only, one)] = m[..]
                        && one.is_one()
                        && let Atom::Ln(inside) = self.atoms[only].clone()
                    {
                        let times =
                            Quotient::number(Rational::new((*times.numer()).into(), (*times.denom()).into()));
                        let part = self.power(&inside, &times)?;
                        factor = self.mul(&factor, &part)?;
                        continue;
                    }
                    let raised = self.atom(Atom::Power(atom, m.clone()));
                    let part = Quotient::whole(Poly::from([(vec![(raised, times)], Rational::one())]));
                    factor = self.mul(&factor, &part)?;
                }
            }
            result = self.mul(&result, &factor)?;
        }
        Some(result)
    }

    /// What `i` is multiplied by in an exponent of `e`; none where `i` is no factor of it.
    fn turn(&self, m: &Monomial) -> Option<Monomial> {
        let i = self.atoms.iter().position(|a| *a == Atom::Imaginary)?;
        let imaginary = m.iter().any(|f| f.0 == i && f.1.is_one());
        (imaginary && m.len() > 1).then(|| m.iter().filter(|f| f.0 != i).copied().collect())
    }

    /// The prime factors of a positive rational, as atoms.
    fn prime_parts(&mut self, c: &Rational) -> Option<Vec<(usize, Exponent)>> {
        let mut parts = Vec::new();
        for (n, sign) in [(c.numer(), 1), (c.denom(), -1)] {
            for (p, e) in factors(n.magnitude()) {
                parts.push((self.atom(Atom::Prime(p)), Exponent::from_integer(sign * e)));
            }
        }
        Some(parts)
    }

    /// A polynomial to a power that is rational.
    fn rational_power(&mut self, poly: &Poly, q: Exponent) -> Option<Quotient> {
        if q.is_integer() {
            return self.integer_power(&Quotient::whole(poly.clone()), q.to_integer());
        }
        if poly.is_empty() {
            return q.is_positive().then(|| Quotient::integer(0));
        }
        if *q.denom() > 1000 || q.numer().abs() > 100_000 {
            return None;
        }
        if poly.len() == 1 {
            let (m, c) = poly.first_key_value()?;
            let mut result = Quotient::integer(1);
            if c.is_negative() {
                if q.denom().is_odd() {
                    result = Quotient::integer(if q.numer().is_odd() { -1 } else { 1 });
                } else if *q.denom() == 2 {
                    let i = self.atomic(Atom::Imaginary);
                    result = self.integer_power(&i, *q.numer())?;
                } else {
                    return None;
                }
            }
            let mut raised: Monomial = Vec::new();
            let parts = self.prime_parts(&c.abs())?;
            for (atom, e) in parts.into_iter().chain(m.iter().copied()) {
                let times = e.checked_mul(&q)?;
                let signed = match self.atoms[atom] {
                    Atom::Imaginary => return None,
                    Atom::Symbol(ref s) => s != "e" && s != "pi" && s != "infty",
                    Atom::Prime(_) | Atom::Abs(_) | Atom::Radicand(_) | Atom::Power(..) => false,
                    _ => true,
                };
                let even = |e: Exponent| e.is_integer() && e.to_integer() % 2 == 0;
                let mut atom = atom;
                if signed && even(e) && q.denom() % 2 == 0 && !even(times) {
                    let inside =
                        Quotient::whole(Poly::from([(vec![(atom, Exponent::one())], Rational::one())]));
                    atom = self.atom(Atom::Abs(inside));
                }
                match raised.iter_mut().find(|f| f.0 == atom) {
                    Some(known) => known.1 += times,
                    None => raised.push((atom, times)),
                }
            }
            raised.sort();
            let (m, factor) = self.settle(raised)?;
            let root = Quotient::whole(Poly::from([(m, factor)]));
            // Primes that came twice, or radicands that became whole, are settled by the product.
            return self.mul(&result, &root);
        }
        if let Some(root) = self.denested(poly, q) {
            return Some(root);
        }
        // Take the common rational factor out, so that equal radicands look equal.
        let mut content: Option<Rational> = None;
        for c in poly.values() {
            content = Some(match content {
                None => c.abs(),
                Some(known) => Rational::new(known.numer().gcd(c.numer()), known.denom().lcm(c.denom())),
            });
        }
        let content = content?;
        let inside: Poly = poly.iter().map(|(m, c)| (m.clone(), c / &content)).collect();
        let radicand = self.atom(Atom::Radicand(inside));
        // What is whole of the power needs no root.
        let whole = q.floor();
        let root = Poly::from([(vec![(radicand, q - whole)], Rational::one())]);
        let mut result = self.rational_power(&constant(content), q - whole)?;
        result = self.mul(&result, &Quotient::whole(root))?;
        if !whole.is_zero() {
            let outside = self.integer_power(&Quotient::whole(poly.clone()), whole.to_integer())?;
            result = self.mul(&result, &outside)?;
        }
        Some(result)
    }

    /// `sqrt(a + b sqrt(c))` as `sqrt(x) ± sqrt(y)` where `a^2 - b^2 c` is a rational square.
    fn denested(&mut self, poly: &Poly, q: Exponent) -> Option<Quotient> {
        if q != Exponent::new(1, 2) || poly.len() != 2 {
            return None;
        }
        let a = poly.get(&Monomial::new())?.clone();
        let (surd, b) = poly.iter().find(|(m, _)| !m.is_empty())?;
        let (surd, negative) = (Poly::from([(surd.clone(), b.clone())]), b.is_negative());
        let square = as_constant(&self.mul_poly(&surd, &surd)?)?;
        let d = rational_sqrt(&(&a * &a - &square))?;
        let two = Rational::from_integer(2.into());
        let (x, y) = ((&a + &d) / &two, (&a - &d) / &two);
        if !x.is_positive() || !y.is_positive() {
            return None;
        }
        let left = self.rational_power(&constant(x), q)?;
        let right = self.rational_power(&constant(y), q)?;
        if negative { self.sub(&left, &right) } else { self.add(&left, &right) }
    }

    /// Sine and cosine, by the addition formulas and the table of multiples of 15 degrees.
    fn sin_cos(&mut self, angle: &Quotient) -> Option<(Quotient, Quotient)> {
        let pi = self.atom(Atom::Symbol("pi".into()));
        let (mut sin, mut cos) = (Quotient::integer(0), Quotient::integer(1));
        let Some(terms) = angle.as_poly() else {
            return Some((self.atomic(Atom::Sin(angle.clone())), self.atomic(Atom::Cos(angle.clone()))));
        };
        for (m, c) in terms {
            let twelfths = &c * Rational::from_integer(12.into());
            let (mut s, mut k);
            if m == [(pi, Exponent::one())] && twelfths.is_integer() {
                let steps = twelfths.to_integer().mod_floor(&24.into()).to_i64()?;
                s = self.sine_of_twelfths(steps)?;
                k = self.sine_of_twelfths((steps + 6) % 24)?;
            } else {
                if let Some(d) = c.denom().to_i64().filter(|d| *d <= 6) {
                    self.angle_denominators = self.angle_denominators.lcm(&d);
                }
                let unit = Rational::new(1.into(), c.denom().lcm(&self.angle_unit.into()));
                let multiple = (&c / &unit).to_integer();
                let times = multiple.to_i64().filter(|n| n.abs() <= 6 * self.angle_unit && *n != 0);
                let base = match times {
                    Some(_) => unit,
                    None => c.abs(),
                };
                let unit = Quotient::whole(Poly::from([(m, base)]));
                let (s1, k1) = (self.atomic(Atom::Sin(unit.clone())), self.atomic(Atom::Cos(unit)));
                (s, k) = (s1.clone(), k1.clone());
                for _ in 1..times.unwrap_or(1).abs() {
                    (s, k) = self.angle_sum((&s, &k), (&s1, &k1))?;
                }
                if c.is_negative() {
                    s = self.neg(&s);
                }
            }
            (sin, cos) = self.angle_sum((&sin, &cos), (&s, &k))?;
        }
        Some((sin, cos))
    }

    fn angle_sum(
        &mut self,
        a: (&Quotient, &Quotient),
        b: (&Quotient, &Quotient),
    ) -> Option<(Quotient, Quotient)> {
        let (sc, cs) = (self.mul(a.0, b.1)?, self.mul(a.1, b.0)?);
        let (cc, ss) = (self.mul(a.1, b.1)?, self.mul(a.0, b.0)?);
        Some((self.add(&sc, &cs)?, self.sub(&cc, &ss)?))
    }

    /// `sin(k pi / 12)` for `k` in 0..24.
    fn sine_of_twelfths(&mut self, k: i64) -> Option<Quotient> {
        if k >= 12 {
            let positive = self.sine_of_twelfths(k - 12)?;
            return Some(self.neg(&positive));
        }
        let k = if k > 6 { 12 - k } else { k };
        let mut root = |n: i64, below: i64| {
            let root =
                self.rational_power(&constant(Rational::from_integer(n.into())), Exponent::new(1, 2))?;
            self.mul(&root, &Quotient::number(Rational::new(1.into(), below.into())))
        };
        match k {
            0 => Some(Quotient::integer(0)),
            1 | 5 => {
                let (six, two) = (root(6, 4)?, root(2, 4)?);
                if k == 1 { self.sub(&six, &two) } else { self.add(&six, &two) }
            }
            2 => Some(Quotient::number(Rational::new(1.into(), 2.into()))),
            3 => root(2, 2),
            4 => root(3, 2),
            _ => Some(Quotient::integer(1)),
        }
    }

    /// The natural logarithm: of products the sum, of powers the multiple.
    fn ln(&mut self, of: &Quotient) -> Option<Quotient> {
        let above = self.ln_poly(&of.num)?;
        let below = self.ln_poly(&of.den)?;
        self.sub(&above, &below)
    }

    fn ln_poly(&mut self, poly: &Poly) -> Option<Quotient> {
        let opaque = |algebra: &mut Self| Some(algebra.atomic(Atom::Ln(Quotient::whole(poly.clone()))));
        if poly.is_empty() {
            return None;
        }
        if poly.len() > 1 {
            return opaque(self);
        }
        let (m, c) = poly.first_key_value()?;
        if !c.is_positive() {
            return opaque(self);
        }
        let mut sum = Quotient::integer(0);
        let parts = self.prime_parts(c)?;
        for (atom, e) in parts.into_iter().chain(m.iter().copied()) {
            let times = Quotient::number(Rational::new((*e.numer()).into(), (*e.denom()).into()));
            let even = e.is_integer() && e.to_integer() % 2 == 0;
            let one = match self.atoms[atom].clone() {
                Atom::Symbol(name) if name == "e" => Quotient::integer(1),
                Atom::Power(base, monomial) if matches!(&self.atoms[base], Atom::Symbol(s) if s == "e") => {
                    Quotient::whole(Poly::from([(monomial, Rational::one())]))
                }
                kind => {
                    let mut inside =
                        Quotient::whole(Poly::from([(vec![(atom, Exponent::one())], Rational::one())]));
                    let positive = matches!(&kind, Atom::Prime(_) | Atom::Abs(_) | Atom::Power(..))
                        || matches!(&kind, Atom::Symbol(s) if s == "pi");
                    if even && !positive {
                        inside = self.atomic(Atom::Abs(inside));
                    }
                    if let Atom::Prime(p) = kind {
                        inside = Quotient::number(Rational::from_integer(p.into()));
                    }
                    self.atomic(Atom::Ln(inside))
                }
            };
            let part = self.mul(&times, &one)?;
            sum = self.add(&sum, &part)?;
        }
        Some(sum)
    }

    fn call(&mut self, name: &str, arguments: Vec<Quotient>) -> Option<Quotient> {
        if name.starts_with('?') || name == "base" {
            return Some(self.function(name, arguments));
        }
        if arguments.len() != 1 {
            return self.of_many(name, arguments);
        }
        let argument = arguments.into_iter().next()?;
        let number = argument.as_number();
        let whole = number.as_ref().filter(|n| n.is_integer()).map(|n| n.to_integer());
        match name {
            "sin" | "cos" | "tan" | "sec" | "csc" | "cot" => {
                let (sin, cos) = self.sin_cos(&argument)?;
                let (above, below) = match name {
                    "sin" => return Some(sin),
                    "cos" => return Some(cos),
                    "tan" => (sin, cos),
                    "cot" => (cos, sin),
                    "sec" => (Quotient::integer(1), cos),
                    _ => (Quotient::integer(1), sin),
                };
                let inverse = self.inverse(&below)?;
                self.mul(&above, &inverse)
            }
            "arcsin" | "arccos" | "arctan" => {
                let steps = match name {
                    "arcsin" => -6..=6,
                    "arccos" => 0..=12,
                    _ => -5..=5,
                };
                if argument.num.len() <= 2 {
                    for k in steps {
                        let angle = self.pi(Rational::new(k.into(), 12.into()));
                        let value = self.call(&name[3..], vec![angle.clone()])?;
                        if self.equal(&value, &argument)? {
                            return Some(angle);
                        }
                    }
                }
                Some(self.function(name, vec![argument]))
            }
            "ln" | "log" => self.ln(&argument),
            "abs" => {
                if let Some(n) = number {
                    return Some(Quotient::number(n.abs()));
                }
                if let Some(i) = self.atoms.iter().position(|a| *a == Atom::Imaginary)
                    && argument.num.keys().chain(argument.den.keys()).flatten().any(|f| f.0 == i)
                {
                    return self.modulus(&argument, i);
                }
                let first_negative = argument.num.values().next().is_some_and(|c| c.is_negative());
                let inside = if first_negative { self.neg(&argument) } else { argument };
                if inside.num.len() == 1 && inside.den.len() == 1 && self.is_positive(&inside) {
                    return Some(inside);
                }
                Some(self.atomic(Atom::Abs(inside)))
            }
            "factorial" => match whole {
                Some(n) => Some(Quotient::number(Rational::from_integer(factorial(n.to_u64()?)?))),
                None => self.symbolic_factorial(argument),
            },
            "floor" | "ceil" => match number {
                Some(n) => Some(Quotient::number(if name == "floor" { n.floor() } else { n.ceil() })),
                None => Some(self.function(name, vec![argument])),
            },
            _ => Some(self.function(name, vec![argument])),
        }
    }

    /// The absolute value of a complex number of real parts; none where a name might be complex, too.
    fn modulus(&mut self, of: &Quotient, i: usize) -> Option<Quotient> {
        let den = as_constant(&of.den)?;
        let (mut real, mut imaginary) = (Poly::new(), Poly::new());
        for (monomial, c) in &of.num {
            let rest: Monomial = monomial.iter().filter(|f| f.0 != i).copied().collect();
            let is_real = |f: &(usize, Exponent)| match &self.atoms[f.0] {
                Atom::Prime(_) => true,
                Atom::Symbol(name) => matches!(name.as_str(), "pi" | "e"),
                _ => false,
            };
            if !rest.iter().all(is_real) {
                return None;
            }
            let part = if rest.len() == monomial.len() { &mut real } else { &mut imaginary };
            part.insert(rest, c / &den);
        }
        let (a, b) = (self.mul_poly(&real, &real)?, self.mul_poly(&imaginary, &imaginary)?);
        let square = self.add_poly(&a, &b)?;
        self.rational_power(&square, Exponent::new(1, 2))
    }

    /// `(u + k)!` as `u!` times what lies between, `u` without a constant.
    fn symbolic_factorial(&mut self, argument: Quotient) -> Option<Quotient> {
        let shift = argument.as_poly().and_then(|p| p.get(&Monomial::new()).cloned());
        let shift =
            shift.filter(|k| k.is_integer()).and_then(|k| k.to_integer().to_i64()).filter(|k| k.abs() <= 8);
        let Some(k) = shift else { return Some(self.function("factorial", vec![argument])) };
        let base = self.sub(&argument, &Quotient::integer(k))?;
        let mut value = self.function("factorial", vec![base.clone()]);
        for j in 1..=k {
            let factor = self.add(&base, &Quotient::integer(j))?;
            value = self.mul(&value, &factor)?;
        }
        for j in 0..-k {
            let factor = self.sub(&base, &Quotient::integer(j))?;
            let inverse = self.inverse(&factor)?;
            value = self.mul(&value, &inverse)?;
        }
        Some(value)
    }

    /// A product of primes, roots, `e` and `pi`.
    fn is_positive(&self, single: &Quotient) -> bool {
        let sure = |atom: usize| match &self.atoms[atom] {
            Atom::Prime(_) | Atom::Abs(_) => true,
            Atom::Symbol(s) => s == "e" || s == "pi",
            _ => false,
        };
        [&single.num, &single.den].iter().all(|p| p.keys().flatten().all(|f| sure(f.0)))
    }

    fn function(&mut self, name: &str, arguments: Vec<Quotient>) -> Quotient {
        // Arguments that are equal but written as other quotients are one function value.
        let known: Vec<(usize, Vec<Quotient>)> = self
            .atoms
            .iter()
            .enumerate()
            .filter_map(|(i, atom)| match atom {
                Atom::Call(n, a) if n == name && a.len() == arguments.len() => Some((i, a.clone())),
                _ => None,
            })
            .collect();
        for (i, other) in known {
            if other.iter().zip(&arguments).all(|(a, b)| self.equal(a, b) == Some(true)) {
                return Quotient::whole(Poly::from([(vec![(i, Exponent::one())], Rational::one())]));
            }
        }
        self.atomic(Atom::Call(name.to_owned(), arguments))
    }

    fn of_many(&mut self, name: &str, arguments: Vec<Quotient>) -> Option<Quotient> {
        if let ("binom", [n, k]) = (name, &arguments[..])
            && n.as_number().is_none()
            && let Some(k) = k.as_number().filter(|k| k.is_integer()).and_then(|k| k.to_integer().to_i64())
            && (0..=6).contains(&k)
        {
            // `n (n - 1) … / k!`
            let mut value = Quotient::number(Rational::new(1.into(), factorial(k as u64)?));
            for j in 0..k {
                let factor = self.sub(n, &Quotient::integer(j))?;
                value = self.mul(&value, &factor)?;
            }
            return Some(value);
        }
        let numbers: Option<Vec<Rational>> = arguments.iter().map(Quotient::as_number).collect();
        let Some(numbers) = numbers else { return Some(self.function(name, arguments)) };
        let value = match (name, &numbers[..]) {
            ("binom", [n, k]) if n.is_integer() && k.is_integer() => {
                Rational::from_integer(binomial(n.to_integer().to_u64()?, k.to_integer().to_u64()?)?)
            }
            ("max", _) => numbers.into_iter().max()?,
            ("min", _) => numbers.into_iter().min()?,
            ("gcd" | "lcm", [first, rest @ ..]) if numbers.iter().all(|n| n.is_integer()) => {
                Rational::from_integer(rest.iter().fold(first.to_integer(), |known, n| match name {
                    "gcd" => known.gcd(&n.to_integer()),
                    _ => known.lcm(&n.to_integer()),
                }))
            }
            _ => return Some(self.function(name, arguments)),
        };
        Some(Quotient::number(value))
    }
}

/// The square root of a rational square.
fn rational_sqrt(q: &Rational) -> Option<Rational> {
    if q.is_negative() {
        return None;
    }
    let (above, below) = (q.numer().sqrt(), q.denom().sqrt());
    (&above * &above == *q.numer() && &below * &below == *q.denom()).then(|| Rational::new(above, below))
}
