//! Multiple-choice questions: what the options are, which of them are right, and which of them a
//! response chooses.
//!
//! `question` reads labels and options, `token` cuts a response into words, letters and marks with
//! its LaTeX and Markdown gone, `pick` finds the choice among them (`reader` by letters, `statement`
//! what is said outright, `hint` what is not), `words` compares texts of options. A letter
//! counts where the text presents it as the answer, never because it is a capital letter somewhere:
//! `A photon` and `definitely A` differ. Nothing here knows what a plugin is.

mod hint;
mod pick;
mod question;
mod reader;
mod statement;
mod token;
mod vocabulary;
mod words;

pub use question::{Options, Question};

/// What was decided about one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The response chooses the right options and no other.
    pub correct: bool,
    /// What it chooses, or why it chooses nothing.
    pub note: String,
}

/// A set of options: bit 0 is A.
type Letters = u32;

/// `A, C`
fn shown(letters: Letters) -> String {
    let names = (0..26u8).filter(|i| letters >> i & 1 == 1).map(|i| char::from(b'A' + i).to_string());
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
