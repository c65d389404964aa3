//! LaTeX and plain text as tokens. Spacing and size commands go; digits become exact numbers.

mod command;
mod letters;
mod number;

use crate::syntax::{Rational, Relation};
use crate::token::{Lexeme, Token};
use num_bigint::BigInt;

/// Texts longer than this, in bytes, are not read as formulas.
pub const MAX_LENGTH: usize = 4000;

/// What a text was cut into.
pub struct Lexed {
    /// The tokens.
    pub tokens: Vec<Lexeme>,
    /// A comma was read as a separator of thousands.
    pub thousands: bool,
}

/// Functions whose argument may follow without brackets.
const FUNCTIONS: &[&str] = &[
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "sec", "csc", "cot", "log",
    "ln", "lg", "exp", "gcd", "lcm", "max", "min", "det", "Re", "Im", "arg", "deg", "dim",
];

/// Cuts a text; `thousands` lets commas outside brackets group digits. None for what is no formula.
pub fn lex(text: &str, thousands: bool) -> Option<Lexed> {
    let mut lexer = Lexer {
        text,
        at: 0,
        depth: 0,
        tokens: Vec::new(),
        spaced: false,
        grouping: thousands,
        grouped: false,
        nested: 0,
        lines: false,
    };
    if text.len() > MAX_LENGTH {
        return None;
    }
    lexer.run()?;
    Some(Lexed { tokens: lexer.tokens, thousands: lexer.grouped })
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    depth: i32,
    tokens: Vec<Lexeme>,
    spaced: bool,
    grouping: bool,
    grouped: bool,
    nested: u32,
    /// Within lines that are aligned: a row's end separates, an alignment mark is nothing.
    lines: bool,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn push(&mut self, token: Token) {
        self.tokens.push(Lexeme { token, spaced: std::mem::take(&mut self.spaced) });
    }

    fn relation(&mut self, relation: Relation) {
        self.push(Token::Relation(relation));
    }

    fn run(&mut self) -> Option<()> {
        while let Some(c) = self.rest().chars().next() {
            if c.is_ascii_digit() || c == '.' && self.rest()[1..].starts_with(|d: char| d.is_ascii_digit()) {
                self.number()?;
                continue;
            }
            if c == '\\' {
                self.command()?;
                continue;
            }
            if c.is_ascii_alphabetic() {
                self.letters();
                continue;
            }
            self.at += c.len_utf8();
            match c {
                _ if c.is_whitespace() => self.spaced = true,
                '~' => self.spaced = true,
                '−' | '–' | '﹣' | '-' => self.push(Token::Mark('-')),
                '×' | '·' | '⋅' | '∙' | '*' => {
                    if c == '*' && self.rest().starts_with('*') {
                        self.at += 1;
                        self.push(Token::Mark('^'));
                    } else {
                        self.push(Token::Mark('*'));
                    }
                }
                '÷' => self.push(Token::Mark('/')),
                '(' | '[' => {
                    self.depth += 1;
                    self.push(Token::Mark(c));
                }
                ')' | ']' => {
                    self.depth -= 1;
                    self.push(Token::Mark(c));
                }
                '&' if self.lines => {}
                '+' | '/' | '^' | '_' | '!' | '{' | '}' | '|' | ',' | ';' | ':' | '%' | '°' | '\'' | '&' => {
                    self.push(Token::Mark(c));
                }
                '=' => {
                    if self.rest().starts_with('=') {
                        self.at += 1;
                    }
                    self.relation(Relation::Equal);
                }
                '<' | '>' => {
                    let equal = self.rest().starts_with('=');
                    self.at += usize::from(equal);
                    self.relation(match (c, equal) {
                        ('<', false) => Relation::Less,
                        ('<', true) => Relation::LessEqual,
                        (_, false) => Relation::Greater,
                        (_, true) => Relation::GreaterEqual,
                    });
                }
                '≤' | '⩽' => self.relation(Relation::LessEqual),
                '≥' | '⩾' => self.relation(Relation::GreaterEqual),
                '≠' => self.relation(Relation::NotEqual),
                '≈' => self.relation(Relation::Equal),
                '∈' => self.relation(Relation::In),
                '∉' => self.relation(Relation::NotIn),
                '∪' => self.push(Token::Cup),
                '∩' => self.push(Token::Cap),
                '∅' => self.push(Token::EmptySet),
                '∞' => self.push(Token::Symbol("infty".into())),
                'π' => self.push(Token::Symbol("pi".into())),
                'θ' => self.push(Token::Symbol("theta".into())),
                'α' => self.push(Token::Symbol("alpha".into())),
                'β' => self.push(Token::Symbol("beta".into())),
                'λ' => self.push(Token::Symbol("lambda".into())),
                '±' => self.push(Token::PlusMinus),
                '√' => self.push(Token::Command("sqrt")),
                '²' | '³' => {
                    self.push(Token::Mark('^'));
                    self.push(Token::Number(integer(if c == '²' { 2 } else { 3 }), true));
                }
                '½' | '¼' | '¾' => {
                    let (above, below) = match c {
                        '½' => (1, 2),
                        '¼' => (1, 4),
                        _ => (3, 4),
                    };
                    self.push(Token::Number(Rational::new(above.into(), below.into()), false));
                }
                '$' | '€' | '£' | '¥' | '₹' => self.push(Token::Words(c.to_string())),
                _ if c.is_alphabetic() => {
                    let start = self.at - c.len_utf8();
                    let end = self
                        .rest()
                        .find(|c: char| !c.is_alphabetic())
                        .map_or(self.text.len(), |i| self.at + i);
                    self.at = end;
                    self.push(Token::Words(self.text[start..end].to_owned()));
                }
                _ => return None,
            }
        }
        Some(())
    }
}

fn integer(n: i64) -> Rational {
    Rational::from_integer(BigInt::from(n))
}
