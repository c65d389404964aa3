//! Decides whether a text follows verifiable instructions: every id of IFEval (25) and IFBench (58).
//!
//! [`Row::read`] turns a row's metadata into checkers, [`Row::grade`] applies them to a response.
//! Verdicts depend on the text alone: nothing is drawn at random, work is bounded by a small multiple
//! of the text's length, and no input panics. Where the official checkers grade something else than
//! their instruction says, [`Rules::Right`] does what it says and [`Rules::Official`] what they do.
//!
//! Each family of instructions is a file with a table of its ids; nothing here knows of plugins.

mod args;
mod english;
mod family;
mod language;
mod mode;
mod plugin;
mod row;
mod sentence;
mod text;

pub use args::{Args, Relation};
pub use family::ids;
pub use mode::Mode;
pub use plugin::{COMPONENTS, Config, Score, Settings, grade_group};
pub use row::{Grade, Row};

/// What counts as followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rules {
    /// What the instruction says.
    #[default]
    Right,
    /// What the benchmark's own checker accepts, where that differs.
    Official,
}

/// Whether a response follows an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// It does.
    Followed,
    /// It does not; the text says what was seen.
    NotFollowed(String),
    /// This cannot be told of this response (why).
    Undecided(String),
}

impl Finding {
    /// Followed, or else `why`.
    pub fn of(followed: bool, why: impl FnOnce() -> String) -> Self {
        if followed { Finding::Followed } else { Finding::NotFollowed(why()) }
    }
}

/// Decides one instruction, its arguments known. The response is never blank.
pub type Check = Box<dyn Fn(&str, Rules) -> Finding>;
