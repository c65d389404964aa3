//! What goes into an engine and what comes out: token ids in, token ids with log-probabilities and
//! weight versions out. Nothing here knows how tokens are computed.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tch::Tensor;
use whet_trajectory::{FinishReason, GroupId, SampleId, WeightVersion};

/// How tokens are chosen and when a sequence ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: f64,
    /// Keeps the fewest most likely tokens that together have this probability; 1 keeps all.
    pub top_p: f64,
    /// Keeps this many of the most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f64,
    /// The most tokens to sample.
    pub max_tokens: usize,
    /// Texts that end the sequence; the text of the completion ends before them.
    pub stop: Vec<String>,
    /// Ids that end the sequence, beside the model's own.
    pub stop_ids: Vec<u32>,
    /// Whether the model's own end ids are sampled like any other.
    pub ignore_eos: bool,
}

impl Default for Sampling {
    /// The model's own distribution, up to 256 tokens.
    fn default() -> Self {
        Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            max_tokens: 256,
            stop: Vec::new(),
            stop_ids: Vec::new(),
            ignore_eos: false,
        }
    }
}

impl Sampling {
    /// What makes these settings unusable, as one sentence.
    pub fn flaw(&self) -> Option<String> {
        let Sampling { temperature, top_p, min_p, .. } = *self;
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Some(format!("temperature is {temperature}; it must be 0 or more"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Some(format!("top-p is {top_p}; it must be above 0 and at most 1"));
        }
        if !(0.0..=1.0).contains(&min_p) {
            return Some(format!("min-p is {min_p}; it must be between 0 and 1"));
        }
        if self.max_tokens == 0 {
            return Some("max-tokens is 0; at least one token must be sampled".to_owned());
        }
        if self.stop.iter().any(String::is_empty) {
            return Some("a stop text is empty; it would end every sequence at once".to_owned());
        }
        None
    }
}

/// One sequence to sample.
#[derive(Clone, Debug)]
pub struct Request {
    /// Results are joined on it.
    pub id: SampleId,
    /// The group that the sample is of. It changes nothing here: what prompts begin with in common is computed once, within
    /// a group or not.
    pub group: GroupId,
    /// Token ids before the first sampled one.
    pub prompt: Arc<[u32]>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// With the same weights, the same seed gives the same tokens, whatever runs beside it.
    pub seed: u64,
}

/// One sampled sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The request's.
    pub id: SampleId,
    /// Ids exactly as sampled, the stop id included.
    pub tokens: Vec<u32>,
    /// Natural logarithm of each token's probability in the distribution that it was drawn from: after temperature and
    /// truncation, renormalised. At temperature 0, of the model's own distribution.
    pub logprobs: Vec<f32>,
    /// The weights that each token was computed with.
    pub versions: Vec<WeightVersion>,
    /// Why it ended.
    pub finish: FinishReason,
    /// The tokens decoded, without special tokens, stop id and stop text.
    pub text: String,
    /// Mean over the tokens of the entropy, in nats, of the distribution they were drawn from.
    pub entropy_mean: f32,
}

/// Why a sequence was not sampled, or an engine did not do as told.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum EngineError {
    /// The request cannot be served by this engine.
    #[error("request {id} cannot be sampled: {reason}")]
    Request {
        /// The request.
        id: SampleId,
        /// What is wrong and what helps.
        reason: String,
    },
    /// New weights do not fit; the engine keeps the old ones.
    #[error("weights {version} are refused, {kept} stays: {reason}")]
    Weights {
        /// The version refused.
        version: WeightVersion,
        /// The version kept.
        kept: WeightVersion,
        /// What is wrong.
        reason: String,
    },
    /// The engine cannot be built from this model and these options.
    #[error("the rollout engine cannot start: {0}")]
    Start(String),
    /// The model gave a logit that is not finite.
    #[error(
        "weights {0} give logits that are not finite; training has diverged, lower the learning rate or clip gradients"
    )]
    NotFinite(WeightVersion),
    /// The model or the tokenizer failed.
    #[error("rollout failed: {0}")]
    Model(String),
    /// The engine's thread has ended.
    #[error("the rollout engine has stopped: {0}")]
    Stopped(String),
}

/// A source of samples.
pub trait Engine: Send {
    /// Queues requests. Results come through the channel as they finish, in any order; when the engine ends, the channel
    /// closes, so nobody waits for ever.
    fn submit(&self, requests: Vec<Request>) -> Receiver<Result<Completion, EngineError>>;

    /// Ends a sequence: what it has so far comes back with [`FinishReason::Aborted`]. Unknown ids are ignored.
    fn cancel(&self, id: &SampleId);

    /// Replaces all weights between two decode steps, by Hugging Face name. Running sequences go on with the new ones, over
    /// keys and values of the old.
    ///
    /// # Errors
    /// When a name is missing, unknown or given twice, or a shape differs; the old weights then stay whole.
    fn update_weights(
        &self,
        version: WeightVersion,
        weights: Vec<(String, Tensor)>,
    ) -> Result<(), EngineError>;

    /// Log-probabilities at temperature 1 of `ids[prompt_len..]`, each given what precedes it.
    ///
    /// # Errors
    /// When the engine has ended or the tokens do not fit.
    fn logprobs(&self, ids: &[u32], prompt_len: usize) -> Result<Vec<f32>, EngineError>;

    /// The version of the weights that the next token is computed with.
    fn version(&self) -> WeightVersion;
}
