//! Questions to a language model that judges.

use crate::HostCall;
use whet_trajectory::Message;

/// A conversation that the judge continues.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What was said so far.
    pub messages: Vec<Message>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// 0 always takes the likeliest token.
    pub temperature: f32,
}

/// What the judge said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its words, a model's thoughts included where the server leaves them in.
    pub text: String,
    /// Tokens of the question.
    pub input_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

/// Why there is no reply. Texts never hold a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// Not allowed, or not there.
    #[error("denied: {0}")]
    Denied(String),
    /// The route's token budget is used up.
    #[error("the token budget is used up")]
    OverBudget,
    /// No answer within the deadline, or the call was cancelled.
    #[error("timed out")]
    TimedOut,
    /// The endpoint answered with an error, or not at all.
    #[error("{0}")]
    Upstream(String),
}

/// Whoever answers the capability `judge`.
pub trait Judge: Send + Sync {
    /// Asks the judge of `route`, or the first one. Answers by `call.deadline`.
    fn chat(
        &self,
        route: Option<&str>,
        question: &Question,
        call: &HostCall<'_>,
    ) -> Result<Reply, JudgeError>;
}
