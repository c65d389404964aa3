//! What answers say of a real variable: inequalities, absolute values, intervals, unions and conditions
//! read as the sets of real numbers that they are.

use crate::compare::{Work, words};
use crate::enclosure::sign;
use crate::polynomial::{Algebra, Exponent, Poly, Quotient};
use crate::reals::Reals;
use crate::syntax::{Expr, Measure, Rational, Relation, Value};
use std::cmp::Ordering;

/// Stands for an absolute value or a square; no text can name it.
const SIZE: &str = "|";

/// Whether two answers, one of them at least a range, are the same set of real numbers and say so of the
/// same variable. False also where that cannot be told.
pub fn equal(work: &Work, a: &Value, b: &Value) -> bool {
    if !is_range(a) && !is_range(b) {
        return false;
    }
    let Some(mut algebra) = work.algebra() else { return false };
    let same = decide(&mut algebra, a, b);
    work.settle(&algebra);
    same == Some(true)
}

fn decide(algebra: &mut Algebra, a: &Value, b: &Value) -> Option<bool> {
    let mut read = |value| {
        let mut reading = Reading { algebra: &mut *algebra, name: None, measure: Measure::default() };
        Some((reading.set(value)?, reading.name, reading.measure))
    };
    let ((x, name, measure), (y, other, unit)) = (read(a)?, read(b)?);
    if name.is_some() && other.is_some() && name != other {
        return Some(false);
    }
    let none = Measure::default();
    if measure == unit {
        return x.equal(&y, algebra);
    }
    let (measured, plain, measure) = match (measure == none, unit == none) {
        (true, _) => (y, x, unit),
        (_, true) => (x, y, measure),
        _ => return Some(false),
    };
    if measured.equal(&plain, algebra)? {
        return Some(true);
    }
    // Degrees against radians, percents against parts.
    let factor = match (measure.percent, measure.unit.as_str()) {
        (true, "") => Expr::Number(Rational::new(1.into(), 100.into())),
        (false, "degree") => Expr::Degrees(Box::new(Expr::integer(1))),
        _ => return Some(false),
    };
    let factor = algebra.normal(&factor)?;
    measured.mapped(false, |p| algebra.mul(p, &factor))?.equal(&plain, algebra)
}

/// Whether a value can only be a set of reals, not a point or a list of solutions.
fn is_range(value: &Value) -> bool {
    match value {
        Value::Chain(_, relations) => relations.iter().any(|r| *r != Relation::Equal),
        Value::Union(_) | Value::Without(..) | Value::Where(..) => true,
        Value::List(items) => items.iter().any(is_range),
        Value::Scalar(expr, _) => is_real_line(expr),
        Value::Text(text) => phrase(text).is_some(),
        _ => false,
    }
}

fn is_real_line(expr: &Expr) -> bool {
    matches!(expr, Expr::Symbol(name) if name == "mathbbR")
}

/// Words for all real numbers, and for none.
fn phrase(text: &str) -> Option<bool> {
    match words(text).as_str() {
        "all real numbers" | "all reals" | "all real number" | "real numbers" => Some(true),
        "no solution" | "no solutions" | "no real solution" | "no real solutions" | "empty set"
        | "the empty set" => Some(false),
        _ => None,
    }
}

/// Whether a value says something of a variable: not a mere set.
fn is_statement(value: &Value) -> bool {
    match value {
        Value::Chain(..) => true,
        Value::List(items) | Value::Union(items) => items.iter().all(is_statement),
        _ => false,
    }
}

/// `\infty` and `-\infty`: on which side.
fn infinity(value: &Value) -> Option<Ordering> {
    let is_infinite = |e: &Expr| *e == Expr::Symbol("infty".into());
    match value {
        Value::Scalar(Expr::Negative(inside), _) if is_infinite(inside) => Some(Ordering::Less),
        Value::Scalar(expr, _) if is_infinite(expr) => Some(Ordering::Greater),
        _ => None,
    }
}

/// Brackets or an infinite end that no point in the plane has.
fn is_surely_interval(value: &Value) -> bool {
    match value {
        Value::Tuple(open, ends, close) => {
            *open == '[' || *close == ']' || ends.iter().any(|end| infinity(end).is_some())
        }
        _ => true,
    }
}

fn is_rising(r: Relation) -> bool {
    matches!(r, Relation::Less | Relation::LessEqual)
}

fn is_falling(r: Relation) -> bool {
    is_rising(r.flipped())
}

fn is_closed(r: Relation) -> bool {
    matches!(r, Relation::LessEqual | Relation::GreaterEqual)
}

fn both(a: bool, b: bool) -> bool {
    a && b
}

fn either(a: bool, b: bool) -> bool {
    a || b
}

/// A set as it is read: the variable that it is said of, and what its ends are measured in.
struct Reading<'a> {
    algebra: &'a mut Algebra,
    name: Option<Expr>,
    measure: Measure,
}

impl Reading<'_> {
    fn set(&mut self, value: &Value) -> Option<Reals> {
        match value {
            Value::Scalar(expr, _) if is_real_line(expr) => Some(Reals::constant(true)),
            Value::Text(text) => phrase(text).map(Reals::constant),
            Value::Set(items) => {
                let points =
                    items.iter().map(|item| Some(Reals::around(self.number(item)?, [false, true, false])));
                let points: Vec<Reals> = points.collect::<Option<_>>()?;
                self.fold(points, either)
            }
            Value::Tuple(open, ends, close) => match &ends[..] {
                [low, high] => self.between((low, *open == '['), (high, *close == ']')),
                _ => None,
            },
            Value::Union(parts) => {
                let parts: Vec<Reals> = parts.iter().map(|part| self.set(part)).collect::<Option<_>>()?;
                self.fold(parts, either)
            }
            Value::Without(whole, without) => {
                let (whole, without) = (self.set(whole)?, self.set(without)?);
                whole.combined(&without, self.algebra, |a, b| a && !b)
            }
            Value::Where(name, condition) => {
                let mut inner = Reading { algebra: self.algebra, name: None, measure: Measure::default() };
                let set = inner.set(condition)?;
                let (of, measure) = (inner.name, inner.measure);
                self.measured(&measure)?;
                of.is_none_or(|of| of == *name).then_some(set)
            }
            Value::List(items) => self.list(items),
            Value::Chain(sides, relations) => self.chain(sides, relations),
            _ => None,
        }
    }

    fn fold(&mut self, sets: Vec<Reals>, belongs: fn(bool, bool) -> bool) -> Option<Reals> {
        let mut sets = sets.into_iter();
        let first = sets.next().unwrap_or(Reals::constant(false));
        sets.try_fold(first, |known, set| known.combined(&set, self.algebra, belongs))
    }

    /// `x > 1, x \ne 2` says both where both can be, `x < 1, x > 2` either; intervals side by side are
    /// a union.
    fn list(&mut self, items: &[Value]) -> Option<Reals> {
        let mut excluded: Option<&Value> = None;
        let (mut sets, mut conditions) = (Vec::new(), true);
        for item in items {
            match (item, excluded) {
                // `x \ne 1, 2`
                (Value::Scalar(expr, _), Some(name)) if !expr.has_variable() => {
                    sets.push(self.chain(&[name.clone(), item.clone()], &[Relation::NotEqual])?);
                    continue;
                }
                (Value::Chain(sides, relations), _) => {
                    excluded = sides.first().filter(|_| relations[..] == [Relation::NotEqual]);
                }
                (Value::Tuple(..), _) if !items.iter().any(is_surely_interval) => return None,
                _ => {}
            }
            conditions &= is_statement(item);
            sets.push(self.set(item)?);
        }
        if conditions {
            let all = self.fold(sets.clone(), both)?;
            if !all.is_empty() {
                return Some(all);
            }
        }
        self.fold(sets, either)
    }

    fn chain(&mut self, sides: &[Value], relations: &[Relation]) -> Option<Reals> {
        match (sides, relations) {
            ([Value::Scalar(name, _), set], &[relation @ (Relation::In | Relation::NotIn)])
                if name.is_name() =>
            {
                self.named(name)?;
                let set = self.set(set)?;
                let line = Reals::constant(true);
                return match relation {
                    Relation::In => Some(set),
                    _ => line.combined(&set, self.algebra, |a, b| a && !b),
                };
            }
            // `D = (0, 1)` names the set.
            ([Value::Scalar(Expr::Symbol(_), _) | Value::Text(_), set], [Relation::Equal])
                if matches!(
                    set,
                    Value::Tuple(..) | Value::Union(_) | Value::Without(..) | Value::Where(..)
                ) =>
            {
                return self.set(set);
            }
            _ => {}
        }
        let name = variable(sides)?;
        self.named(&name)?;
        if let ([low, Value::Scalar(x, measure), high], &[r, s]) = (sides, relations)
            && (is_rising(r) && is_rising(s) || is_falling(r) && is_falling(s))
            && [low, high].iter().all(|end| matches!(end, Value::Scalar(end, _) if !mentions(end, &name)))
        {
            self.measured(measure)?;
            let (low, high) = ((low, is_closed(r)), (high, is_closed(s)));
            let set = if is_rising(r) { self.between(low, high)? } else { self.between(high, low)? };
            return self.preimage(x, &name, set);
        }
        let mut sets = Vec::new();
        for (pair, relation) in sides.windows(2).zip(relations) {
            sets.push(self.pair(&pair[0], &pair[1], *relation, &name)?);
        }
        self.fold(sets, both)
    }

    /// Where two sides of a relation stand to each other as it says.
    fn pair(&mut self, left: &Value, right: &Value, relation: Relation, name: &Expr) -> Option<Reals> {
        // Every real number is less than infinity.
        let beyond = match (infinity(left), infinity(right)) {
            (None, None) => None,
            (None, Some(Ordering::Greater)) | (Some(Ordering::Less), None) => Some(is_rising(relation)),
            (None, Some(_)) | (Some(_), None) => Some(is_falling(relation)),
            _ => return None,
        };
        if let Some(holds) = beyond {
            return holds.then(|| Reals::constant(true));
        }
        let (Value::Scalar(l, m), Value::Scalar(r, n)) = (left, right) else { return None };
        self.measured(m)?;
        self.measured(n)?;
        let inside = match relation {
            Relation::Equal => [false, true, false],
            Relation::NotEqual => [true, false, true],
            Relation::Less => [true, false, false],
            Relation::LessEqual => [true, true, false],
            Relation::Greater => [false, false, true],
            Relation::GreaterEqual => [false, true, true],
            Relation::In | Relation::NotIn => return None,
        };
        let difference = Expr::Sum(vec![l.clone(), Expr::Negative(Box::new(r.clone()))]);
        self.preimage(&difference, name, Reals::around(Quotient::integer(0), inside))
    }

    fn between(&mut self, low: (&Value, bool), high: (&Value, bool)) -> Option<Reals> {
        let below = match infinity(low.0) {
            Some(Ordering::Less) => None,
            Some(_) => return None,
            None => Some((self.number(low.0)?, low.1)),
        };
        let above = match infinity(high.0) {
            Some(Ordering::Greater) => None,
            Some(_) => return None,
            None => Some((self.number(high.0)?, high.1)),
        };
        match (below, above) {
            (None, None) => Some(Reals::constant(true)),
            (Some((low, closed)), None) => Some(Reals::around(low, [false, closed, true])),
            (None, Some((high, closed))) => Some(Reals::around(high, [true, closed, false])),
            (Some(low), Some(high)) => Reals::between(self.algebra, low, high),
        }
    }

    fn number(&mut self, value: &Value) -> Option<Quotient> {
        let Value::Scalar(expr, measure) = value else { return None };
        self.measured(measure)?;
        if mentions(expr, &Expr::Symbol("infty".into())) {
            return None;
        }
        self.algebra.normal(expr)
    }

    /// All that is measured is measured in one unit.
    fn measured(&mut self, measure: &Measure) -> Option<()> {
        if *measure == Measure::default() || *measure == self.measure {
            return Some(());
        }
        if self.measure != Measure::default() {
            return None;
        }
        self.measure = measure.clone();
        Some(())
    }

    fn named(&mut self, name: &Expr) -> Option<()> {
        match &self.name {
            Some(known) => (known == name).then_some(()),
            None => {
                self.name = Some(name.clone());
                Some(())
            }
        }
    }

    /// Where a formula's value lies in a set: a formula that is linear in the variable, or in one
    /// absolute value or square of such a formula.
    fn preimage(&mut self, expr: &Expr, name: &Expr, set: Reals) -> Option<Reals> {
        let mut inside: Option<(bool, Expr)> = None;
        let mut several = false;
        let mut size = |squared: bool, argument: &Expr| {
            several |= inside.as_ref().is_some_and(|known| *known != (squared, argument.clone()));
            inside = Some((squared, argument.clone()));
            Some(Expr::Symbol(SIZE.into()))
        };
        let outside = expr.replaced(&mut |e| match e {
            Expr::Call(call, arguments) if call == "abs" && mentions(e, name) => {
                size(false, arguments.first()?)
            }
            Expr::Power(base, by) if **by == Expr::integer(2) && mentions(e, name) => size(true, base),
            _ => None,
        });
        let Some((squared, inside)) = inside else { return self.solved(expr, name, set) };
        if several || mentions(&outside, name) {
            return None;
        }
        let sizes = self.solved(&outside, &Expr::Symbol(SIZE.into()), set)?;
        let positive = Reals::around(Quotient::integer(0), [false, true, true]);
        let mut right = sizes.combined(&positive, self.algebra, both)?;
        if squared {
            let half = Quotient::number(Rational::new(1.into(), 2.into()));
            right = right.mapped(false, |p| self.algebra.power(p, &half))?;
        }
        let left = right.clone().mapped(true, |p| Some(self.algebra.neg(p)))?;
        let values = right.combined(&left, self.algebra, either)?;
        self.preimage(&inside, name, values)
    }

    /// Where a linear formula's value lies in a set.
    fn solved(&mut self, expr: &Expr, name: &Expr, set: Reals) -> Option<Reals> {
        if !is_polynomial(expr, name) || mentions(expr, &Expr::Symbol("infty".into())) {
            return None;
        }
        let form = self.algebra.normal(expr)?;
        let unknown = self.algebra.normal(name)?.num;
        let [(atom, _)] = unknown.first_key_value()?.0[..] else { return None };
        let (mut slope, mut rest) = (Poly::new(), Poly::new());
        for (monomial, c) in form.num {
            let (own, other): (Vec<_>, Vec<_>) = monomial.into_iter().partition(|f| f.0 == atom);
            match own[..] {
                [] => rest.insert(other, c),
                [(_, one)] if one == Exponent::from_integer(1) => slope.insert(other, c),
                _ => return None,
            };
        }
        if form.den.keys().flatten().any(|f| f.0 == atom) {
            return None;
        }
        let slope = Quotient { num: slope, den: form.den.clone() };
        let rest = Quotient { num: rest, den: form.den };
        let reversed = match sign(self.algebra, &slope)? {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => return None,
        };
        let inverse = self.algebra.inverse(&slope)?;
        set.mapped(reversed, |p| {
            let shifted = self.algebra.sub(p, &rest)?;
            self.algebra.mul(&shifted, &inverse)
        })
    }
}

/// The variable that a chain speaks of: the only one, or the one that stands by itself in the middle, or
/// on the left.
fn variable(sides: &[Value]) -> Option<Expr> {
    let mut names: Vec<Expr> = Vec::new();
    for side in sides {
        let Value::Scalar(expr, _) = side else { return None };
        collect(expr, &mut names);
    }
    if names.len() == 1 {
        return names.pop();
    }
    match sides {
        [Value::Scalar(name, _), _] | [_, Value::Scalar(name, _), _] => name.is_name().then(|| name.clone()),
        _ => None,
    }
}

/// The names in a formula, those within unknown functions not among them.
fn collect(expr: &Expr, names: &mut Vec<Expr>) {
    match expr {
        Expr::Symbol(_) if !expr.has_variable() => {}
        name if name.is_name() => {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        other => other.parts().into_iter().for_each(|part| collect(part, names)),
    }
}

fn mentions(expr: &Expr, name: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |e| found |= e == name);
    found
}

/// Whether a name stands only in sums, products and numerators.
fn is_polynomial(expr: &Expr, name: &Expr) -> bool {
    expr == name
        || match expr {
            Expr::Sum(items) | Expr::Product(items) => items.iter().all(|item| is_polynomial(item, name)),
            Expr::Negative(inside) => is_polynomial(inside, name),
            Expr::Quotient(above, below) => is_polynomial(above, name) && !mentions(below, name),
            other => !mentions(other, name),
        }
}
