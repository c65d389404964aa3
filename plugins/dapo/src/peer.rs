//! `math_dapo` of verl, slime and Relax as it is: scores that users' published numbers were made with.
//!
//! Source: verl `reward_score/math_dapo.py`, slime `rm_hub/math_dapo_utils.py` (2026; Relax's is
//! slime's), whose normaliser is Minerva's. Words and units are deleted wherever they stand.

use regex_lite::Regex;

/// Whose grader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Labels are normalised as answers are.
    Verl,
    /// Labels become whole numbers; end tokens are deleted.
    Slime,
}

const SUBSTITUTIONS: [(&str, &str); 10] = [
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    ("\\$", ""),
    ("\\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (",\\text{and}", ","),
    ("\\text{and}", ","),
    ("\\text{m}", "\\text{}"),
];

const REMOVED: [&str; 40] = [
    "square",
    "ways",
    "integers",
    "dollars",
    "mph",
    "inches",
    "hours",
    "km",
    "units",
    "\\ldots",
    "sue",
    "points",
    "feet",
    "minutes",
    "digits",
    "cents",
    "degrees",
    "cm",
    "gm",
    "pounds",
    "meters",
    "meals",
    "edges",
    "students",
    "childrentickets",
    "multiples",
    "\\text{s}",
    "\\text{.}",
    "\\text{\ns}",
    "\\text{}^2",
    "\\text{}^3",
    "\\text{\n}",
    "\\text{}",
    "\\mathrm{th}",
    "^\\circ",
    "^{\\circ}",
    "\\;",
    ",\\!",
    "{,}",
    "\"",
];

/// The last `n` characters.
pub fn tail(text: &str, n: usize) -> &str {
    text.char_indices().rev().nth(n - 1).map_or(text, |(at, _)| &text[at..])
}

/// What the last `\boxed{` holds, if it closes.
pub fn last_box(text: &str) -> Option<&str> {
    let inside = &text[text.rfind("\\boxed{")? + "\\boxed{".len()..];
    let mut depth = 1;
    for (i, b) in inside.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inside[..i]);
        }
    }
    None
}

/// The expressions that answers go through.
pub struct Normaliser {
    answer: Regex,
    steps: Vec<(Regex, &'static str)>,
}

impl Normaliser {
    /// Makes the expressions; an error would be ours.
    pub fn new() -> Result<Normaliser, String> {
        let regex = |pattern: &str| Regex::new(pattern).map_err(|e| e.to_string());
        let steps = [
            (r"(.*?)(\$)(.*?)(\$)(.*)", "$$${3}$$"),
            (r"(\\text\{)(.*?)(\})", "${2}"),
            (r"(\\textbf\{)(.*?)(\})", "${2}"),
            (r"(\\overline\{)(.*?)(\})", "${2}"),
            (r"(\\boxed\{)(.*)(\})", "${2}"),
            (r"(frac)([^{])(.)", "frac{${2}}{${3}}"),
            (r"(sqrt)([^{])", "sqrt{${2}}"),
        ];
        let steps = steps.iter().map(|(p, by)| Ok((regex(p)?, *by))).collect::<Result<_, String>>()?;
        Ok(Normaliser { answer: regex(r"(?i)Answer\s*:\s*([^\n]+)")?, steps })
    }

    /// The normalised answer of a response's tail.
    pub fn answer(&self, tail: &str, dialect: Dialect) -> String {
        let last = self.answer.captures_iter(tail).last();
        let text = last.as_ref().and_then(|c| c.get(1)).map_or("[INVALID]", |m| m.as_str());
        self.normalised(text, dialect)
    }

    /// The label as it is compared; none for one that is no number where it must be.
    pub fn label(&self, label: &str, dialect: Dialect) -> Option<String> {
        let normalised = self.normalised(label, dialect);
        match dialect {
            Dialect::Verl => Some(normalised),
            Dialect::Slime => {
                let value: f64 = normalised.parse().ok().filter(|v: &f64| v.is_finite())?;
                // `+ 0.0`: Python has no integer -0.
                Some(format!("{:.0}", value.trunc() + 0.0))
            }
        }
    }

    fn normalised(&self, answer: &str, dialect: Dialect) -> String {
        let mut text = answer.rsplit('=').next().unwrap_or(answer).to_owned();
        for (before, after) in SUBSTITUTIONS {
            text = text.replace(before, after);
        }
        for removed in REMOVED {
            text = text.replace(removed, "");
        }
        text = text.replace("\\dots", "");
        if dialect == Dialect::Slime {
            text = text.replace("<|im_end|>", "").replace("<|endoftext|>", "");
        }
        for (regex, by) in &self.steps {
            text = regex.replace_all(&text, *by).into_owned();
        }
        text = text.replace('$', "");
        let digits = text.replace(',', "");
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            text = digits;
        }
        text.trim().to_owned()
    }
}
