//! A response as words, letters and marks, without its LaTeX and Markdown dress.

use answer_text::boxes;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word or number.
    Word,
    /// One letter of the alphabet, standing alone.
    Letter,
    /// A mark of one character.
    Mark(char),
    /// The end of a line.
    Break,
    /// `\boxed{`
    Open,
    /// The end of a box.
    Close,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its text; lower case for words, as written for letters.
    pub text: String,
    /// Nothing stands between it and the token before.
    pub glued: bool,
}

impl Token {
    /// Whether it is this mark.
    pub fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    /// Whether it is one of these words.
    pub fn is_in(&self, words: &[&str]) -> bool {
        self.kind == Kind::Word && words.contains(&self.text.as_str())
    }
}

const OPEN: char = '\u{2}';
const CLOSE: char = '\u{3}';

/// Commands that only dress their argument.
const DRESS: &[&str] = &[
    "text",
    "textbf",
    "textit",
    "textrm",
    "textsf",
    "texttt",
    "textnormal",
    "mathrm",
    "mathbf",
    "mathit",
    "mathsf",
    "mathtt",
    "operatorname",
    "emph",
    "underline",
    "mbox",
    "hbox",
    "boldsymbol",
    "bm",
    "rm",
    "bf",
    "it",
    "left",
    "right",
    "big",
    "Big",
    "bigl",
    "bigr",
    "displaystyle",
    "large",
    "Large",
    "LARGE",
    "huge",
    "Huge",
    "mathcal",
    "mathord",
];

/// Cuts a text.
pub fn tokens(text: &str) -> Vec<Token> {
    cut(&undressed(text))
}

/// Whether a character is written without blanks between words.
pub fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The text with boxes as two marks, without dress, and with its many signs of one meaning as one.
fn undressed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for boxed in boxes(text) {
        let Some(inside) = boxed.inside else { break };
        plain(&text[from..boxed.start], &mut out);
        out.push(OPEN);
        plain(inside, &mut out);
        out.push(CLOSE);
        from = boxed.end;
    }
    plain(&text[from..], &mut out);
    out
}

fn plain(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        rest = behind;
        match c {
            '\\' => rest = command(behind, out),
            '{' | '}' | '*' | '`' | '#' | OPEN | CLOSE => {}
            '$' => out.push(' '),
            '_' => {
                let inner = out.ends_with(|c: char| c.is_alphanumeric())
                    && behind.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '{' | '\\'));
                if inner {
                    out.push('_');
                }
            }
            // `<B>` around a letter is no markup.
            '<' if lone_letter(behind).is_some() => {
                out.push('(');
                out.extend(behind.chars().next());
                out.push(')');
                rest = &behind[2..];
            }
            '=' | '-' if behind.starts_with('>') => {
                out.push('→');
                rest = &behind[1..];
            }
            '<' => match html_tag(behind) {
                Some(end) => {
                    out.push(' ');
                    rest = &behind[end..];
                }
                None => out.push('<'),
            },
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            _ if c.is_whitespace() || c == '\u{200b}' => out.push(' '),
            '\u{ff01}'..='\u{ff5e}' => out.extend(char::from_u32(c as u32 - 0xfee0)),
            '。' => out.push('.'),
            '、' => out.push(','),
            '【' | '「' | '『' | '〔' => out.push('['),
            '】' | '」' | '』' | '〕' => out.push(']'),
            '“' | '”' | '„' | '«' | '»' => out.push('"'),
            '’' | '‘' => out.push('\''),
            '–' | '—' | '−' | '‐' | '‑' => out.push('-'),
            '×' | '⋅' | '·' => out.push('×'),
            'Ⓐ'..='Ⓩ' => encircled(c as u32 - 'Ⓐ' as u32, out),
            'ⓐ'..='ⓩ' => encircled(c as u32 - 'ⓐ' as u32, out),
            '🅐'..='🅩' => encircled(c as u32 - '🅐' as u32, out),
            '🅰'..='🆉' => encircled(c as u32 - '🅰' as u32, out),
            // Letters of mathematical alphabets: bold, italic and so on, 52 of each.
            '\u{1d400}'..='\u{1d6a3}' => {
                let i = ((c as u32 - 0x1d400) % 52) as u8;
                out.push(char::from(if i < 26 { b'A' + i } else { b'a' + i - 26 }));
            }
            _ => out.push(c),
        }
    }
}

fn encircled(i: u32, out: &mut String) {
    out.extend(['(', char::from(b'A' + i as u8), ')']);
}

/// A command, from behind its backslash; returns what follows.
fn command<'t>(text: &'t str, out: &mut String) -> &'t str {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let name = &text[..end];
    if name.is_empty() {
        let Some(c) = text.chars().next() else { return text };
        match c {
            '\\' => out.push('\n'),
            '$' | '%' | '&' | '#' | '_' => out.push(c),
            _ => out.push(' '),
        }
        return &text[c.len_utf8()..];
    }
    match name {
        _ if DRESS.contains(&name) => {}
        "quad" | "qquad" | "newline" => out.push(' '),
        "therefore" => out.push_str(" therefore "),
        "times" | "cdot" => out.push('×'),
        "rightarrow" | "to" | "implies" | "Rightarrow" | "longrightarrow" => out.push('→'),
        _ => {
            out.push('\\');
            out.push_str(name);
        }
    }
    &text[end..]
}

/// The letter of `B>`.
fn lone_letter(text: &str) -> Option<char> {
    let letter = text.chars().next().filter(char::is_ascii_uppercase)?;
    text[1..].starts_with('>').then_some(letter)
}

/// The length of `b>`, `/strong>`, `br/>`.
fn html_tag(text: &str) -> Option<usize> {
    let name = text.strip_prefix('/').unwrap_or(text);
    let letters = name.find(|c: char| !c.is_ascii_alphanumeric()).filter(|n| (1..=10).contains(n))?;
    let tail = name[letters..].trim_start_matches([' ', '/']);
    tail.starts_with('>').then(|| text.len() - tail.len() + 1)
}

fn cut(text: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    let mut glued = false;
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == ' ' {
            glued = false;
            before = c;
            rest = &rest[1..];
            continue;
        }
        let length = run(rest, before);
        let (piece, behind) = rest.split_at(if length > 0 { length } else { c.len_utf8() });
        let kind = if length > 0 {
            if piece.len() == 1 && c.is_ascii_alphabetic() { Kind::Letter } else { Kind::Word }
        } else {
            match c {
                '\n' => Kind::Break,
                OPEN => Kind::Open,
                CLOSE => Kind::Close,
                _ => Kind::Mark(c),
            }
        };
        let again = kind == Kind::Break && found.last().is_none_or(|t| t.kind == Kind::Break);
        if !again {
            let text = match kind {
                Kind::Word => piece.to_lowercase(),
                Kind::Letter => piece.to_owned(),
                _ => String::new(),
            };
            found.push(Token { kind, text, glued });
        }
        glued = kind != Kind::Break;
        before = piece.chars().next_back().unwrap_or(' ');
        rest = behind;
    }
    found
}

/// The length of the word that a text begins with: letters and digits, and what holds words and
/// numbers together.
fn run(text: &str, before: char) -> usize {
    let mut length = 0;
    let mut last = before;
    let signed = text.starts_with('-') && !before.is_alphanumeric() && !matches!(before, ')' | ']');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let (digit, letter) = (|c: char| c.is_ascii_digit(), |c: char| c.is_alphabetic() && !is_ideograph(c));
        let joins = if length == 0 {
            c.is_alphanumeric() && !is_ideograph(c) || c == '\\' || signed && digit(next)
        } else {
            match c {
                '\\' | '_' | '^' | '°' | '²' | '³' => true,
                '.' => {
                    let after = text[length + 1..].chars().nth(1).unwrap_or(' ');
                    digit(last) && digit(next) || letter(last) && letter(next) && !letter(after)
                }
                ',' => digit(last) && digit(next),
                '\'' => letter(last) && letter(next),
                '-' => last == '^' || last.is_alphanumeric() && next.is_alphanumeric() && !is_ideograph(next),
                _ => c.is_alphanumeric() && !is_ideograph(c),
            }
        };
        if !joins {
            if length == 0 && is_ideograph(c) {
                return c.len_utf8();
            }
            break;
        }
        length += c.len_utf8();
        last = c;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> String {
        let token = |t: Token| match t.kind {
            Kind::Word => t.text,
            Kind::Letter => format!("<{}>", t.text),
            Kind::Mark(c) => c.to_string(),
            Kind::Break => "/".into(),
            Kind::Open => "[[".into(),
            Kind::Close => "]]".into(),
        };
        tokens(text).into_iter().map(token).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn dress_goes_and_letters_stand_alone() {
        for (text, expected) in [
            ("**Answer:** B", "answer : <B>"),
            ("\\boxed{\\text{(C)}}", "[[ ( <C> ) ]]"),
            ("$\\mathbf{D}$.", "<D> ."),
            ("Answer：Ｂ", "answer : <B>"),
            ("A-type, A's and H_2O", "a-type , a's and h_2o"),
            ("i.e. C.The", "i.e . <C> . the"),
            ("2.4 eV, -1,000", "2.4 ev , -1,000"),
            ("答案是B。", "答 案 是 <B> ."),
            ("<b>A</b>\n\nx < y", "<A> / <x> < <y>"),
            ("Ⓑ 𝐂", "( <B> ) <C>"),
            ("10^{-5}", "10^-5"),
            ("<A> => B", "( <A> ) → <B>"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }
}
