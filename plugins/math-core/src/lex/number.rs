//! Numbers: grouped thousands, decimals, repeating parts, powers of ten.

use super::Lexer;
use crate::number::MAX_DIGITS;
use crate::syntax::Rational;
use crate::token::Token;
use num_bigint::{BigInt, BigUint};
use num_traits::Pow;

impl Lexer<'_> {
    /// An integer or decimal with grouped thousands and a repeating part.
    pub(super) fn number(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        let mut digits = String::new();
        let run = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let n = run(self.at);
        digits.push_str(&self.text[self.at..self.at + n]);
        self.at += n;
        if (1..=3).contains(&n) && !(digits.starts_with('0')) {
            for separator in ["{,}", "\\!,\\!", ",\\!", "\\,", "\u{202f}", "\u{2009}", ","] {
                if separator == "," && (self.depth > 0 || !self.grouping) {
                    continue;
                }
                let mut read = self.at;
                let mut groups = String::new();
                while self.text[read..].starts_with(separator) {
                    let from = read + separator.len();
                    if run(from) != 3 {
                        // A group of the wrong length: the commas separate a list.
                        if run(from) > 0 && separator == "," {
                            groups.clear();
                        }
                        break;
                    }
                    groups.push_str(&self.text[from..from + 3]);
                    read = from + 3;
                }
                if !groups.is_empty() {
                    digits.push_str(&groups);
                    self.at = read;
                    self.grouped |= separator == ",";
                    break;
                }
            }
        }
        let mut places = 0;
        let mut integral = true;
        let mut repeating = None;
        if self.rest().starts_with('.') {
            let n = run(self.at + 1);
            let tail = &self.text[self.at + 1 + n..];
            if n > 0 || tail.starts_with("\\overline") {
                digits.push_str(&self.text[self.at + 1..self.at + 1 + n]);
                places = n;
                self.at += 1 + n;
                integral = false;
                if let Some(over) = tail.strip_prefix("\\overline") {
                    let (inside, length) = match over.strip_prefix('{') {
                        Some(inside) => {
                            let end = inside.find('}')?;
                            (&inside[..end], end + 2)
                        }
                        None => (over.get(..1)?, 1),
                    };
                    if inside.is_empty() || inside.len() > 40 || !inside.bytes().all(|b| b.is_ascii_digit()) {
                        return None;
                    }
                    self.at += "\\overline".len() + length;
                    repeating = Some(inside);
                }
            }
        }
        if digits.len() > MAX_DIGITS {
            return None;
        }
        let parse = |s: &str| {
            BigUint::parse_bytes(if s.is_empty() { b"0" } else { s.as_bytes() }, 10).map(BigInt::from)
        };
        let ten = |n: usize| Pow::pow(BigInt::from(10), n as u32);
        let mut value = Rational::new(parse(&digits)?, ten(places));
        if let Some(period) = repeating {
            value += Rational::new(parse(period)?, ten(places) * (ten(period.len()) - 1));
        }
        // 3.2e-7
        let rest = self.rest().as_bytes();
        if matches!(rest.first(), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(rest.get(1), Some(b'-' | b'+')));
            let n = run(self.at + 1 + signed);
            if (1..=3).contains(&n) {
                let from = self.at + 1 + signed;
                let power: usize = self.text[from..from + n].parse().ok()?;
                value = if rest[1] == b'-' { value / ten(power) } else { value * ten(power) };
                self.at = from + n;
                integral = false;
            }
        }
        self.push(Token::Number(value, integral));
        Some(())
    }
}
