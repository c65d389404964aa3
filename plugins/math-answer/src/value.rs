//! A text that is one number and nothing else, give or take its dress: sign, currency, percent,
//! unit, LaTeX and Markdown around it.

use crate::number::{Number, Reader};

/// A signed number with what stands beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'t> {
    /// Below zero.
    pub negative: bool,
    /// The amount, a percent sign not applied.
    pub number: Number,
    /// A percent sign follows.
    pub percent: bool,
    /// The unit as written; empty when there is none.
    pub unit: &'t str,
}

impl Value<'_> {
    /// Exact equality of the numbers. Units count when both sides have one. A percent sign divides
    /// by a hundred; where one side alone has it, the bare figures may be equal instead.
    pub fn equals(&self, other: &Value) -> bool {
        if (self.negative && !self.number.is_zero()) != (other.negative && !other.number.is_zero()) {
            return false;
        }
        if !self.unit.is_empty() && !other.unit.is_empty() && !same_unit(self.unit, other.unit) {
            return false;
        }
        if self.number.equals(&other.number) {
            return true;
        }
        match (self.percent, other.percent) {
            (true, false) => self.number.clone().scaled(-2).equals(&other.number),
            (false, true) => self.number.equals(&other.number.clone().scaled(-2)),
            _ => false,
        }
    }
}

/// Equal words but for case, a plural's `s` and full stops.
fn same_unit(a: &str, b: &str) -> bool {
    let bare = |unit: &str| {
        let unit = unit.replace('.', "").to_lowercase();
        unit.strip_suffix('s').filter(|u| u.len() > 1).unwrap_or(&unit).to_owned()
    };
    bare(a) == bare(b)
}

/// Reads a text that is one number; anything left over makes it none.
pub fn parse(text: &str) -> Option<Value<'_>> {
    let text = undressed(after_equals(undressed(text))?);
    let mut reader = Reader { text, at: 0 };
    let negative = reader.sign_and_currency()?;
    let number = reader.number()?;
    reader.skip_spaces();
    let percent = reader.eat_any(&["%", "\\%"]);
    reader.eat_any(&["\\$", "$", "€", "£", "¥", "₹", "°", "^\\circ", "^{\\circ}"]);
    reader.skip_spaces();
    let rest = undressed(reader.rest());
    let value = Value { negative, number, percent, unit: "" };
    match rest {
        "" => Some(value),
        "percent" | "per cent" if !percent => Some(Value { percent: true, ..value }),
        _ => {
            let (power, unit) = magnitude(rest);
            let unit = undressed(unit);
            let number = value.number.scaled(power);
            (unit.is_empty() || is_unit(unit)).then_some(Value { number, unit, ..value })
        }
    }
}

impl Reader<'_> {
    /// One sign and one currency sign at most, in either order; true for a minus.
    fn sign_and_currency(&mut self) -> Option<bool> {
        let (mut signs, mut currencies, mut negative) = (0, 0, false);
        loop {
            self.skip_spaces();
            if self.eat_any(&["-", "−", "–"]) {
                (signs, negative) = (signs + 1, true);
            } else if self.eat("+") {
                signs += 1;
            } else if self.eat_any(&["\\$", "$", "€", "£", "¥", "₹"]) {
                currencies += 1;
            } else {
                return (signs <= 1 && currencies <= 1).then_some(negative);
            }
        }
    }
}

/// Takes off what surrounds a whole text: blanks, full stops, emphasis, `$…$`, `\text{…}`.
fn undressed(text: &str) -> &str {
    let mut text = text;
    loop {
        let before = text;
        text = text.trim().trim_end_matches(['.', ',', ';', ':']).trim_end();
        for (open, close) in
            [("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("*", "*"), ("`", "`"), ("\"", "\"")]
        {
            if let Some(inside) = text.strip_prefix(open).and_then(|t| t.strip_suffix(close)) {
                text = inside;
            }
        }
        for command in ["\\text", "\\mathrm", "\\mathbf", "\\textbf", "\\boldsymbol", "\\mbox", ""] {
            if let Some(inside) = text.strip_prefix(command).and_then(braced) {
                text = inside;
            }
        }
        for space in ["\\,", "\\;", "\\ ", "\\!", "~"] {
            text = text.trim_start_matches(space);
        }
        if text == before {
            return text;
        }
    }
}

/// The inside of a text that is one pair of braces from end to end.
fn braced(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut depth = 0i32;
    for b in inside.bytes() {
        depth += i32::from(b == b'{') - i32::from(b == b'}');
        if depth < 0 {
            return None;
        }
    }
    Some(inside)
}

/// The right side of `x = 5` and of `7 - 9 = -2`; the text itself without an equals sign; none for
/// an equation in a variable.
fn after_equals(text: &str) -> Option<&str> {
    match text.rsplit_once('=') {
        None => Some(text),
        Some((left, right)) => {
            let name = left.trim().trim_start_matches('\\');
            let is_name = !name.is_empty() && name.len() <= 24;
            let letters =
                name.chars().all(|c| c.is_alphabetic() || matches!(c, '_' | '{' | '}' | '\'' | ' '));
            let arithmetic =
                !name.contains(char::is_alphabetic) && name.contains(|c: char| c.is_ascii_digit());
            (is_name && letters || arithmetic).then_some(right)
        }
    }
}

/// A number word and the power of ten that it stands for.
fn magnitude(text: &str) -> (i32, &str) {
    for (word, power) in [("hundred", 2), ("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12)] {
        if let Some(rest) = text.strip_prefix(word)
            && !rest.starts_with(|c: char| c.is_alphabetic())
        {
            return (power, rest.trim_start());
        }
    }
    (0, text)
}

/// Words that may follow a number: letters, `km/h`, `cm^2`. A lone letter is a unit only if it is
/// one, and not a variable.
fn is_unit(text: &str) -> bool {
    let text = text.strip_prefix("\\text").or_else(|| text.strip_prefix("\\mathrm")).unwrap_or(text);
    let words = text.trim_end_matches(['²', '³']);
    let words = ["^2", "^3", "^{2}", "^{3}"].iter().find_map(|p| words.strip_suffix(p)).unwrap_or(words);
    let words = braced(words).unwrap_or(words);
    let mut characters = words.chars();
    let Some(first) = characters.next() else { return false };
    if characters.clone().next().is_none() {
        return "mgslhdLNJWVAKCFB".contains(first);
    }
    let inner = |c: char| c.is_alphabetic() || matches!(c, ' ' | '/' | '.' | '-' | '\'' | ',' | '(' | ')');
    // "3 or more" hedges, and "a dozen" is another number.
    let hedge = |word: &str| {
        matches!(word, "or" | "and" | "to" | "not" | "dozen" | "score" | "half" | "plus" | "minus" | "times")
    };
    first.is_alphabetic() && characters.all(inner) && !words.split([' ', ',']).any(hedge)
}
