//! What a text was read as: expressions, and answers of other types built from them.

use num_bigint::BigInt;
use num_rational::BigRational;

/// An exact rational number.
pub type Rational = BigRational;

/// A formula as written; nothing is evaluated yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A literal.
    Number(Rational),
    /// A variable or a constant (`e`, `pi`, `i`, `infty`).
    Symbol(String),
    /// Sum of terms.
    Sum(Vec<Expr>),
    /// Product of factors.
    Product(Vec<Expr>),
    /// Numerator and denominator.
    Quotient(Box<Expr>, Box<Expr>),
    /// Base and exponent.
    Power(Box<Expr>, Box<Expr>),
    /// Minus the expression.
    Negative(Box<Expr>),
    /// A function by name.
    Call(String, Vec<Expr>),
    /// An angle in degrees.
    Degrees(Box<Expr>),
}

impl Expr {
    /// An integer literal.
    pub fn integer(n: i64) -> Expr {
        Expr::Number(Rational::from_integer(BigInt::from(n)))
    }

    /// The expressions that this one is made of.
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::Number(_) | Expr::Symbol(_) => Vec::new(),
            Expr::Sum(items) | Expr::Product(items) | Expr::Call(_, items) => items.iter().collect(),
            Expr::Quotient(a, b) | Expr::Power(a, b) => vec![a, b],
            Expr::Negative(a) | Expr::Degrees(a) => vec![a],
        }
    }

    /// Calls `f` on this expression and all below it.
    pub fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        self.parts().into_iter().for_each(|part| part.visit(f));
    }

    /// This expression with what `f` gives in place of each part that it gives something for.
    pub fn replaced(&self, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
        if let Some(other) = f(self) {
            return other;
        }
        let mut all = |items: &[Expr]| items.iter().map(|item| item.replaced(f)).collect();
        match self {
            Expr::Number(_) | Expr::Symbol(_) => self.clone(),
            Expr::Sum(items) => Expr::Sum(all(items)),
            Expr::Product(items) => Expr::Product(all(items)),
            Expr::Call(name, items) => Expr::Call(name.clone(), all(items)),
            Expr::Quotient(a, b) => Expr::Quotient(Box::new(a.replaced(f)), Box::new(b.replaced(f))),
            Expr::Power(a, b) => Expr::Power(Box::new(a.replaced(f)), Box::new(b.replaced(f))),
            Expr::Negative(a) => Expr::Negative(Box::new(a.replaced(f))),
            Expr::Degrees(a) => Expr::Degrees(Box::new(a.replaced(f))),
        }
    }

    /// Whether the expression names anything but constants.
    pub fn has_variable(&self) -> bool {
        let mut found = false;
        self.visit(&mut |e| match e {
            Expr::Symbol(name) => found |= !matches!(name.as_str(), "e" | "pi" | "i" | "infty"),
            Expr::Call(name, _) => found |= name.starts_with('?'),
            _ => {}
        });
        found
    }

    /// A name that an equation may define: a variable, or an unknown function of something.
    pub fn is_name(&self) -> bool {
        match self {
            Expr::Symbol(name) => name != "infty",
            Expr::Call(name, _) => name.starts_with('?'),
            _ => false,
        }
    }
}

/// How two sides of a relation compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `=`, `\approx`, `\equiv`
    Equal,
    /// `\neq`
    NotEqual,
    /// `<`
    Less,
    /// `\le`
    LessEqual,
    /// `>`
    Greater,
    /// `\ge`
    GreaterEqual,
    /// `\in`
    In,
    /// `\notin`
    NotIn,
}

impl Relation {
    /// The relation with its sides exchanged.
    pub fn flipped(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessEqual => Relation::GreaterEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterEqual => Relation::LessEqual,
            other => other,
        }
    }
}

/// What stands behind a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure {
    /// A percent sign.
    pub percent: bool,
    /// The unit's words; empty for none.
    pub unit: String,
}

/// An answer, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A formula with what stands behind it.
    Scalar(Expr, Measure),
    /// Words.
    Text(String),
    /// `(1, 2]`: a tuple, a point or an interval.
    Tuple(char, Vec<Value>, char),
    /// `\{1, 2\}`
    Set(Vec<Value>),
    /// `1, 2` without brackets, `1 or 2`, `\pm 1`.
    List(Vec<Value>),
    /// `A \cup B`, `x < 1 or x > 2`
    Union(Vec<Value>),
    /// `A \setminus B`
    Without(Box<Value>, Box<Value>),
    /// `\{x \mid x > 2\}`: the name that is bound, and what is said of it.
    Where(Expr, Box<Value>),
    /// `1:2:3`
    Ratio(Vec<Value>),
    /// Rows of a matrix; true for a determinant.
    Matrix(bool, Vec<Vec<Value>>),
    /// Sides and the relations between them.
    Chain(Vec<Value>, Vec<Relation>),
    /// Balanced, but of a form that is not read: compared as it is written.
    Verbatim,
}
