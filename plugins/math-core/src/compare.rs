//! Equality of answers, by type. Symmetric; nothing is rounded.

use crate::field;
use crate::polynomial::{Algebra, Poly};
use crate::syntax::{Expr, Measure, Rational, Relation, Value};
use crate::units;
use num_bigint::BigInt;
use num_traits::{One, Signed};

/// Lists longer than this are compared in order only.
const MAX_UNORDERED: usize = 64;

/// Whether two answers are the same.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Scalar(x, m), Value::Scalar(y, n)) => quantities(x, m, y, n),
        (Value::Text(x), Value::Text(y)) => words(x) == words(y),
        (Value::Tuple(o, xs, c), Value::Tuple(p, ys, d)) => {
            // Two items may be an interval, whose brackets matter.
            xs.len() == ys.len() && (xs.len() > 2 || o == p && c == d) && in_order(xs, ys)
        }
        (Value::List(xs), Value::List(ys)) => lists(xs, ys),
        (Value::Set(xs) | Value::List(xs), Value::Set(ys) | Value::List(ys)) => {
            unordered(&distinct(xs), &distinct(ys))
        }
        (Value::Union(xs), Value::Union(ys)) => unordered(xs, ys),
        (Value::Ratio(xs), Value::Ratio(ys)) => ratios(xs, ys),
        (Value::Matrix(d, xs), Value::Matrix(e, ys)) => {
            d == e && xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| in_order(x, y))
        }
        (Value::Chain(xs, r), Value::Chain(ys, s)) => chains((xs, r), (ys, s)),
        (Value::Chain(xs, r), other) | (other, Value::Chain(xs, r)) => {
            assigned(xs, r).is_some_and(|right| same(right, other))
                || interval(xs, r).is_some_and(|range| same(&range, other))
        }
        (Value::List(xs), Value::Tuple(_, ys, _)) | (Value::Tuple(_, ys, _), Value::List(xs)) => {
            names(xs).is_some() && in_order(xs, ys)
        }
        (Value::List(xs), Value::Union(ys)) | (Value::Union(ys), Value::List(xs)) => {
            let ranges: Option<Vec<Value>> = xs
                .iter()
                .map(|x| match x {
                    Value::Chain(sides, relations) => interval(sides, relations),
                    _ => None,
                })
                .collect();
            ranges.is_some_and(|ranges| unordered(&ranges, ys))
        }
        (Value::Set(xs), other) | (other, Value::Set(xs)) => matches!(&xs[..], [one] if same(one, other)),
        _ => false,
    }
}

/// Lowercase words without marks between them.
pub fn words(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn in_order(xs: &[Value], ys: &[Value]) -> bool {
    xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| same(x, y))
}

fn distinct(xs: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for x in xs {
        if xs.len() > MAX_UNORDERED || !kept.iter().any(|k| same(k, x)) {
            kept.push(x.clone());
        }
    }
    kept
}

/// Equal in any order. Equality need not be transitive (units may be left out), so a pairing is
/// looked for by augmenting paths rather than greedily.
fn unordered(xs: &[Value], ys: &[Value]) -> bool {
    if xs.len() != ys.len() {
        return false;
    }
    if xs.len() > MAX_UNORDERED {
        return in_order(xs, ys);
    }
    let fits: Vec<Vec<bool>> = xs.iter().map(|x| ys.iter().map(|y| same(x, y)).collect()).collect();
    let mut partner: Vec<Option<usize>> = vec![None; ys.len()];
    fn place(x: usize, fits: &[Vec<bool>], partner: &mut [Option<usize>], seen: &mut [bool]) -> bool {
        for y in 0..partner.len() {
            if fits[x][y] && !seen[y] {
                seen[y] = true;
                if partner[y].is_none_or(|other| place(other, fits, partner, seen)) {
                    partner[y] = Some(x);
                    return true;
                }
            }
        }
        false
    }
    (0..xs.len()).all(|x| place(x, &fits, &mut partner, &mut vec![false; ys.len()]))
}

/// Lists in any order, but values of different names in the order of the names.
fn lists(xs: &[Value], ys: &[Value]) -> bool {
    match (names(xs), names(ys)) {
        (None, None) | (Some(_), Some(_)) => unordered(xs, ys),
        _ => in_order(xs, ys),
    }
}

/// The different names that a list assigns values to, if it does nothing else.
fn names(xs: &[Value]) -> Option<Vec<&Value>> {
    let mut names = Vec::new();
    for x in xs {
        match x {
            Value::Chain(sides, relations) if assigned(sides, relations).is_some() => {
                let name = sides.first()?;
                if names.contains(&name) {
                    return None;
                }
                names.push(name);
            }
            _ => return None,
        }
    }
    Some(names)
}

/// What `x = 5`, `(p, q) = (3, 2)`, `x \in [0, 1]` and `4 - 7 = -3` say: their last side.
fn assigned<'v>(sides: &'v [Value], relations: &[Relation]) -> Option<&'v Value> {
    let (first, last) = (sides.first()?, sides.last()?);
    let equal = relations.iter().all(|r| *r == Relation::Equal);
    let is_name = |value: &Value| matches!(value, Value::Scalar(expr, _) if expr.is_name());
    let named = match first {
        Value::Tuple(_, items, _) => items.iter().all(is_name),
        Value::Text(_) => true,
        other => is_name(other),
    };
    if named && (equal || relations == [Relation::In]) {
        return Some(last);
    }
    // A computation: all sides constant, and the equation true.
    let constant = |value: &Value| matches!(value, Value::Scalar(expr, _) if !expr.has_variable());
    (equal && sides.iter().all(constant) && sides.windows(2).all(|w| same(&w[0], &w[1]))).then_some(last)
}

/// `x > 1`, `0 \le x < 2` as intervals.
fn interval(sides: &[Value], relations: &[Relation]) -> Option<Value> {
    let is_name = |value: &Value| matches!(value, Value::Scalar(expr, _) if expr.is_name());
    let constant = |value: &Value| matches!(value, Value::Scalar(expr, _) if !expr.has_variable());
    let strict = |r: Relation| matches!(r, Relation::Less | Relation::Greater);
    let rising = |r: Relation| matches!(r, Relation::Less | Relation::LessEqual);
    let falling = |r: Relation| matches!(r, Relation::Greater | Relation::GreaterEqual);
    let infinity = |sign: i64| {
        let infinity = Expr::Symbol("infty".into());
        let expr = if sign < 0 { Expr::Negative(Box::new(infinity)) } else { infinity };
        Value::Scalar(expr, Measure::default())
    };
    let range = |low: Value, low_open: bool, high: Value, high_open: bool| {
        Value::Tuple(if low_open { '(' } else { '[' }, vec![low, high], if high_open { ')' } else { ']' })
    };
    match (sides, relations) {
        ([x, bound], &[r]) if is_name(x) && constant(bound) => {
            one_sided(bound, r, rising, falling, strict, infinity, range)
        }
        ([bound, x], &[r]) if is_name(x) && constant(bound) => {
            one_sided(bound, r.flipped(), rising, falling, strict, infinity, range)
        }
        ([low, x, high], &[r, s]) if is_name(x) && constant(low) && constant(high) => {
            if rising(r) && rising(s) {
                Some(range(low.clone(), strict(r), high.clone(), strict(s)))
            } else if falling(r) && falling(s) {
                Some(range(high.clone(), strict(s), low.clone(), strict(r)))
            } else {
                None
            }
        }
        _ => None,
    }
}

fn one_sided(
    bound: &Value,
    r: Relation,
    rising: impl Fn(Relation) -> bool,
    falling: impl Fn(Relation) -> bool,
    strict: impl Fn(Relation) -> bool,
    infinity: impl Fn(i64) -> Value,
    range: impl Fn(Value, bool, Value, bool) -> Value,
) -> Option<Value> {
    if rising(r) {
        Some(range(infinity(-1), true, bound.clone(), strict(r)))
    } else if falling(r) {
        Some(range(bound.clone(), strict(r), infinity(1), true))
    } else {
        None
    }
}

fn ratios(xs: &[Value], ys: &[Value]) -> bool {
    let exprs = |vs: &[Value]| -> Option<Vec<Expr>> {
        vs.iter()
            .map(|v| match v {
                Value::Scalar(e, m) if *m == Measure::default() => Some(e.clone()),
                _ => None,
            })
            .collect()
    };
    let (Some(xs), Some(ys)) = (exprs(xs), exprs(ys)) else { return in_order(xs, ys) };
    let times = |a: &Expr, b: &Expr| Expr::Product(vec![a.clone(), b.clone()]);
    xs.len() == ys.len()
        && (xs == ys || xs.iter().zip(&ys).all(|(x, y)| expressions(&times(x, &ys[0]), &times(y, &xs[0]))))
}

fn chains(a: (&[Value], &[Relation]), b: (&[Value], &[Relation])) -> bool {
    let flipped = |(sides, relations): (&[Value], &[Relation])| {
        let sides: Vec<Value> = sides.iter().rev().cloned().collect();
        let relations: Vec<Relation> = relations.iter().rev().map(|r| r.flipped()).collect();
        (sides, relations)
    };
    if a.1 == b.1 && in_order(a.0, b.0) {
        return true;
    }
    let (turned, relations) = flipped(b);
    if !a.1.contains(&Relation::In) && a.1 == &relations[..] && in_order(a.0, &turned) {
        return true;
    }
    if let (Some(x), Some(y)) = (interval(a.0, a.1), interval(b.0, b.1)) {
        let name =
            |sides: &[Value]| sides.iter().find(|v| matches!(v, Value::Scalar(e, _) if e.is_name())).cloned();
        if name(a.0) == name(b.0) {
            return same(&x, &y);
        }
    }
    if let ([l, r], [m, s], &[p], &[q]) = (a.0, b.0, a.1, b.1) {
        return relations_agree((l, r, p), (m, s, q)).unwrap_or(false)
            || mixed_interval(a, b)
            || mixed_interval(b, a);
    }
    if mixed_interval(a, b) || mixed_interval(b, a) {
        return true;
    }
    // `y = x(x+1) = x^2+x` against `y = x^2+x`.
    let equal = |r: &[Relation]| r.iter().all(|r| *r == Relation::Equal);
    match (a.0, b.0) {
        ([first, .., last], [start, .., end]) if equal(a.1) && equal(b.1) => {
            assigned(a.0, a.1).is_some()
                && assigned(b.0, b.1).is_some()
                && same(first, start)
                && same(last, end)
        }
        _ => false,
    }
}

/// `x \ge 1` against `x \in [1, \infty)`.
fn mixed_interval(a: (&[Value], &[Relation]), b: (&[Value], &[Relation])) -> bool {
    match (b.0, b.1) {
        ([name, range], [Relation::In]) => {
            a.0.contains(name) && interval(a.0, a.1).is_some_and(|i| same(&i, range))
        }
        _ => false,
    }
}

/// Two equations, or two inequalities, that differ by a constant factor.
fn relations_agree(a: (&Value, &Value, Relation), b: (&Value, &Value, Relation)) -> Option<bool> {
    let mut algebra = Algebra::default();
    let mut difference = |l: &Value, r: &Value| -> Option<(Poly, Poly)> {
        match (l, r) {
            (Value::Scalar(l, m), Value::Scalar(r, n)) if m == n => {
                let (l, r) = (algebra.normal(l)?, algebra.normal(r)?);
                let d = algebra.sub(&l, &r)?;
                Some((d.num, d.den))
            }
            _ => None,
        }
    };
    let (x, y) = (difference(a.0, a.1)?, difference(b.0, b.1)?);
    let (p, q) = (algebra.mul_poly(&x.0, &y.1)?, algebra.mul_poly(&y.0, &x.1)?);
    if p.is_empty() || q.is_empty() {
        return Some(p.is_empty() && q.is_empty() && a.2 == b.2);
    }
    let ((m, c), (n, d)) = (p.last_key_value()?, q.last_key_value()?);
    if m != n {
        return Some(false);
    }
    let ratio: Rational = c / d;
    let agree = if ratio.is_positive() || matches!(a.2, Relation::Equal | Relation::NotEqual) {
        a.2 == b.2
    } else {
        a.2 == b.2.flipped()
    };
    Some(agree && p.len() == q.len() && p.iter().all(|(m, c)| q.get(m).is_some_and(|d| *c == d * &ratio)))
}

/// Numbers with units and percent signs.
fn quantities(x: &Expr, m: &Measure, y: &Expr, n: &Measure) -> bool {
    let hundredth = || Rational::new(BigInt::from(1), BigInt::from(100));
    let (left, right) = match (m.unit.is_empty(), n.unit.is_empty()) {
        (true, true) => return percents(x, m.percent, y, n.percent, &hundredth()),
        _ => (units::read(&m.unit), units::read(&n.unit)),
    };
    let scaled = |e: &Expr, by: &Rational| match by.is_one() {
        true => e.clone(),
        false => Expr::Product(vec![Expr::Number(by.clone()), e.clone()]),
    };
    let (bare_left, bare_right) = (left.dimensions.is_empty(), right.dimensions.is_empty());
    let (lx, ry) = if !bare_left && !bare_right {
        if left.dimensions != right.dimensions {
            return false;
        }
        (scaled(x, &(left.multiplier * left.size)), scaled(y, &(right.multiplier * right.size)))
    } else {
        (scaled(x, &left.multiplier), scaled(y, &right.multiplier))
    };
    // An angle without a unit is in radians or in the degrees that the other side names.
    let is_degree = |u: &units::Unit| u.dimensions == [("degree".to_owned(), 1)];
    let turned = |e: &Expr| Expr::Degrees(Box::new(e.clone()));
    percents(&lx, m.percent, &ry, n.percent, &hundredth())
        || is_degree(&left_of(m)) && bare_right && expressions(&turned(x), y)
        || is_degree(&left_of(n)) && bare_left && expressions(x, &turned(y))
}

fn left_of(measure: &Measure) -> units::Unit {
    units::read(&measure.unit)
}

/// A percent sign divides by a hundred; where one side alone has it, the bare figures count too.
fn percents(x: &Expr, px: bool, y: &Expr, py: bool, hundredth: &Rational) -> bool {
    let part = |e: &Expr| Expr::Product(vec![Expr::Number(hundredth.clone()), e.clone()]);
    expressions(x, y)
        || match (px, py) {
            (true, false) => expressions(&part(x), y),
            (false, true) => expressions(x, &part(y)),
            _ => false,
        }
}

/// Equal formulas.
fn expressions(x: &Expr, y: &Expr) -> bool {
    if x == y {
        return true;
    }
    if let (Expr::Number(a), Expr::Number(b)) = (x, y) {
        return a == b;
    }
    let mut algebra = Algebra::default();
    let exact = (|| {
        let (a, b) = (algebra.normal(x)?, algebra.normal(y)?);
        algebra.equal(&a, &b)
    })();
    exact.or_else(|| field::equal(x, y)).unwrap_or(false)
}
