//! What a reward says about a sample. A failure is never a number.

use crate::Error;
use std::ops::Range;

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// One of the names that the plugin declares.
    pub name: String,
    /// A finite number.
    pub value: f64,
}

/// A value for a part of the response: a range of bytes of [`Sample::response`](crate::Sample::response).
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// A finite number.
    pub value: f64,
}

/// A score and how it came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grade {
    /// Named values; a lone one, or one named `reward`, is the reward.
    pub components: Vec<Component>,
    /// Rewards along the way.
    pub spans: Vec<Span>,
    /// What was extracted, or why it fell short.
    pub note: Option<String>,
}

/// What a reward says about one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Graded.
    Scored(Grade),
    /// There is no right score (why): never the same as 0.
    Unscorable(String),
    /// The reward could not do its work. One of these fails the call for the whole group.
    Failed(Error),
}

impl Outcome {
    /// A score under the name `reward`.
    pub fn scored(value: f64) -> Self {
        Outcome::Scored(Grade::default()).component("reward", value)
    }

    /// 1 or 0 under the name `reward`.
    pub fn correct(correct: bool) -> Self {
        Outcome::scored(if correct { 1.0 } else { 0.0 })
    }

    /// No component yet: add them with [`component`](Outcome::component).
    pub fn components() -> Self {
        Outcome::Scored(Grade::default())
    }

    /// There is no right score.
    pub fn unscorable(reason: impl Into<String>) -> Self {
        Outcome::Unscorable(reason.into())
    }

    /// Adds a named value to a score; other outcomes stay as they are.
    pub fn component(self, name: impl Into<String>, value: f64) -> Self {
        self.graded(|grade| grade.components.push(Component { name: name.into(), value }))
    }

    /// Says what was extracted, or why the sample fell short; other outcomes stay as they are.
    pub fn note(self, note: impl Into<String>) -> Self {
        self.graded(|grade| grade.note = Some(note.into()))
    }

    /// Adds a value for the bytes `range` of the response; other outcomes stay as they are.
    pub fn span(self, range: Range<usize>, value: f64) -> Self {
        self.graded(|grade| {
            grade.spans.push(Span { start: range.start as u32, end: range.end as u32, value });
        })
    }

    fn graded(mut self, change: impl FnOnce(&mut Grade)) -> Self {
        if let Outcome::Scored(grade) = &mut self {
            change(grade);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builders_change_scores_and_leave_the_rest() {
        let Outcome::Scored(grade) = Outcome::components().component("a", 0.5).span(1..3, -1.0).note("n")
        else {
            panic!("not scored");
        };
        assert_eq!(grade.components, [Component { name: "a".into(), value: 0.5 }]);
        assert_eq!(grade.spans, [Span { start: 1, end: 3, value: -1.0 }]);
        assert_eq!(grade.note.as_deref(), Some("n"));

        let unscorable = Outcome::unscorable("no label");
        assert_eq!(unscorable.clone().component("a", 1.0).note("n"), unscorable);
    }
}
