//! Equality of answers, by type. Symmetric; nothing is rounded.

use crate::field;
use crate::polynomial::{Algebra, Poly};
use crate::ranges;
use crate::syntax::{Expr, Measure, Rational, Relation, Value};
use crate::units;
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use std::cell::Cell;

/// Multiplications of coefficients that one comparison may cost.
const BUDGET: u64 = 10_000;
/// What a comparison of two formulas costs at least.
const PART: u64 = 20;
/// What an evaluation in finite fields costs.
const FIELD: u64 = 500;
/// Lists longer than this are compared in order only.
const MAX_UNORDERED: usize = 64;

/// Whether two answers are the same; false also where the work to tell is spent.
pub fn equal(a: &Value, b: &Value) -> bool {
    same(&Work(Cell::new(BUDGET)), a, b)
}

/// The work that one comparison of answers may still do, shared by all its parts.
pub struct Work(Cell<u64>);

impl Work {
    /// An algebra that may use what is left; none when nothing is.
    pub fn algebra(&self) -> Option<Algebra> {
        self.spend(PART)?;
        Some(Algebra::with_budget(self.0.get()))
    }

    /// Counts work; none when it is spent.
    fn spend(&self, work: u64) -> Option<()> {
        self.0.set(self.0.get().checked_sub(work)?);
        Some(())
    }

    /// Takes off what an algebra has used.
    pub fn settle(&self, algebra: &Algebra) {
        self.0.set(algebra.budget_left());
    }
}

/// Equality of parts, within the work that is left.
pub fn same(work: &Work, a: &Value, b: &Value) -> bool {
    work.spend(1).is_some() && (ranges::equal(work, a, b) || alike(work, a, b))
}

/// Equality by the parts of two values.
fn alike(work: &Work, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Scalar(x, m), Value::Scalar(y, n)) => quantities(work, x, m, y, n),
        (Value::Text(x), Value::Text(y)) => words(x) == words(y),
        (Value::Tuple(o, xs, c), Value::Tuple(p, ys, d)) => {
            // Two items may be an interval, whose brackets matter.
            xs.len() == ys.len() && (xs.len() > 2 || o == p && c == d) && in_order(work, xs, ys)
        }
        (Value::List(xs), Value::List(ys)) => lists(work, xs, ys),
        (Value::Set(xs) | Value::List(xs), Value::Set(ys) | Value::List(ys)) => {
            unordered(work, &distinct(work, xs), &distinct(work, ys))
        }
        // Inequalities against intervals are compared as a whole, with their variable.
        (Value::Union(xs), Value::Union(ys)) => {
            let states = |parts: &[Value]| parts.iter().any(|part| matches!(part, Value::Chain(..)));
            states(xs) == states(ys) && unordered(work, &merged(xs), &merged(ys))
        }
        (Value::Union(xs), Value::Set(_)) | (Value::Set(_), Value::Union(xs)) => {
            let other = if matches!(a, Value::Set(_)) { a } else { b };
            matches!(&merged(xs)[..], [one] if same(work, one, other))
        }
        (Value::Without(x, s), Value::Without(y, t)) => same(work, x, y) && same(work, s, t),
        (Value::Where(x, c), Value::Where(y, d)) => x == y && same(work, c, d),
        (Value::Where(_, condition), other) | (other, Value::Where(_, condition)) => {
            same(work, condition, other)
        }
        (Value::Ratio(xs), Value::Ratio(ys)) => ratios(work, xs, ys),
        (Value::Matrix(d, xs), Value::Matrix(e, ys)) => {
            d == e && xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| in_order(work, x, y))
        }
        (Value::Chain(xs, r), Value::Chain(ys, s)) => chains(work, (xs, r), (ys, s)),
        (Value::Chain(xs, r), Value::List(ys)) | (Value::List(ys), Value::Chain(xs, r)) => {
            match each_assigned(xs, r).filter(|_| names(work, ys).is_some()) {
                Some(each) => unordered(work, &each, ys),
                None => {
                    assigned(work, xs, r).is_some_and(|right| same(work, right, &Value::List(ys.clone())))
                }
            }
        }
        (Value::Ratio(xs), Value::Scalar(y, m)) | (Value::Scalar(y, m), Value::Ratio(xs)) => match &xs[..] {
            [Value::Scalar(a, k), Value::Scalar(b, l)]
                if [m, k, l].iter().all(|m| **m == Measure::default()) =>
            {
                let fraction = matches!(y, Expr::Quotient(..));
                let quotient = Expr::Quotient(Box::new(a.clone()), Box::new(b.clone()));
                fraction && !is_time(&[a.clone(), b.clone()]) && expressions(work, &quotient, y)
            }
            _ => false,
        },
        (Value::Chain(xs, r), other) | (other, Value::Chain(xs, r)) => {
            assigned(work, xs, r).is_some_and(|right| same(work, right, other))
        }
        (Value::List(xs), Value::Tuple(_, ys, _)) | (Value::Tuple(_, ys, _), Value::List(xs)) => {
            names(work, xs).is_some() && in_order(work, &by_name(xs), ys)
        }
        // `\frac12 \text{ or } 0.5` is one value.
        (Value::List(xs), other @ Value::Scalar(..)) | (other @ Value::Scalar(..), Value::List(xs)) => {
            matches!(&distinct(work, xs)[..], [one] if same(work, one, other))
        }
        (Value::Set(xs), other) | (other, Value::Set(xs)) => {
            matches!(&xs[..], [one] if same(work, one, other))
        }
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

/// A union whose sets are one set.
fn merged(parts: &[Value]) -> Vec<Value> {
    let mut points: Vec<Value> = Vec::new();
    let mut rest = Vec::new();
    for part in parts {
        match part {
            Value::Set(items) => points.extend(items.iter().cloned()),
            other => rest.push(other.clone()),
        }
    }
    if !points.is_empty() {
        rest.push(Value::Set(points));
    }
    rest
}

fn in_order(work: &Work, xs: &[Value], ys: &[Value]) -> bool {
    xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| same(work, x, y))
}

fn distinct(work: &Work, xs: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for x in xs {
        if xs.len() > MAX_UNORDERED || !kept.iter().any(|k| same(work, k, x)) {
            kept.push(x.clone());
        }
    }
    kept
}

/// Equal in any order. Equality need not be transitive (units may be left out), so a pairing is
/// looked for by augmenting paths rather than greedily.
fn unordered(work: &Work, xs: &[Value], ys: &[Value]) -> bool {
    if xs.len() != ys.len() {
        return false;
    }
    if in_order(work, xs, ys) {
        return true;
    }
    if xs.len() > MAX_UNORDERED {
        return false;
    }
    let fits: Vec<Vec<bool>> = xs.iter().map(|x| ys.iter().map(|y| same(work, x, y)).collect()).collect();
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
fn lists(work: &Work, xs: &[Value], ys: &[Value]) -> bool {
    match (names(work, xs), names(work, ys)) {
        (None, None) | (Some(_), Some(_)) => unordered(work, xs, ys),
        _ => in_order(work, xs, ys),
    }
}

/// Assignments in the order of their names: `y = 2, x = 1` is the point `(1, 2)`.
fn by_name(xs: &[Value]) -> Vec<Value> {
    let name = |x: &Value| match x {
        Value::Chain(sides, _) => match sides.first() {
            Some(Value::Scalar(Expr::Symbol(name), _)) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let mut sorted = xs.to_vec();
    if xs.iter().all(|x| name(x).is_some()) {
        sorted.sort_by_key(name);
    }
    sorted
}

/// The different names that a list assigns values to, if it does nothing else.
fn names<'v>(work: &Work, xs: &'v [Value]) -> Option<Vec<&'v Value>> {
    let mut names = Vec::new();
    for x in xs {
        match x {
            Value::Chain(sides, relations) if assigned(work, sides, relations).is_some() => {
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

/// `dy/dx`
fn is_derivative(expr: &Expr) -> bool {
    let differential = |e: &Expr| matches!(e, Expr::Product(items) if items.len() == 2 && items[0] == Expr::Symbol("d".into()));
    matches!(expr, Expr::Quotient(a, b) if differential(a) && differential(b))
}

/// `(x, y) = (1, 2)` as `x = 1` and `y = 2`.
fn each_assigned(sides: &[Value], relations: &[Relation]) -> Option<Vec<Value>> {
    match (sides, relations) {
        ([Value::Tuple(_, names, _), Value::Tuple(_, values, _)], [Relation::Equal])
            if names.len() == values.len() =>
        {
            let each = names.iter().zip(values);
            Some(each.map(|(n, v)| Value::Chain(vec![n.clone(), v.clone()], vec![Relation::Equal])).collect())
        }
        _ => None,
    }
}

/// What `x = 5`, `(p, q) = (3, 2)`, `x \in [0, 1]` and `4 - 7 = -3` say: their last side.
fn assigned<'v>(work: &Work, sides: &'v [Value], relations: &[Relation]) -> Option<&'v Value> {
    let (first, last) = (sides.first()?, sides.last()?);
    let equal = relations.iter().all(|r| *r == Relation::Equal);
    let is_name = |value: &Value| matches!(value, Value::Scalar(expr, _) if expr.is_name());
    // `AB = 9`, a segment between two points.
    let is_point = |e: &Expr| matches!(e, Expr::Symbol(s) if s.len() == 1 && s.starts_with(|c: char| c.is_ascii_uppercase()));
    let is_segment = |value: &Value| matches!(value, Value::Scalar(Expr::Product(points), _) if points.len() == 2 && points.iter().all(is_point));
    let named = match first {
        Value::Scalar(derivative, _) if is_derivative(derivative) => true,
        segment if is_segment(segment) => matches!(last, Value::Scalar(expr, _) if !expr.has_variable()),
        Value::Tuple(_, items, _) => items.iter().all(is_name),
        Value::Text(_) => true,
        other => is_name(other),
    };
    if named && (equal || relations == [Relation::In]) {
        return Some(last);
    }
    // A computation: all sides constant, and the equation true.
    let constant = |value: &Value| matches!(value, Value::Scalar(expr, _) if !expr.has_variable());
    (equal && sides.iter().all(constant) && sides.windows(2).all(|w| same(work, &w[0], &w[1])))
        .then_some(last)
}

/// Hours and minutes.
fn is_time(es: &[Expr]) -> bool {
    let within = |e: &Expr, low: i64, high: i64| match e {
        Expr::Number(n) => {
            n.is_integer() && *n.numer() >= BigInt::from(low) && *n.numer() < BigInt::from(high)
        }
        _ => false,
    };
    let zero = |e: &Expr| matches!(e, Expr::Number(n) if n.is_zero());
    es.len() == 2 && within(&es[0], 0, 24) && (within(&es[1], 10, 60) || zero(&es[1]))
}

fn ratios(work: &Work, xs: &[Value], ys: &[Value]) -> bool {
    let exprs = |vs: &[Value]| -> Option<Vec<Expr>> {
        vs.iter()
            .map(|v| match v {
                Value::Scalar(e, m) if *m == Measure::default() => Some(e.clone()),
                _ => None,
            })
            .collect()
    };
    let (Some(xs), Some(ys)) = (exprs(xs), exprs(ys)) else { return in_order(work, xs, ys) };
    let times = |a: &Expr, b: &Expr| Expr::Product(vec![a.clone(), b.clone()]);
    // `3:45` and `1:15` are times of day before they are ratios.
    if is_time(&xs) && is_time(&ys) {
        return xs == ys;
    }
    xs.len() == ys.len()
        && (xs == ys
            || xs.iter().zip(&ys).all(|(x, y)| expressions(work, &times(x, &ys[0]), &times(y, &xs[0]))))
}

fn chains(work: &Work, a: (&[Value], &[Relation]), b: (&[Value], &[Relation])) -> bool {
    let flipped = |(sides, relations): (&[Value], &[Relation])| {
        let sides: Vec<Value> = sides.iter().rev().cloned().collect();
        let relations: Vec<Relation> = relations.iter().rev().map(|r| r.flipped()).collect();
        (sides, relations)
    };
    if a.1 == b.1 && in_order(work, a.0, b.0) {
        return true;
    }
    let (turned, relations) = flipped(b);
    if !a.1.iter().any(|r| matches!(r, Relation::In | Relation::NotIn))
        && a.1 == &relations[..]
        && in_order(work, a.0, &turned)
    {
        return true;
    }
    if let ([l, r], [m, s], &[p], &[q]) = (a.0, b.0, a.1, b.1) {
        return relations_agree(work, (l, r, p), (m, s, q)).unwrap_or(false);
    }
    // `y = x(x+1) = x^2+x` against `y = x^2+x`.
    let equal = |r: &[Relation]| r.iter().all(|r| *r == Relation::Equal);
    match (a.0, b.0) {
        ([first, .., last], [start, .., end]) if equal(a.1) && equal(b.1) => {
            assigned(work, a.0, a.1).is_some()
                && assigned(work, b.0, b.1).is_some()
                && same(work, first, start)
                && same(work, last, end)
        }
        _ => false,
    }
}

/// Two equations, or two inequalities, that differ by a constant factor.
fn relations_agree(
    work: &Work,
    a: (&Value, &Value, Relation),
    b: (&Value, &Value, Relation),
) -> Option<bool> {
    let mut algebra = work.algebra()?;
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
    let both = difference(a.0, a.1).zip(difference(b.0, b.1));
    let crossed = both.and_then(|(x, y)| algebra.mul_poly(&x.0, &y.1).zip(algebra.mul_poly(&y.0, &x.1)));
    work.settle(&algebra);
    let (p, q) = crossed?;
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
fn quantities(work: &Work, x: &Expr, m: &Measure, y: &Expr, n: &Measure) -> bool {
    let hundredth = || Rational::new(BigInt::from(1), BigInt::from(100));
    let (left, right) = match (m.unit.is_empty(), n.unit.is_empty()) {
        (true, true) => return percents(work, x, m.percent, y, n.percent, &hundredth()),
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
    percents(work, &lx, m.percent, &ry, n.percent, &hundredth())
        || is_degree(&left_of(m)) && bare_right && expressions(work, &turned(x), y)
        || is_degree(&left_of(n)) && bare_left && expressions(work, x, &turned(y))
}

fn left_of(measure: &Measure) -> units::Unit {
    units::read(&measure.unit)
}

/// A percent sign divides by a hundred; where one side alone has it, the bare figures count too.
fn percents(work: &Work, x: &Expr, px: bool, y: &Expr, py: bool, hundredth: &Rational) -> bool {
    let part = |e: &Expr| Expr::Product(vec![Expr::Number(hundredth.clone()), e.clone()]);
    expressions(work, x, y)
        || match (px, py) {
            (true, false) => expressions(work, &part(x), y),
            (false, true) => expressions(work, x, &part(y)),
            _ => false,
        }
}

/// Equal formulas.
fn expressions(work: &Work, x: &Expr, y: &Expr) -> bool {
    if x == y {
        return true;
    }
    if let (Expr::Number(a), Expr::Number(b)) = (x, y) {
        return a == b;
    }
    let decide = |algebra: &mut Algebra| {
        let (a, b) = (algebra.normal(x)?, algebra.normal(y)?);
        algebra.equal(&a, &b)
    };
    let Some(mut algebra) = work.algebra() else { return false };
    let mut exact = decide(&mut algebra);
    work.settle(&algebra);
    if exact == Some(false)
        && let Some(parts) = algebra.angle_parts()
        && let Some(again) = work.algebra()
    {
        // Angles x and x/2 meet as multiples of x/2.
        let mut again = again.with_angle_parts(parts);
        exact = decide(&mut again);
        work.settle(&again);
    }
    if exact.is_none() && work.spend(FIELD).is_some() {
        exact = field::equal(x, y);
    }
    exact.unwrap_or(false)
}
