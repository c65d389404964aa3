//! Parts of an algorithm that cannot be combined, each with the reason and what to write instead.

use crate::section::{
    Against, Algorithm, Correction, Estimator, Loss, Old, Placement, Ratio, Recipe, Rejection, Scale,
    Singleton, WeightLevel,
};

/// Reports what contradicts itself in `[algorithm]`, as key, reason and remedy.
pub(crate) fn check(recipe: &Recipe, report: &mut impl FnMut(&str, String, String)) {
    let mut refuse =
        |key: &str, reason: &str, remedy: &str| report(key, reason.to_owned(), remedy.to_owned());
    // With a plugin for advantages, or without any, the estimator is not read.
    if recipe.advantage.is_none() && !recipe.teacher_alone() {
        estimator(recipe, &mut refuse);
    }
    loss(&recipe.algorithm, &mut refuse);
    correction(&recipe.algorithm, &mut refuse);
    shaping(recipe, &mut refuse);
}

type Refuse<'a> = &'a mut dyn FnMut(&str, &str, &str);

fn estimator(recipe: &Recipe, refuse: Refuse<'_>) {
    let (algorithm, rollout) = (&recipe.algorithm, &recipe.rollout);
    let keeps_reward = matches!(
        algorithm.estimator,
        Estimator::GroupRelative { singleton: Singleton::Reward, .. }
            | Estimator::Opo { singleton: Singleton::Reward }
            | Estimator::Gpg { singleton: Singleton::Reward, .. }
    );
    if rollout.samples_per_prompt == 1 && algorithm.estimator.compares() && !keeps_reward {
        refuse(
            "rollout.samples-per-prompt",
            "1 response per prompt has nothing to be compared with: every advantage is 0",
            "write at least 2 (8 is usual), or an estimator that needs no group, as in `estimator = \"remax\"`",
        );
    }
    match algorithm.estimator {
        Estimator::Gae { .. } if recipe.critic.is_none() => refuse(
            "algorithm.estimator",
            "generalised advantage estimation needs the values of a critic, and there is no [critic]",
            "add a section [critic], or take an estimator without one, as in `preset = \"grpo\"`",
        ),
        Estimator::Distillation { .. } if recipe.teacher.is_none() => refuse(
            "algorithm.estimator",
            "distillation needs the log-probabilities of a teacher, and there is no [teacher]",
            "add a section [teacher] with `source = \"hf://organisation/name\"`, or take another estimator",
        ),
        Estimator::Remax if rollout.temperature == 0.0 || rollout.top_k == 1 => refuse(
            "algorithm.estimator",
            "ReMax compares with the greedy answer, and greedy sampling gives no other: every advantage is 0",
            "write `temperature = 1.0` in [rollout], and no `top-k = 1`",
        ),
        Estimator::Gdpo { .. } => {
            let named = recipe.reward.iter().map(|r| r.weights.len().max(1)).sum::<usize>();
            if named < 2 {
                refuse(
                    "algorithm.estimator",
                    "GDPO normalises every reward component by itself, and the recipe names no two of them",
                    "name them, as in `weights = { correct = 1.0, format = 0.2 }` in [reward], or write several [[reward]]",
                );
            }
        }
        Estimator::PassAtK { scale: Scale::Batch | Scale::Others, .. } => refuse(
            "algorithm.estimator.scale",
            "the gap between the best two of a group is divided by the group's deviation, or by nothing",
            "write `scale = \"group\"` or `scale = \"none\"`",
        ),
        _ => {}
    }
    if algorithm.kl.coefficient > 0.0
        && algorithm.kl.placement == Placement::Reward
        && !algorithm.estimator.reads_reward_kl()
    {
        refuse(
            "algorithm.kl.placement",
            "this estimator does not read the sum of the rewards, so a penalty in it would be ignored",
            "write `placement = \"loss\"`, or take another estimator, as in `estimator = \"returns\"`",
        );
    }
}

fn loss(algorithm: &Algorithm, refuse: Refuse<'_>) {
    let loss = &algorithm.loss;
    if algorithm.ratio != Ratio::Token && loss.by_token() && *loss != Loss::Reinforce {
        refuse(
            "algorithm.ratio",
            "this loss is defined by the probability of each token, so a ratio over the sequence would not be read",
            "write `ratio = \"token\"`, or a loss of the ratio, as in `loss = \"clip\"`",
        );
    }
    match *loss {
        Loss::Cispo { low, high, .. } if low > high => refuse(
            "algorithm.loss.low",
            "the least weight is above the greatest",
            "write bounds that ascend, as in `loss = { kind = \"cispo\", low = 0.0, high = 5.0 }`",
        ),
        Loss::ClipCov { covariance: [low, high], .. } if low >= high => refuse(
            "algorithm.loss.covariance",
            "no covariance lies between the bounds",
            "write bounds that ascend, as in `covariance = [1.0, 5.0]`",
        ),
        Loss::M2po { .. } if algorithm.old == Old::Current => refuse(
            "algorithm.old",
            "M2PO bounds the distance from the old policy, and \"current\" has none: nothing is ever clipped",
            "write `old = \"rollout\"`",
        ),
        _ => {}
    }
}

fn correction(algorithm: &Algorithm, refuse: Refuse<'_>) {
    let correction = algorithm.correction;
    if algorithm.old == Old::Rollout && correction != Correction::None && algorithm.loss.has_ratio() {
        refuse(
            "algorithm.correction",
            "with `old = \"rollout\"` the ratio already corrects for the rollout, and would do so twice",
            "write `correction = \"none\"`, or `old = \"trainer\"` (decoupled PPO)",
        );
    }
    let bounds = match correction {
        Correction::Clamp { low, high, .. }
        | Correction::Icepop { low, high }
        | Correction::Mis { low, high, .. }
        | Correction::SeqMaskTis { low, high } => Some((low, high)),
        Correction::None | Correction::Tis { .. } => None,
    };
    if bounds.is_some_and(|(low, high)| low > high) {
        refuse(
            "algorithm.correction.low",
            "the least weight is above the largest",
            "write bounds that ascend, as in `correction = { kind = \"icepop\", low = 0.5, high = 5.0 }`",
        );
    }
    if let Correction::Tis { level: WeightLevel::Geometric, normalise: true, .. }
    | Correction::Clamp { level: WeightLevel::Geometric, normalise: true, .. }
    | Correction::Mis { level: WeightLevel::Geometric, normalise: true, .. } = correction
    {
        refuse(
            "algorithm.correction.normalise",
            "a geometric mean is no importance weight, so its mean over the batch says nothing",
            "write `level = \"sequence\"`, or `normalise = false`",
        );
    }
    let updates = algorithm.epochs * algorithm.minibatches;
    for (index, rule) in algorithm.rejection.iter().enumerate() {
        match *rule {
            Rejection::Mismatch { low: Some(low), high, .. } if low > high => refuse(
                &format!("algorithm.rejection[{index}].low"),
                "the least measure is above the largest",
                "write bounds that ascend",
            ),
            Rejection::Opsm { against: Against::Old, .. }
                if updates == 1 && algorithm.old != Old::Rollout =>
            {
                refuse(
                    &format!("algorithm.rejection[{index}].against"),
                    "with one update per step the old policy is the current one, so nothing has become less likely",
                    "write `against = \"rollout\"`, or more `minibatches`",
                )
            }
            _ => {}
        }
    }
}

fn shaping(recipe: &Recipe, refuse: Refuse<'_>) {
    let algorithm = &recipe.algorithm;
    if algorithm.overlong.penalty > 0.0
        && algorithm.overlong.buffer.is_some_and(|buffer| buffer > recipe.rollout.max_tokens)
    {
        refuse(
            "algorithm.overlong.buffer",
            "the buffer is longer than the longest answer, `rollout.max-tokens`",
            "write a part of it; a fifth is usual",
        );
    }
    if recipe.advantage.is_some()
        && algorithm.kl.coefficient > 0.0
        && algorithm.kl.placement == Placement::Reward
    {
        refuse(
            "algorithm.kl.placement",
            "the [advantage] plugin computes the advantages, and a penalty in the reward would not reach it",
            "write `placement = \"loss\"`; the plugin gets the log-probabilities of both models",
        );
    }
}
