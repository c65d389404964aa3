//! What every preset stands for.

use crate::section::{
    Algorithm, Alignment, Baseline, Correction, Entropy, Estimator, Kl, KlEstimator, KlGradient, Loss, Old,
    Overlong, Placement, Preset, Ratio, Reduction, Scale, Singleton, Whiten,
};

impl Preset {
    /// All of them, in the order of the documentation.
    pub const ALL: [Preset; 29] = [
        Preset::Grpo,
        Preset::DrGrpo,
        Preset::Dapo,
        Preset::Gspo,
        Preset::Rloo,
        Preset::ReinforcePlusPlus,
        Preset::ReinforcePlusPlusBaseline,
        Preset::Remax,
        Preset::Gdpo,
        Preset::Opo,
        Preset::Gpg,
        Preset::Cispo,
        Preset::Sapo,
        Preset::Gmpo,
        Preset::M2po,
        Preset::Dppo,
        Preset::ClipCov,
        Preset::KlCov,
        Preset::Cpgd,
        Preset::Drpo,
        Preset::Spo,
        Preset::Cppo,
        Preset::Dro,
        Preset::Vespo,
        Preset::PassAtK,
        Preset::Maxrl,
        Preset::Ppo,
        Preset::Otb,
        Preset::Distillation,
    ];

    /// The name that recipes write.
    pub fn name(self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }
}

/// The typed values of a preset: GRPO's with what the method changes.
pub(crate) fn algorithm(preset: Preset) -> Algorithm {
    let grpo = Algorithm {
        preset,
        estimator: Estimator::group_relative(),
        overlong: Overlong::default(),
        reward_clip: 0.0,
        whiten: Whiten::None,
        advantage_clip: 0.0,
        loss: Loss::clip(0.2, 0.2),
        ratio: Ratio::Token,
        ratio_clamp: 20.0,
        old: Old::Trainer,
        reduction: Reduction::TokenMean,
        kl: Kl::default(),
        entropy: Entropy::default(),
        correction: Correction::tis(2.0),
        rejection: Vec::new(),
        epochs: 1,
        minibatches: 1,
    };
    // The kinds with the options they have by default.
    let loss = |name: &str| named(Loss::all(), name).unwrap_or(Loss::Reinforce);
    let estimator = |name: &str| named(Estimator::all(), name).unwrap_or(Estimator::MaxRl);
    let centred = Estimator::GroupRelative {
        baseline: Baseline::Mean,
        scale: Scale::None,
        eps: 1e-6,
        singleton: Singleton::Zero,
    };
    let per_answer = Reduction::SeqMeanTokenMean;
    let norm = Reduction::SeqMeanTokenSumNorm { length: None };
    let penalty = |estimator, placement| Kl {
        coefficient: 0.001,
        estimator,
        gradient: KlGradient::Direct,
        placement,
        adaptive: None,
    };
    match preset {
        Preset::Grpo => grpo,
        Preset::DrGrpo => Algorithm { estimator: centred, reduction: norm, ..grpo },
        Preset::Dapo => Algorithm {
            loss: Loss::clip(0.2, 0.28),
            overlong: Overlong { penalty: 1.0, ..Overlong::default() },
            ..grpo
        },
        Preset::Gspo => Algorithm {
            loss: Loss::clip(3e-4, 4e-4),
            ratio: Ratio::Sequence,
            ratio_clamp: 0.0,
            reduction: per_answer,
            ..grpo
        },
        Preset::Rloo => Algorithm {
            estimator: Estimator::GroupRelative {
                baseline: Baseline::LeaveOneOut,
                scale: Scale::None,
                eps: 1e-6,
                singleton: Singleton::Zero,
            },
            loss: Loss::Reinforce,
            ..grpo
        },
        Preset::ReinforcePlusPlus => Algorithm {
            estimator: estimator("returns"),
            whiten: Whiten::Sample,
            kl: penalty(KlEstimator::K1, Placement::Reward),
            ..grpo
        },
        Preset::ReinforcePlusPlusBaseline => Algorithm {
            estimator: centred,
            whiten: Whiten::Sample,
            kl: penalty(KlEstimator::K2, Placement::Loss),
            ..grpo
        },
        Preset::Remax => Algorithm { estimator: Estimator::Remax, loss: Loss::Reinforce, ..grpo },
        Preset::Gdpo => Algorithm { estimator: estimator("gdpo"), ..grpo },
        Preset::Opo => Algorithm { estimator: Estimator::Opo { singleton: Singleton::Zero }, ..grpo },
        Preset::Gpg => Algorithm {
            estimator: Estimator::Gpg { norm: 1.0, singleton: Singleton::Zero },
            loss: Loss::Reinforce,
            ..grpo
        },
        Preset::Cispo => Algorithm { loss: loss("cispo"), ..grpo },
        Preset::Sapo => Algorithm { loss: loss("sapo"), reduction: per_answer, ..grpo },
        Preset::Gmpo => Algorithm { loss: loss("gmpo"), reduction: per_answer, ..grpo },
        // These two compare with the sampler itself, so that nothing is left to correct.
        Preset::M2po => {
            Algorithm { loss: loss("m2po"), old: Old::Rollout, correction: Correction::None, ..grpo }
        }
        Preset::Dppo => {
            Algorithm { loss: loss("dppo"), old: Old::Rollout, correction: Correction::None, ..grpo }
        }
        Preset::ClipCov => Algorithm { loss: loss("clip-cov"), ..grpo },
        Preset::KlCov => Algorithm { loss: loss("kl-cov"), ..grpo },
        Preset::Cpgd => Algorithm { loss: loss("cpgd"), reduction: per_answer, ..grpo },
        Preset::Drpo => Algorithm { estimator: centred, loss: loss("drpo"), reduction: norm, ..grpo },
        Preset::Spo => Algorithm { estimator: centred, loss: loss("spo"), reduction: norm, ..grpo },
        Preset::Cppo => Algorithm { estimator: centred, loss: loss("cppo"), reduction: norm, ..grpo },
        Preset::Dro => Algorithm { loss: loss("dro"), ..grpo },
        Preset::Vespo => Algorithm { loss: loss("vespo"), ..grpo },
        Preset::PassAtK => {
            Algorithm { estimator: Estimator::PassAtK { scale: Scale::Group, eps: 1e-6 }, ..grpo }
        }
        Preset::Maxrl => Algorithm { estimator: Estimator::MaxRl, ..grpo },
        Preset::Ppo => Algorithm { estimator: estimator("gae"), whiten: Whiten::Sample, ..grpo },
        Preset::Otb => Algorithm {
            estimator: Estimator::Otb { alignment: Alignment::Position, zero_tail: true, eps: 1e-8 },
            ..grpo
        },
        Preset::Distillation => Algorithm {
            estimator: Estimator::Distillation { coefficient: 1.0, rewards: false },
            loss: Loss::Importance,
            ..grpo
        },
    }
}

fn named<T: serde::Serialize>(all: Vec<T>, name: &str) -> Option<T> {
    all.into_iter().find(|kind| kind_of(kind) == name)
}

/// The kind's name as recipes write it.
pub(crate) fn kind_of<T: serde::Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.get("kind").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_listed_and_means_what_it_is_named_after() {
        let names: Vec<String> = Preset::ALL.iter().map(|p| p.name()).collect();
        for (preset, estimator, loss) in [
            (Preset::ReinforcePlusPlus, "returns", "clip"),
            (Preset::Gdpo, "gdpo", "clip"),
            (Preset::Ppo, "gae", "clip"),
            (Preset::Cispo, "group-relative", "cispo"),
            (Preset::Sapo, "group-relative", "sapo"),
            (Preset::Gmpo, "group-relative", "gmpo"),
            (Preset::M2po, "group-relative", "m2po"),
            (Preset::Dppo, "group-relative", "dppo"),
            (Preset::ClipCov, "group-relative", "clip-cov"),
            (Preset::KlCov, "group-relative", "kl-cov"),
            (Preset::Cpgd, "group-relative", "cpgd"),
            (Preset::Drpo, "group-relative", "drpo"),
            (Preset::Spo, "group-relative", "spo"),
            (Preset::Cppo, "group-relative", "cppo"),
            (Preset::Dro, "group-relative", "dro"),
            (Preset::Vespo, "group-relative", "vespo"),
        ] {
            let algorithm = algorithm(preset);
            assert_eq!(
                (kind_of(&algorithm.estimator), kind_of(&algorithm.loss)),
                (estimator.into(), loss.into())
            );
        }
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 29);
        assert!(names.contains(&"reinforce++-baseline".to_owned()));
    }
}
