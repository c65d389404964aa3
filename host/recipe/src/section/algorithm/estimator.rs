//! How rewards become advantages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How rewards become advantages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Estimator {
    /// A reward against those of its group.
    GroupRelative {
        /// What is subtracted.
        baseline: Baseline,
        /// What the centred reward is divided by.
        scale: Scale,
        /// Keeps the quotient finite. TRL has 1e-4; verl, slime and Relax 1e-6; OpenRLHF 1e-9.
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// What a group with one score gets.
        singleton: Singleton,
    },
    /// The same with mean and deviation taken without the group's extremes.
    GroupTrimmed {
        /// Share of the scores left out at either end.
        #[schemars(range(min = 0.0, max = 0.5))]
        trim: f64,
        /// Keeps the quotient finite.
        #[schemars(range(min = 0.0))]
        eps: f64,
    },
    /// A reward against those of the whole step.
    BatchRelative {
        /// Keeps the quotient finite.
        #[schemars(range(min = 0.0))]
        eps: f64,
    },
    /// Mean and deviation each over the step or the group, or left out.
    Normalised {
        /// Over what the mean is taken.
        mean: Span,
        /// Over what the deviation is taken.
        deviation: Span,
        /// The mean is that of the others.
        leave_one_out: bool,
        /// What the squares are divided by.
        variance: Variance,
        /// Keeps the quotient finite.
        #[schemars(range(min = 0.0))]
        eps: f64,
    },
    /// A reward against the mean of its group, weighted by length.
    Opo {
        /// What a group with one score gets.
        singleton: Singleton,
    },
    /// Centred rewards, larger where few answers score.
    Gpg {
        /// Divides every advantage.
        #[schemars(extend("exclusiveMinimum" = 0))]
        norm: f64,
        /// What a group with one score gets.
        singleton: Singleton,
    },
    /// The best answer of a group against the second best; all others get 0.
    PassAtK {
        /// What the gap is divided by.
        scale: Scale,
        /// Keeps the quotient finite.
        #[schemars(range(min = 0.0))]
        eps: f64,
    },
    /// Centred rewards over the group's success rate; for rewards of 0 and 1.
    MaxRl,
    /// Every reward component normalised in its group, then their weighted sum over the step.
    Gdpo {
        /// What is subtracted from a component.
        baseline: Baseline,
        /// Keeps the quotients by a group's deviation finite.
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Keeps the quotient by the step's deviation finite.
        #[schemars(range(min = 0.0))]
        batch_eps: f64,
    },
    /// Discounted reward to go, without a baseline; `whiten` gives it one.
    Returns {
        /// Discount per token.
        #[schemars(range(min = 0.0, max = 1.0))]
        gamma: f64,
        /// Whether tokens that were not sampled are steps.
        gaps: Gaps,
    },
    /// Reward to go less the reward of the greedy answer, which is sampled beside the group.
    Remax,
    /// Generalised advantage estimation over the critic's values.
    Gae {
        /// Discount per step.
        #[schemars(range(min = 0.0, max = 1.0))]
        gamma: f64,
        /// Decay of the trace.
        #[schemars(range(min = 0.0, max = 1.0))]
        lambda: f64,
        /// Decay for the critic's returns; `lambda` unless given (VAPO).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1.0))]
        value_lambda: Option<f64>,
        /// `α` of `lambda = 1 - 1 / max(α n, 1)` for an answer of `n` tokens, in place of `lambda` (VAPO).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        length_adaptive: Option<f64>,
        /// What a step is.
        steps: GaeSteps,
        /// Whether tokens that were not sampled are steps.
        gaps: Gaps,
    },
    /// Reward to go less the baseline that makes gradients vary least, token by token.
    Otb {
        /// Which tokens of a group are compared.
        alignment: Alignment,
        /// What only the longest answer reaches has no baseline.
        zero_tail: bool,
        /// Keeps the quotient finite.
        #[schemars(range(min = 0.0))]
        eps: f64,
    },
    /// The teacher's log-probability against the model's own, token by token.
    Distillation {
        /// Factor of the difference.
        #[schemars(extend("exclusiveMinimum" = 0))]
        coefficient: f64,
        /// Whether the rewards' group-relative advantages are added.
        rewards: bool,
    },
}

/// What is subtracted from a reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// The mean of the group.
    Mean,
    /// The mean of the group's other members.
    LeaveOneOut,
}

/// What a centred reward is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The standard deviation of the prompt's group.
    #[default]
    Group,
    /// The standard deviation of the group's other members (NeMo RL).
    Others,
    /// The standard deviation of the whole batch.
    Batch,
    /// Nothing (Dr. GRPO, arXiv 2503.20783).
    None,
}

/// What a group with one score gets, where no comparison is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Singleton {
    /// 0: nothing was learnt (TRL, NeMo RL, prime-rl).
    Zero,
    /// The reward as it is (verl).
    Reward,
}

/// Over what a statistic is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Span {
    /// All scores of the step.
    Batch,
    /// Those of the group.
    Group,
    /// It is left out.
    None,
}

/// What the squares of a variance are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variance {
    /// `n - 1`.
    Sample,
    /// `n`.
    Population,
}

/// Whether tokens between others that were not sampled (what a tool said) are steps of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gaps {
    /// They are passed through unchanged (verl, NeMo RL, AReaL).
    Skip,
    /// They are steps like all others (slime, Relax, OpenRLHF, LightRFT).
    Step,
}

/// What a step of generalised advantage estimation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GaeSteps {
    /// A token.
    Token,
    /// A turn: sampled tokens without others between them (AReaL).
    Turn,
}

/// Which tokens of a group the optimal token baseline compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Alignment {
    /// Those at the same place of the answer.
    Position,
    /// Those that are sampled as the same n-th (verl's `tir_optimal_token_baseline`).
    Trained,
}

impl Estimator {
    /// GRPO's.
    pub fn group_relative() -> Self {
        Estimator::GroupRelative {
            baseline: Baseline::Mean,
            scale: Scale::Group,
            eps: 1e-6,
            singleton: Singleton::Zero,
        }
    }

    /// Every kind with its default options.
    pub fn all() -> Vec<Estimator> {
        let (baseline, singleton, gaps) = (Baseline::Mean, Singleton::Zero, Gaps::Skip);
        vec![
            Estimator::group_relative(),
            Estimator::GroupTrimmed { trim: 0.1, eps: 1e-8 },
            Estimator::BatchRelative { eps: 1e-6 },
            Estimator::Normalised {
                mean: Span::Batch,
                deviation: Span::Batch,
                leave_one_out: false,
                variance: Variance::Sample,
                eps: 1e-5,
            },
            Estimator::Opo { singleton },
            Estimator::Gpg { norm: 1.0, singleton },
            Estimator::PassAtK { scale: Scale::Group, eps: 1e-6 },
            Estimator::MaxRl,
            Estimator::Gdpo { baseline, eps: 1e-4, batch_eps: 1e-4 },
            Estimator::Returns { gamma: 1.0, gaps },
            Estimator::Remax,
            Estimator::Gae {
                gamma: 1.0,
                lambda: 0.95,
                value_lambda: None,
                length_adaptive: None,
                steps: GaeSteps::Token,
                gaps,
            },
            Estimator::Otb { alignment: Alignment::Position, zero_tail: true, eps: 1e-8 },
            Estimator::Distillation { coefficient: 1.0, rewards: false },
        ]
    }

    /// Whether an answer is compared with others to the same prompt, so that one alone learns nothing.
    pub fn compares(&self) -> bool {
        use Estimator as E;
        matches!(
            self,
            E::GroupRelative { .. }
                | E::GroupTrimmed { .. }
                | E::Opo { .. }
                | E::Gpg { .. }
                | E::PassAtK { .. }
                | E::MaxRl
                | E::Gdpo { .. }
                | E::Otb { .. }
        )
    }

    /// Whether a divergence taken off the reward reaches the advantages.
    pub fn reads_reward_kl(&self) -> bool {
        use Estimator as E;
        !matches!(
            self,
            E::MaxRl | E::Gdpo { .. } | E::PassAtK { .. } | E::Distillation { rewards: false, .. }
        )
    }
}
