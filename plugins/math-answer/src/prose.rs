//! The last number of running text, and whether it stands alone or is part of something larger.

use crate::number::Reader;
use crate::value::Value;

/// Bytes before the last digit that are looked at: the longest number that counts fits.
const WINDOW: usize = 800;
/// Reading starts at a blank at least this far before the last digit, if there is one: few numbers
/// are longer, and one that is cut at a blank inside is seen to be part of something larger.
const NEAR: usize = 64;

/// The last number of a text.
pub enum Last<'t> {
    /// No digit anywhere.
    None,
    /// The last digits belong to an expression or a name; why, for people.
    Entangled,
    /// A number on its own.
    Number {
        /// As written, with its sign.
        text: &'t str,
        /// Byte offset of its end.
        end: usize,
        /// What it is.
        value: Value<'t>,
    },
}

/// Finds the last number. Every number has a digit, so the last digit belongs to it.
pub fn last_number(text: &str) -> Last<'_> {
    let bytes = text.as_bytes();
    let Some(last_digit) = bytes.iter().rposition(u8::is_ascii_digit) else { return Last::None };
    let mut reader = Reader { text, at: window_start(text, last_digit) };
    let mut last = Last::None;
    while reader.at <= last_digit {
        let start = reader.at;
        if !matches!(bytes[start], b'0'..=b'9' | b'.' | b'\\') {
            // Most bytes begin no number; those inside a character of several bytes do neither.
            reader.at += 1;
            continue;
        }
        match reader.number() {
            Some(number) => {
                let (sign, alone) = before(text, start);
                let mut ahead = reader;
                ahead.skip_spaces();
                let percent = ahead.eat_any(&["%", "\\%"]);
                let end = if percent { ahead.at } else { reader.at };
                last = if alone && ends_alone(&text[end..]) {
                    let from = sign.unwrap_or(start);
                    let value = Value { negative: sign.is_some(), number, percent, unit: "" };
                    Last::Number { text: &text[from..end], end, value }
                } else {
                    Last::Entangled
                };
                reader.at = end.max(start + 1);
            }
            None => {
                let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                if digits > 0 {
                    // Too many digits for a number: none of them may stand for it.
                    last = Last::Entangled;
                }
                reader.at += digits.max(1);
            }
        }
    }
    last
}

/// Where reading starts: behind a line's end or a blank that is not too near to the last digit.
fn window_start(text: &str, last_digit: usize) -> usize {
    let bytes = &text.as_bytes()[..last_digit];
    let floor = last_digit.saturating_sub(WINDOW);
    let near = last_digit.saturating_sub(NEAR).max(floor);
    let line = bytes[near..].iter().rposition(|&b| b == b'\n').map(|i| near + i + 1);
    let gap = || bytes[floor..near].iter().rposition(|&b| b == b' ' || b == b'\n').map(|i| floor + i + 1);
    match line.or_else(gap) {
        Some(start) => start,
        None if floor == 0 => 0,
        None => bytes.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |i| i + 1),
    }
}

/// Looks at what stands before a number at `start`: the offset of its minus sign, if it has one,
/// and whether the number stands alone.
fn before(text: &str, start: usize) -> (Option<usize>, bool) {
    let mut head = &text[..start];
    for currency in ["\\$", "$", "€", "£", "¥", "₹"] {
        if let Some(rest) = head.strip_suffix(currency) {
            head = rest;
            break;
        }
    }
    // `x2` is a name, `2^5` a power, `1.2.3` a version, `1,23` no way to write thousands.
    let mut back = head.bytes().rev();
    let (previous, one_before) = (back.next(), back.next());
    match previous {
        Some(b) if b.is_ascii_alphanumeric() || matches!(b, b'_' | b'^') => return (None, false),
        Some(b'.' | b',' | b':') if one_before.is_some_and(|b| b.is_ascii_digit()) => return (None, false),
        // Inside a LaTeX argument that was not read as a number, but for mere dress.
        Some(b'{') => {
            let dress = ["\\text{", "\\textbf{", "\\mathbf{", "\\mathrm{", "\\boldsymbol{"];
            return (None, dress.iter().any(|d| head.ends_with(d)));
        }
        _ => {}
    }
    let spaced = head.trim_end_matches([' ', '\t']);
    for minus in ["-", "−", "–"] {
        let Some(left) = spaced.strip_suffix(minus) else { continue };
        let close = spaced.len() == head.len();
        let operand = left.trim_end_matches([' ', '\t']);
        if ends_like_operand(operand) && !(close && is_word_then_blank(left)) {
            return (None, false);
        }
        let touching = left.chars().next_back();
        let sign = if close {
            touching.is_none_or(|c| !c.is_ascii_alphanumeric())
        } else {
            operand.ends_with(['=', ':', '(', '$', '*'])
        };
        return (sign.then_some(left.len()), true);
    }
    for operator in ["+", "*", "×", "÷", "/", "\\times", "\\cdot", "\\div", " x"] {
        if let Some(left) = spaced.strip_suffix(operator)
            && ends_like_operand(left.trim_end_matches([' ', '\t']))
            && !left.ends_with('*')
        {
            return (None, false);
        }
    }
    (None, true)
}

/// Something that a binary operator may follow: a digit, a closing bracket, a percent sign or a
/// variable of one letter.
fn ends_like_operand(text: &str) -> bool {
    let mut back = text.chars().rev();
    match back.next() {
        Some(c) if c.is_ascii_digit() || matches!(c, ')' | ']' | '}' | '%') => true,
        Some(c) if c.is_ascii_alphabetic() => !back.next().is_some_and(|c| c.is_ascii_alphabetic()),
        _ => false,
    }
}

/// `is -7`, `a -7`: a word and a blank before a minus that touches its number.
fn is_word_then_blank(left: &str) -> bool {
    left.ends_with([' ', '\t']) && left.trim_end().ends_with(|c: char| c.is_alphabetic())
}

/// Whether nothing behind a number makes it part of something larger: a power, an index, a second
/// decimal point, a ratio, a variable, a LaTeX symbol.
fn ends_alone(rest: &str) -> bool {
    let mut characters = rest.chars();
    let Some(first) = characters.next() else { return true };
    let second = characters.next();
    let second_is_digit = second.is_some_and(|c| c.is_ascii_digit());
    match first {
        '^' => rest.starts_with("^\\circ") || rest.starts_with("^{\\circ}"),
        '_' | '(' => false,
        '.' | ':' => !second_is_digit,
        '\\' => {
            ["\\text", "\\mathrm", "\\,", "\\ ", "\\)", "\\]", "\\;", "\\%", "\\$", "\\circ", "\\\\", "\\n"]
                .iter()
                .any(|space| rest.starts_with(space))
        }
        'x' | 'y' | 'z' | 'n' | 'k' | 'i' | 'π' => second.is_some_and(|c| c.is_alphabetic()),
        _ => true,
    }
}
