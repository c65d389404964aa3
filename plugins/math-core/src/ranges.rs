//! Sets of real numbers: inequalities as intervals, unions, lines without some points.

use crate::compare::{Work, same};
use crate::syntax::{Expr, Measure, Rational, Relation, Value};
use num_traits::One;

fn plain(expr: Expr) -> Value {
    Value::Scalar(expr, Measure::default())
}

fn infinity(negative: bool) -> Value {
    let infinity = Expr::Symbol("infty".into());
    plain(if negative { Expr::Negative(Box::new(infinity)) } else { infinity })
}

fn range(low: Value, low_open: bool, high: Value, high_open: bool) -> Value {
    Value::Tuple(if low_open { '(' } else { '[' }, vec![low, high], if high_open { ')' } else { ']' })
}

fn is_name(value: &Value) -> bool {
    matches!(value, Value::Scalar(expr, _) if expr.is_name())
}

fn is_constant(value: &Value) -> bool {
    matches!(value, Value::Scalar(expr, _) if !expr.has_variable())
}

fn is_strict(r: Relation) -> bool {
    matches!(r, Relation::Less | Relation::Greater)
}

fn is_rising(r: Relation) -> bool {
    matches!(r, Relation::Less | Relation::LessEqual)
}

fn is_falling(r: Relation) -> bool {
    matches!(r, Relation::Greater | Relation::GreaterEqual)
}

/// What `x > 1`, `0 \le x < 2`, `|x| > 1` and `x \ne 2` say of `x`, as an interval or a union.
pub fn interval(sides: &[Value], relations: &[Relation]) -> Option<Value> {
    match (sides, relations) {
        ([x, bound], &[r]) if is_constant(bound) => one_sided(x, bound, r),
        ([bound, x], &[r]) if is_constant(bound) => one_sided(x, bound, r.flipped()),
        ([low, x, high], &[r, s]) if is_name(x) && is_constant(low) && is_constant(high) => {
            if is_rising(r) && is_rising(s) {
                Some(range(low.clone(), is_strict(r), high.clone(), is_strict(s)))
            } else if is_falling(r) && is_falling(s) {
                Some(range(high.clone(), is_strict(s), low.clone(), is_strict(r)))
            } else {
                None
            }
        }
        _ => None,
    }
}

fn one_sided(x: &Value, bound: &Value, r: Relation) -> Option<Value> {
    let open = is_strict(r);
    if is_name(x) {
        return match r {
            _ if is_rising(r) => Some(range(infinity(true), true, bound.clone(), open)),
            _ if is_falling(r) => Some(range(bound.clone(), open, infinity(false), true)),
            Relation::NotEqual => Some(Value::Union(vec![
                range(infinity(true), true, bound.clone(), true),
                range(bound.clone(), true, infinity(false), true),
            ])),
            _ => None,
        };
    }
    // `|x| < 2`, where the bound is written as a positive number.
    let (Value::Scalar(Expr::Call(name, inside), _), Value::Scalar(limit, _)) = (x, bound) else {
        return None;
    };
    let positive = match limit {
        Expr::Number(n) => *n > Rational::from_integer(0.into()),
        _ => matches!(limit, Expr::Quotient(..) | Expr::Power(..)),
    };
    if name != "abs" || !positive || !matches!(&inside[..], [one] if one.is_name()) {
        return None;
    }
    let minus = plain(Expr::Negative(Box::new(limit.clone())));
    if is_rising(r) {
        Some(range(minus, open, bound.clone(), open))
    } else if is_falling(r) {
        Some(Value::Union(vec![
            range(infinity(true), true, minus, open),
            range(bound.clone(), open, infinity(false), true),
        ]))
    } else {
        None
    }
}

/// A union whose sets are one set.
pub fn merged(parts: &[Value]) -> Vec<Value> {
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

/// The real line without some points, as a union of intervals.
pub fn punctured(work: &Work, line: &Value, points: &Value) -> Option<Value> {
    let real = plain(Expr::Symbol("mathbbR".into()));
    let whole = range(infinity(true), true, infinity(false), true);
    let Value::Set(points) = points else { return None };
    if *line != real && !same(work, line, &whole) {
        return None;
    }
    let mut ordered: Vec<(Rational, Value)> = Vec::new();
    for point in points {
        let Value::Scalar(expr, _) = point else { return None };
        let mut algebra = work.algebra()?;
        let number = algebra.normal(expr).and_then(|form| form.as_number());
        work.settle(&algebra);
        match number {
            Some(number) => ordered.push((number, point.clone())),
            // Without an order a single point can still be taken out.
            None if points.len() == 1 => ordered.push((Rational::one(), point.clone())),
            None => return None,
        }
    }
    ordered.sort_by(|a, b| a.0.cmp(&b.0));
    let mut from = infinity(true);
    let mut parts = Vec::new();
    for (_, point) in ordered {
        parts.push(range(from, true, point.clone(), true));
        from = point;
    }
    parts.push(range(from, true, infinity(false), true));
    Some(Value::Union(parts))
}
