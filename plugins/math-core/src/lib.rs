//! Mathematical answers: found in a response, read, and compared exactly and in bounded time.
//!
//! `extract` finds the text of the final answer, `lex`, `formula` and `parse` read it into a typed value,
//! `compare` decides by type; formulas are compared as quotients of polynomials (`normal`,
//! `polynomial`) and, where those grow too large, by their values in two prime fields (`field`);
//! inequalities, intervals and unions as sets of real numbers (`ranges`, `reals`, `enclosure`).
//! Nothing here evaluates text as code, uses floating point, or knows what a plugin is.

mod answer;
mod compare;
mod enclosure;
mod extract;
mod field;
mod formula;
pub mod hendrycks;
mod lex;
mod normal;
mod number;
mod parse;
mod polynomial;
mod ranges;
mod reals;
mod syntax;
mod token;
mod units;

pub use answer::Answer;
pub use extract::Style;

/// A reference answer.
#[derive(Clone, Debug)]
pub struct Label(Answer);

/// What was decided about one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The response gives the label's answer.
    pub correct: bool,
    /// What was taken as the answer, or why nothing was.
    pub note: String,
}

impl Label {
    /// Reads a label: a formula, words, or a worked solution that ends in `#### 42`.
    ///
    /// The error says why nothing can be compared with it.
    pub fn read(label: &str) -> Result<Label, String> {
        if answer_text::is_remark(label) {
            let shown: String = label.chars().take(80).collect();
            return Err(format!("the label {shown:?} is a remark, not an answer"));
        }
        let text = extract::of_label(label);
        Answer::of(text).map(Label).ok_or_else(|| {
            let shown: String = label.chars().take(80).collect();
            format!("the label {shown:?} cannot be read: it is empty, too long, or its braces do not match")
        })
    }

    /// Whether a text is this answer and nothing else.
    pub fn is(&self, text: &str) -> bool {
        Answer::of(text).is_some_and(|answer| self.0.equals(&answer))
    }

    /// Grades a response; `cut_off` says that the token limit ended it.
    pub fn grade(&self, response: &str, style: Style, cut_off: bool) -> Verdict {
        let text = match extract::find(response, style, cut_off) {
            Ok(text) => text,
            Err(why) => return Verdict { correct: false, note: format!("no answer: {why}") },
        };
        let shown: String = text.trim().chars().take(120).collect();
        match Answer::of(&text) {
            Some(answer) => Verdict { correct: self.0.equals(&answer), note: format!("answer {shown}") },
            None => Verdict { correct: false, note: format!("no answer: {shown} cannot be read") },
        }
    }
}

#[cfg(test)]
mod tests;
