//! Sets of real numbers with finitely many ends, in one form each: where membership changes, in order.

use crate::enclosure::sign;
use crate::polynomial::{Algebra, Quotient};
use std::cmp::Ordering;

/// A set of real numbers.
#[derive(Clone, Debug)]
pub struct Reals {
    /// Where membership changes, ascending.
    points: Vec<Quotient>,
    /// Membership: before the first point, at it, between it and the next, and so on to the end.
    inside: Vec<bool>,
}

impl Reals {
    /// All real numbers, or none.
    pub fn constant(all: bool) -> Reals {
        Reals { points: Vec::new(), inside: vec![all] }
    }

    /// Membership below a point, at it, and above it.
    pub fn around(point: Quotient, inside: [bool; 3]) -> Reals {
        Reals { points: vec![point], inside: inside.to_vec() }
    }

    /// An interval; true for an end that belongs to it. Ends whose order cannot be told are taken to be
    /// ascending. None for an interval that holds nothing.
    pub fn between(algebra: &mut Algebra, low: (Quotient, bool), high: (Quotient, bool)) -> Option<Reals> {
        match order(algebra, &low.0, &high.0) {
            Some(Ordering::Greater) => None,
            Some(Ordering::Equal) => (low.1 && high.1).then(|| Reals::around(low.0, [false, true, false])),
            _ => Some(Reals { points: vec![low.0, high.0], inside: vec![false, low.1, true, high.1, false] }),
        }
    }

    /// Whether nothing belongs to the set.
    pub fn is_empty(&self) -> bool {
        !self.inside.contains(&true)
    }

    /// What belongs to both sets, to either, to one alone: as `belongs` says. None where the order of two
    /// points cannot be told.
    pub fn combined(
        &self,
        other: &Reals,
        algebra: &mut Algebra,
        belongs: fn(bool, bool) -> bool,
    ) -> Option<Reals> {
        let (mut i, mut j) = (0, 0);
        let mut result = Reals::constant(belongs(self.inside[0], other.inside[0]));
        loop {
            let ahead = match (self.points.get(i), other.points.get(j)) {
                (None, None) => return Some(result),
                (Some(p), Some(q)) => order(algebra, p, q)?,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let (ours, theirs) = (ahead != Ordering::Greater, ahead != Ordering::Less);
            let point = if ours { &self.points[i] } else { &other.points[j] };
            let (from, to) = (usize::from(ours), usize::from(theirs));
            let at = belongs(self.inside[2 * i + from], other.inside[2 * j + to]);
            (i, j) = (i + from, j + to);
            let behind = belongs(self.inside[2 * i], other.inside[2 * j]);
            if result.inside.last() != Some(&at) || at != behind {
                result.points.push(point.clone());
                result.inside.extend([at, behind]);
            }
        }
    }

    /// Each point moved by a map that keeps their order, or with `reversed` turns it.
    pub fn mapped(self, reversed: bool, mut to: impl FnMut(&Quotient) -> Option<Quotient>) -> Option<Reals> {
        let mut points: Vec<Quotient> = self.points.iter().map(&mut to).collect::<Option<_>>()?;
        let mut inside = self.inside;
        if reversed {
            points.reverse();
            inside.reverse();
        }
        Some(Reals { points, inside })
    }

    /// Whether two sets are the same; none where that cannot be told.
    pub fn equal(&self, other: &Reals, algebra: &mut Algebra) -> Option<bool> {
        if self.inside != other.inside {
            return Some(false);
        }
        for (p, q) in self.points.iter().zip(&other.points) {
            if !algebra.equal(p, q)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// How two numbers compare; none where that cannot be told.
fn order(algebra: &mut Algebra, a: &Quotient, b: &Quotient) -> Option<Ordering> {
    let difference = algebra.sub(a, b)?;
    if algebra.is_zero(&difference.num)? {
        return Some(Ordering::Equal);
    }
    sign(algebra, &difference)
}
