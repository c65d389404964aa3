//! The tokens that texts are cut into.

use crate::syntax::{Rational, Relation};

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A literal; true for an integer written without a point.
    Number(Rational, bool),
    /// A variable or constant.
    Symbol(String),
    /// A function whose argument may follow without brackets.
    Function(&'static str),
    /// `\frac`, `\sqrt`, `\binom`: commands with arguments.
    Command(&'static str),
    /// Running text.
    Words(String),
    /// A mark of one character.
    Mark(char),
    /// `\{`
    SetOpen,
    /// `\}`
    SetClose,
    /// `=`, `\le`, `\in`
    Relation(Relation),
    /// `\pm`
    PlusMinus,
    /// `and`, a line's end
    Separator,
    /// `or`
    Or,
    /// `\cup`
    Cup,
    /// `\cap`
    Cap,
    /// `\setminus`
    Without,
    /// `\emptyset`
    EmptySet,
    /// `\begin{pmatrix}`; true for a determinant.
    Begin(bool),
    /// `\end{pmatrix}`
    End,
    /// `\\`
    Row,
}

/// A token and whether a blank stands before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lexeme {
    /// The token.
    pub token: Token,
    /// A blank stands before it.
    pub spaced: bool,
}
