//! LaTeX and plain text as tokens. Spacing and size commands go; digits become exact numbers.

use crate::number::MAX_DIGITS;
use crate::syntax::{Rational, Relation};
use crate::units;
use num_bigint::{BigInt, BigUint};
use num_traits::Pow;

/// Texts longer than this, in bytes, are not read as formulas.
pub const MAX_LENGTH: usize = 4000;

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
    /// `and`, `or`
    Separator,
    /// `\cup`
    Cup,
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

/// What a text was cut into.
pub struct Lexed {
    /// The tokens.
    pub tokens: Vec<Lexeme>,
    /// A comma was read as a separator of thousands.
    pub thousands: bool,
}

const FUNCTIONS: &[&str] = &[
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "sec", "csc", "cot", "log",
    "ln", "lg", "exp", "gcd", "lcm", "max", "min", "det", "Re", "Im", "arg", "deg", "dim",
];
const DROPPED: &[&str] = &[
    "left",
    "right",
    "big",
    "Big",
    "bigg",
    "Bigg",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
    "biggl",
    "biggr",
    "displaystyle",
    "textstyle",
    "limits",
    "quad",
    "qquad",
    "mathord",
    "middle",
    "hfill",
    "phantom",
    "mathstrut",
];
const WRAPPERS: &[&str] = &[
    "text",
    "mathrm",
    "textbf",
    "textit",
    "textrm",
    "mathbf",
    "mathit",
    "mathsf",
    "texttt",
    "mbox",
    "hbox",
    "operatorname",
    "boldsymbol",
    "bm",
    "mathcal",
    "mathbb",
    "boxed",
    "fbox",
    "textsf",
    "textnormal",
    "emph",
    "underline",
    "ensuremath",
];
const GREEK: &[&str] = &[
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "vartheta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Xi",
    "Pi",
    "Sigma",
    "Upsilon",
    "Phi",
    "Psi",
    "Omega",
    "ell",
    "hbar",
];
const SHORT_WORDS: &[&str] = &[
    "yes", "no", "odd", "all", "red", "one", "two", "six", "ten", "the", "and", "day", "cat", "dog", "man",
    "non", "any", "sun", "mon", "tue", "wed", "thu", "fri", "sat", "his", "her", "for", "not", "but", "if",
    "or", "is", "of", "to", "on", "it", "by", "am", "pm", "per",
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
                '∪' => self.push(Token::Cup),
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

    /// An integer or decimal with grouped thousands and a repeating part.
    fn number(&mut self) -> Option<()> {
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

    /// A run of letters: a function, a word, or variables side by side.
    fn letters(&mut self) {
        let rest = self.rest();
        let run = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
        let lower = run.to_lowercase();
        let behind = rest[run.len()..].trim_start();
        let after_number = matches!(
            self.tokens.last().map(|t| &t.token),
            Some(Token::Number(..) | Token::Mark('}' | ')' | '/') | Token::Words(_))
        );
        let ends = behind.is_empty() || behind.starts_with(['/', '^', ',', ')', '.', '$', ';']);
        let unit = units::is_known(run)
            && after_number
            && (run.len() > 1 || self.spaced || self.after_words_slash());
        self.at += run.len();
        if matches!(lower.as_str(), "and" | "or") {
            self.push(Token::Separator);
        } else if unit && (ends || run.len() > 2) {
            self.push(Token::Words(run.to_owned()));
        } else if let Some(function) = FUNCTIONS.iter().find(|f| **f == run) {
            self.push(Token::Function(function));
        } else if run == "pi" {
            self.push(Token::Symbol("pi".into()));
        } else if run == "sqrt" {
            self.push(Token::Command("sqrt"));
        } else if matches!(run, "infinity" | "inf" | "oo") {
            self.push(Token::Symbol("infty".into()));
        } else if run == "pm" && behind.starts_with(|c: char| c.is_ascii_digit()) {
            self.push(Token::PlusMinus);
        } else if run.chars().count() >= 4 || SHORT_WORDS.contains(&lower.as_str()) {
            self.push(Token::Words(run.to_owned()));
        } else {
            for c in run.chars() {
                self.push(Token::Symbol(c.to_string()));
            }
        }
    }

    fn after_words_slash(&self) -> bool {
        let mut back = self.tokens.iter().rev().map(|t| &t.token);
        back.next() == Some(&Token::Mark('/')) && matches!(back.next(), Some(Token::Words(_)))
    }

    fn command(&mut self) -> Option<()> {
        let rest = &self.rest()[1..];
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())];
        if name.is_empty() {
            let c = rest.chars().next()?;
            self.at += 1 + c.len_utf8();
            match c {
                '{' => {
                    self.depth += 1;
                    self.push(Token::SetOpen);
                }
                '}' => {
                    self.depth -= 1;
                    self.push(Token::SetClose);
                }
                '%' => self.push(Token::Mark('%')),
                '$' => self.push(Token::Words("$".into())),
                '|' => self.push(Token::Mark('|')),
                '\\' => self.push(Token::Row),
                ',' | ';' | ':' | '!' | ' ' | '>' => self.spaced = true,
                '(' | ')' | '[' | ']' => {}
                '&' => self.push(Token::Separator),
                _ => return None,
            }
            return Some(());
        }
        self.at += 1 + name.len();
        if DROPPED.contains(&name) {
            if matches!(name, "left" | "right") && self.rest().starts_with('.') {
                self.at += 1;
            }
            return Some(());
        }
        if WRAPPERS.contains(&name) {
            return self.wrapped(name);
        }
        if let Some(function) = FUNCTIONS.iter().find(|f| **f == name) {
            self.push(Token::Function(function));
            return Some(());
        }
        if let Some(letter) = GREEK.iter().find(|g| **g == name) {
            let letter = letter.strip_prefix("var").unwrap_or(letter);
            self.push(Token::Symbol(letter.to_owned()));
            return Some(());
        }
        match name {
            "frac" | "dfrac" | "tfrac" | "cfrac" => self.push(Token::Command("frac")),
            "sqrt" => self.push(Token::Command("sqrt")),
            "binom" | "dbinom" | "tbinom" => self.push(Token::Command("binom")),
            "lfloor" => self.push(Token::Command("lfloor")),
            "rfloor" => self.push(Token::Command("rfloor")),
            "lceil" => self.push(Token::Command("lceil")),
            "rceil" => self.push(Token::Command("rceil")),
            "overline" | "bar" | "vec" | "hat" | "overrightarrow" | "widehat" | "angle" | "triangle" => {
                self.push(Token::Command(match name {
                    "overline" | "bar" => "bar",
                    "vec" | "overrightarrow" => "vec",
                    "hat" | "widehat" => "hat",
                    "angle" => "angle",
                    _ => "triangle",
                }));
            }
            "cdot" | "times" | "ast" => self.push(Token::Mark('*')),
            "div" => self.push(Token::Mark('/')),
            "pi" => self.push(Token::Symbol("pi".into())),
            "infty" => self.push(Token::Symbol("infty".into())),
            "circ" | "degree" => {
                // `^\circ` and `^{\circ}`
                let n = self.tokens.len();
                let mark = |i: usize, c: char| i < n && self.tokens[i].token == Token::Mark(c);
                if n >= 2 && mark(n - 1, '{') && mark(n - 2, '^') && self.rest().starts_with('}') {
                    self.at += 1;
                    self.tokens.truncate(n - 2);
                } else if n >= 1 && mark(n - 1, '^') {
                    self.tokens.truncate(n - 1);
                } else if name == "circ" {
                    return None;
                }
                self.push(Token::Mark('°'));
            }
            "pm" | "mp" => self.push(Token::PlusMinus),
            "le" | "leq" | "leqslant" => self.relation(Relation::LessEqual),
            "ge" | "geq" | "geqslant" => self.relation(Relation::GreaterEqual),
            "lt" => self.relation(Relation::Less),
            "gt" => self.relation(Relation::Greater),
            "ne" | "neq" => self.relation(Relation::NotEqual),
            "approx" | "equiv" => self.relation(Relation::Equal),
            "in" => self.relation(Relation::In),
            "cup" => self.push(Token::Cup),
            "setminus" | "backslash" => self.push(Token::Without),
            "mid" => self.push(Token::Mark('|')),
            "lor" | "vee" | "land" | "wedge" => self.push(Token::Separator),
            "emptyset" | "varnothing" => self.push(Token::EmptySet),
            "colon" => self.push(Token::Mark(':')),
            "prime" => self.push(Token::Mark('\'')),
            "lbrace" => {
                self.depth += 1;
                self.push(Token::SetOpen);
            }
            "rbrace" => {
                self.depth -= 1;
                self.push(Token::SetClose);
            }
            "lvert" | "rvert" | "vert" => self.push(Token::Mark('|')),
            "langle" => {
                self.depth += 1;
                self.push(Token::Mark('('));
            }
            "rangle" => {
                self.depth -= 1;
                self.push(Token::Mark(')'));
            }
            "ldots" | "dots" | "cdots" => self.push(Token::Symbol("dots".into())),
            "begin" | "end" => {
                let inside = self.rest().strip_prefix('{')?;
                let close = inside.find('}')?;
                let environment = &inside[..close];
                self.at += close + 2;
                if name == "end" {
                    self.depth -= 1;
                    self.push(Token::End);
                } else if let "pmatrix" | "bmatrix" | "matrix" | "smallmatrix" | "Bmatrix" | "vmatrix"
                | "array" = environment
                {
                    if environment == "array" && self.rest().starts_with('{') {
                        self.at += self.rest().find('}')? + 1;
                    }
                    self.depth += 1;
                    self.push(Token::Begin(environment == "vmatrix"));
                } else {
                    return None;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// `\text{…}` and its like: the inside as a formula where it is one, else as words.
    fn wrapped(&mut self, name: &str) -> Option<()> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let Some(open) = trimmed.strip_prefix('{') else {
            // `\mathbf x`, `\boxed 7`: the next character stands for itself.
            return (!trimmed.is_empty()).then_some(());
        };
        let close = closing_brace(open)?;
        let inside = &open[..close];
        self.at += rest.len() - trimmed.len() + close + 2;
        if name == "mathbb" {
            self.push(Token::Symbol(format!("mathbb{inside}")));
            return Some(());
        }
        if inside.starts_with(' ') {
            self.spaced = true;
        }
        let bare = inside.trim().trim_end_matches('.').trim();
        if bare.is_empty() {
            return Some(());
        }
        let letters = bare.chars().all(|c| c.is_alphabetic());
        if let Some(function) = FUNCTIONS.iter().find(|f| **f == bare).filter(|_| name != "text") {
            self.push(Token::Function(function));
        } else if letters && bare.chars().count() > 1
            || bare.contains(' ')
                && !bare.contains(['\\', '$'])
                && bare.contains(|c: char| c.is_alphabetic())
                && !bare.starts_with(|c: char| c.is_ascii_digit())
        {
            let lower = bare.to_lowercase();
            if matches!(lower.trim_matches([',', ' ']), "and" | "or" | "and/or") {
                self.push(Token::Separator);
            } else {
                self.push(Token::Words(bare.to_owned()));
            }
        } else if letters && matches!(name, "text" | "mathrm") && self.after_value() && units::is_known(bare)
        {
            self.push(Token::Words(bare.to_owned()));
        } else {
            // A number, a letter, `(C)`, `m/s`: read again as a formula.
            if self.nested > 8 {
                return None;
            }
            let mut inner = Lexer {
                text: bare,
                at: 0,
                depth: self.depth,
                tokens: std::mem::take(&mut self.tokens),
                spaced: self.spaced,
                grouping: self.grouping,
                grouped: self.grouped,
                nested: self.nested + 1,
            };
            let done = inner.run();
            let balanced = inner.depth == self.depth;
            (self.tokens, self.grouped, self.spaced) = (inner.tokens, inner.grouped, false);
            done?;
            if !balanced {
                return None;
            }
        }
        Some(())
    }

    fn after_value(&self) -> bool {
        matches!(self.tokens.last().map(|t| &t.token), Some(Token::Number(..) | Token::Mark('}' | ')')))
    }
}

fn integer(n: i64) -> Rational {
    Rational::from_integer(BigInt::from(n))
}

/// Where the brace closes that was opened before `text`.
pub fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    let mut escaped = false;
    for (i, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}
