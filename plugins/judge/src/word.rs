//! A reply as words, without the marks that make it bold, boxed or quoted.

/// A word, a number, a sign, or the end of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word<'t> {
    /// As it is written; `"\n"` for the end of a line.
    pub text: &'t str,
    /// Its first byte in the text.
    pub at: usize,
}

impl Word<'_> {
    /// The same word, in any case.
    pub fn is(&self, other: &str) -> bool {
        self.text.eq_ignore_ascii_case(other)
    }

    pub fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// Letters, not a sign or number.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic())
    }

    /// In capitals, and long enough to mean it.
    pub fn shouts(&self) -> bool {
        self.text.len() >= 4 && self.text.chars().all(|c| c.is_ascii_uppercase())
    }
}

/// Whether a sentence or line ends here.
pub fn is_end(word: &Word<'_>) -> bool {
    matches!(word.text, "\n" | "." | "!" | "?" | ";")
}

pub fn is_number(word: &Word<'_>) -> bool {
    let digits = word.text.strip_prefix('-').unwrap_or(word.text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// The text with every mark of formatting turned into blanks, so that all bytes keep their places.
pub fn without_marks(text: &str) -> String {
    let mut out = text.to_owned();
    for command in ["\\boxed", "\\fbox", "\\textbf", "\\text", "\\mathbf", "\\mathrm"] {
        out = out.replace(command, &" ".repeat(command.len()));
    }
    let blank = |c: char| {
        matches!(c, '*' | '`' | '#' | '"' | '“' | '”' | '[' | ']' | '{' | '}' | '(' | ')' | '$' | '_')
    };
    let mut plain = String::with_capacity(out.len());
    let mut previous = ' ';
    let mut chars = out.chars().peekable();
    while let Some(c) = chars.next() {
        // An underscore within a name is part of it.
        let inside =
            c == '_' && previous.is_alphanumeric() && chars.peek().is_some_and(|n| n.is_alphanumeric());
        if blank(c) && !inside {
            plain.extend(std::iter::repeat_n(' ', c.len_utf8()));
        } else {
            plain.push(c);
        }
        previous = c;
    }
    plain
}

/// The words of a text. A number keeps its point; `3rd` and `isn't` are words; blanks are left out.
pub fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        let length = if c == '\n' {
            1
        } else if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
            continue;
        } else if c.is_alphanumeric() {
            length_of_word(rest)
        } else if c == '-' && starts_number(text, at, rest) {
            1 + length_of_word(&rest[1..])
        } else {
            c.len_utf8()
        };
        found.push(Word { text: &rest[..length], at });
        rest = &rest[length..];
    }
    found
}

/// A minus sign belongs to a number unless something stands right before it.
fn starts_number(text: &str, at: usize, rest: &str) -> bool {
    let before = text[..at].chars().next_back();
    rest[1..].starts_with(|c: char| c.is_ascii_digit())
        && before.is_none_or(|c| c.is_whitespace() || c == ':' || c == '=')
}

fn length_of_word(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    let mut end = 0;
    let mut previous = ' ';
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        let joins = match c {
            '\'' | '’' | '_' => previous.is_alphanumeric() && next.is_some_and(char::is_alphanumeric),
            '.' => previous.is_ascii_digit() && next.is_some_and(|n| n.is_ascii_digit()),
            c => c.is_alphanumeric(),
        };
        if !joins {
            break;
        }
        end = at + c.len_utf8();
        previous = c;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        words(&without_marks(text)).iter().map(|w| w.text.to_owned()).collect()
    }

    #[test]
    fn marks_go_and_words_stay_where_they_were() {
        assert_eq!(texts("**Score:** `7.5`/10."), ["Score", ":", "7.5", "/", "10", "."]);
        assert_eq!(texts("\\boxed{\\text{PASS}} isn’t 3rd"), ["PASS", "isn’t", "3rd"]);
        assert_eq!(texts("is_correct: -1, 2-3"), ["is_correct", ":", "-1", ",", "2", "-", "3"]);
        let text = "é **x**";
        assert_eq!(without_marks(text).find('x'), text.find('x'));
    }
}
