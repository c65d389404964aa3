//! Exact numbers and how they are written: `1,250`, `.5`, `5/8`, `\frac{1}{2}`, `3e-7`.

use crate::arithmetic::{product, sum, trimmed};

/// More digits than this, or a power of ten beyond it, is not taken for a number: the work of a
/// comparison stays bounded whatever a model writes.
const MAX_DIGITS: usize = 300;

/// `digits * 10^exponent / denominator`, never negative: the sign is its owner's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// No leading and no trailing zeros; empty for 0.
    digits: Vec<u8>,
    /// 0 for 0.
    exponent: i32,
    /// No leading and no trailing zeros; empty for 1.
    denominator: Vec<u8>,
}

impl Number {
    /// Makes the form unique: trailing zeros go to the exponent.
    fn new(digits: &[u8], exponent: i32, denominator: Option<(&[u8], i32)>) -> Option<Number> {
        let (digits, exponent) = canonical(digits, exponent);
        let (below, below_exponent) = match denominator {
            None => (Vec::new(), 0),
            Some((below, e)) => canonical(below, e),
        };
        if denominator.is_some() && below.is_empty() {
            return None;
        }
        if digits.is_empty() {
            return Some(Number { digits, exponent: 0, denominator: Vec::new() });
        }
        let denominator = if below == [1] { Vec::new() } else { below };
        Some(Number { digits, exponent: exponent - below_exponent, denominator })
    }

    /// True for 0.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The number times `10^power`.
    pub fn scaled(mut self, power: i32) -> Number {
        if !self.is_zero() {
            self.exponent += power;
        }
        self
    }

    /// Exact equality.
    pub fn equals(&self, other: &Number) -> bool {
        if self.denominator == other.denominator {
            return self.digits == other.digits && self.exponent == other.exponent;
        }
        let across = |a: &Number, b: &Number| match b.denominator.is_empty() {
            true => (a.digits.clone(), a.exponent),
            false => canonical(&product(&a.digits, &b.denominator), a.exponent),
        };
        across(self, other) == across(other, self)
    }
}

/// Strips zeros on both sides.
fn canonical(digits: &[u8], exponent: i32) -> (Vec<u8>, i32) {
    let digits = trimmed(digits);
    let zeros = digits.iter().rev().take_while(|&&d| d == 0).count();
    let digits = &digits[..digits.len() - zeros];
    (digits.to_vec(), if digits.is_empty() { 0 } else { exponent + zeros as i32 })
}

/// A position in text that is being read. Methods move it only when they succeed.
#[derive(Clone, Copy)]
pub struct Reader<'t> {
    /// The whole text.
    pub text: &'t str,
    /// Byte offset, always at a character's start.
    pub at: usize,
}

impl<'t> Reader<'t> {
    /// What has not been read.
    pub fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads `mark` if it is next.
    pub fn eat(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    /// Reads the first of `marks` that is next.
    pub fn eat_any(&mut self, marks: &[&str]) -> bool {
        marks.iter().any(|mark| self.eat(mark))
    }

    /// Skips blanks and LaTeX's spaces.
    pub fn skip_spaces(&mut self) {
        while self.eat_any(&[" ", "\t", "\u{a0}", "\\,", "\\ ", "\\;", "\\!", "~"]) {}
    }

    /// Reads a run of ASCII digits into `digits`; false when there is none.
    fn digits(&mut self, digits: &mut Vec<u8>) -> bool {
        let start = self.at;
        while let Some(b @ b'0'..=b'9') = self.peek() {
            digits.push(b - b'0');
            self.at += 1;
        }
        self.at > start
    }

    /// An integer or a decimal: `12`, `1,250`, `1{,}250.5`, `.5`. Digits and exponent.
    fn decimal(&mut self) -> Option<(Vec<u8>, i32)> {
        let mut ahead = *self;
        let mut digits = Vec::new();
        if ahead.digits(&mut digits) && digits.len() <= 3 && digits[0] != 0 {
            ahead.thousands(&mut digits);
        }
        let whole = digits.len();
        let mut fraction = ahead;
        if fraction.eat(".") && fraction.digits(&mut digits) {
            ahead = fraction;
        }
        if digits.is_empty() || digits.len() > MAX_DIGITS {
            return None;
        }
        let exponent = -((digits.len() - whole) as i32);
        *self = ahead;
        Some((digits, exponent))
    }

    /// Groups of exactly three digits behind one and the same separator.
    fn thousands(&mut self, digits: &mut Vec<u8>) {
        for separator in [",", "{,}", "\\,", "\u{a0}", "\u{202f}", "\u{2009}"] {
            let mut read = *self;
            let mut groups = Vec::new();
            loop {
                let mut ahead = read;
                let before = groups.len();
                if ahead.eat(separator) && ahead.digits(&mut groups) && groups.len() == before + 3 {
                    read = ahead;
                } else {
                    groups.truncate(before);
                    break;
                }
            }
            if !groups.is_empty() {
                digits.append(&mut groups);
                *self = read;
                return;
            }
        }
    }

    /// A number without its sign. `10^5` is one; `2^5` is read as 2 and leaves the rest.
    pub fn number(&mut self) -> Option<Number> {
        if let Some(fraction) = self.latex_fraction() {
            return Number::new(&fraction.0, 0, Some((&fraction.1, 0)));
        }
        let start = self.at;
        let (mut digits, mut exponent) = self.decimal()?;
        if self.text[start..self.at] == *"10"
            && let Some(power) = self.power()
        {
            (digits, exponent) = (vec![1], power);
        } else if let Some(power) = self.scientific() {
            exponent += power;
        } else if let Some(below) = self.denominator() {
            return Number::new(&digits, exponent, Some((&below.0, below.1)));
        } else if exponent == 0
            && let Some((above, below)) = self.mixed()
        {
            digits = sum(&product(&digits, &below), &above);
            return Number::new(&digits, 0, Some((&below, 0)));
        }
        Number::new(&digits, exponent, None)
    }

    /// `e-7`, `\times 10^{-7}`.
    fn scientific(&mut self) -> Option<i32> {
        let mut ahead = *self;
        if ahead.eat_any(&["e", "E"]) {
            let power = ahead.signed_power()?;
            *self = ahead;
            return Some(power);
        }
        ahead.skip_spaces();
        if !ahead.eat_any(&["\\times", "\\cdot", "×", "*", "x"]) {
            return None;
        }
        ahead.skip_spaces();
        if !ahead.eat("10") {
            return None;
        }
        let power = ahead.power()?;
        *self = ahead;
        Some(power)
    }

    /// `^5`, `^{-5}`.
    fn power(&mut self) -> Option<i32> {
        let mut ahead = *self;
        if !ahead.eat("^") {
            return None;
        }
        let braced = ahead.eat("{");
        let power = ahead.signed_power()?;
        if braced && !ahead.eat("}") {
            return None;
        }
        *self = ahead;
        Some(power)
    }

    fn signed_power(&mut self) -> Option<i32> {
        let negative = self.eat_any(&["-", "−"]);
        if !negative {
            self.eat("+");
        }
        let start = self.at;
        let mut digits = Vec::new();
        if !self.digits(&mut digits) {
            return None;
        }
        let power: i32 = self.text[start..self.at].parse().ok().filter(|&p| p <= MAX_DIGITS as i32)?;
        Some(if negative { -power } else { power })
    }

    /// `/8`, with spaces or without.
    fn denominator(&mut self) -> Option<(Vec<u8>, i32)> {
        let mut ahead = *self;
        ahead.skip_spaces();
        if !ahead.eat("/") {
            return None;
        }
        ahead.skip_spaces();
        let below = ahead.decimal()?;
        *self = ahead;
        Some(below)
    }

    /// The fraction of a mixed number: `1/2` after a space, `\frac{1}{2}` with or without one.
    fn mixed(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut ahead = *self;
        ahead.skip_spaces();
        if let Some(fraction) = ahead.latex_fraction() {
            *self = ahead;
            return Some(fraction);
        }
        let (mut above, mut below) = (Vec::new(), Vec::new());
        let apart = ahead.at > self.at;
        if apart && ahead.digits(&mut above) && ahead.eat("/") && ahead.digits(&mut below) {
            let sane = above.len().max(below.len()) <= MAX_DIGITS && !trimmed(&below).is_empty();
            if sane {
                *self = ahead;
                return Some((above, below));
            }
        }
        None
    }

    /// `\frac{1}{2}`, `\dfrac12`, of integers.
    fn latex_fraction(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut ahead = *self;
        if !ahead.eat_any(&["\\frac", "\\dfrac", "\\tfrac", "\\cfrac"]) {
            return None;
        }
        let above = ahead.argument()?;
        let below = ahead.argument()?;
        if trimmed(&below).is_empty() {
            return None;
        }
        *self = ahead;
        Some((above, below))
    }

    /// `{12}`, or one digit, as TeX reads an argument.
    fn argument(&mut self) -> Option<Vec<u8>> {
        self.skip_spaces();
        let mut digits = Vec::new();
        if self.eat("{") {
            self.skip_spaces();
            let any = self.digits(&mut digits) && digits.len() <= MAX_DIGITS;
            self.skip_spaces();
            return (any && self.eat("}")).then_some(digits);
        }
        match self.peek() {
            Some(b @ b'0'..=b'9') => {
                self.at += 1;
                Some(vec![b - b'0'])
            }
            _ => None,
        }
    }
}
