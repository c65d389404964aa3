//! Commands: what `\name` stands for, and the texts inside `\text{…}` and its like.

use super::{FUNCTIONS, Lexer};
use crate::syntax::Relation;
use crate::token::Token;
use crate::units;
use answer_text::closing_brace;

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
    "Bbb",
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

impl Lexer<'_> {
    pub(super) fn command(&mut self) -> Option<()> {
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
                '\\' if self.lines => self.push(Token::Separator),
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
            "color" | "textcolor" => {
                let inside = self.rest().strip_prefix('{')?;
                self.at += closing_brace(inside)? + 2;
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
            "notin" => self.relation(Relation::NotIn),
            "not" => {
                let (relation, length) = match self.rest().trim_start() {
                    rest if rest.starts_with('=') => (Relation::NotEqual, 1),
                    rest if rest.starts_with("\\in") => (Relation::NotIn, 3),
                    _ => return None,
                };
                self.at += self.rest().len() - self.rest().trim_start().len() + length;
                self.relation(relation);
            }
            "choose" => self.push(Token::Command("choose")),
            "cup" => self.push(Token::Cup),
            "cap" => self.push(Token::Cap),
            "setminus" | "backslash" => self.push(Token::Without),
            "mid" => self.push(Token::Mark('|')),
            "lor" | "vee" => self.push(Token::Or),
            "land" | "wedge" => self.push(Token::Separator),
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
                // Cases with conditions are a function, others a system.
                if environment == "cases"
                    && name == "begin"
                    && self.rest().split("\\end{").next()?.contains('&')
                {
                    return None;
                }
                if let "aligned" | "align" | "align*" | "gathered" | "split" | "cases" = environment {
                    // Lines of their own.
                    self.lines = name == "begin";
                } else if name == "end" {
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
        if matches!(name, "mathbb" | "Bbb") {
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
        // `p.m.`
        let half_day = match bare.to_ascii_lowercase().as_str() {
            "a.m" | "am" => Some("am"),
            "p.m" | "pm" => Some("pm"),
            _ => None,
        };
        if let Some(half) = half_day.filter(|_| self.after_value()) {
            self.push(Token::Words(half.to_owned()));
            return Some(());
        }
        let letters = bare.chars().all(|c| c.is_alphabetic());
        // `A and C`
        let is_item = |w: &str| w.chars().count() == 1 || matches!(w, "and" | "or");
        let items = bare.contains(' ') && bare.split([' ', ',']).filter(|w| !w.is_empty()).all(is_item);
        if let Some(function) = FUNCTIONS.iter().find(|f| **f == bare).filter(|_| name != "text") {
            self.push(Token::Function(function));
        } else if letters && bare.chars().count() > 1
            || bare.contains(' ')
                && !items
                && !bare.contains(['\\', '$'])
                && bare.contains(|c: char| c.is_alphabetic())
                && !bare.starts_with(|c: char| c.is_ascii_digit())
        {
            let lower = bare.to_lowercase();
            self.push(match lower.trim_matches([',', ' ']) {
                "and" => Token::Separator,
                "or" | "and/or" => Token::Or,
                _ => Token::Words(bare.to_owned()),
            });
        } else if letters && matches!(name, "text" | "mathrm") && self.after_value() && units::is_known(bare)
            || self.is_temperature(bare)
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
                lines: self.lines,
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

    /// The letter of `40^\circ C`.
    pub(super) fn is_temperature(&self, letters: &str) -> bool {
        matches!(letters, "C" | "F") && self.tokens.last().is_some_and(|t| t.token == Token::Mark('°'))
    }

    fn after_value(&self) -> bool {
        matches!(self.tokens.last().map(|t| &t.token), Some(Token::Number(..) | Token::Mark('}' | ')')))
    }
}
