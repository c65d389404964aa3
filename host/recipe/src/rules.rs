//! What no single key can say: keys without effect, and keys that contradict each other.

use crate::document::Document;
use crate::error::{Problem, RecipeError};
use crate::section::{DataPath, Estimator, Loss, Placement, PromptFormat, Recipe, Task};
use crate::{asking, combination, shape, tasks};

/// A key that has no effect in this recipe, why, and what to do about it.
pub(crate) struct Inert {
    pub key: &'static str,
    pub reason: &'static str,
    pub remedy: &'static str,
}

/// Keys that nothing reads, given the others. They hold their defaults, and a resolved recipe leaves them out.
pub(crate) fn inert(recipe: &Recipe) -> Vec<Inert> {
    let mut inert = Vec::new();
    let mut add = |condition: bool, key, reason, remedy| {
        if condition {
            inert.push(Inert { key, reason, remedy });
        }
    };
    let algorithm = &recipe.algorithm;
    for key in
        ["algorithm.kl.estimator", "algorithm.kl.gradient", "algorithm.kl.placement", "algorithm.kl.adaptive"]
    {
        add(
            algorithm.kl.coefficient == 0.0,
            key,
            "`algorithm.kl.coefficient` is 0",
            "write `kl = { estimator = \"k3\", coefficient = 0.001 }`, or leave the key out",
        );
    }
    add(
        algorithm.kl.coefficient > 0.0 && algorithm.kl.placement == Placement::Reward,
        "algorithm.kl.gradient",
        "`algorithm.kl.placement` is \"reward\", where no gradient passes through the divergence",
        "leave it out, or write `placement = \"loss\"`",
    );
    add(
        algorithm.overlong.penalty == 0.0,
        "algorithm.overlong.buffer",
        "`algorithm.overlong.penalty` is 0",
        "write `overlong = { penalty = 1.0, buffer = 64 }`, or leave the buffer out",
    );
    for key in ["algorithm.ratio", "algorithm.ratio-clamp", "algorithm.old"] {
        add(
            algorithm.loss == Loss::Reinforce,
            key,
            "the loss \"reinforce\" has no ratio",
            "leave it out, or write `loss = \"importance\"`",
        );
    }
    add(
        matches!(algorithm.estimator, Estimator::Gae { length_adaptive: Some(_), .. }),
        "algorithm.estimator.lambda",
        "`algorithm.estimator.length-adaptive` decides it",
        "leave one of the two out",
    );
    add(
        recipe.advantage.is_some(),
        "algorithm.estimator",
        "the [advantage] plugin computes the advantages",
        "leave it out, or give the plugin its own option with [advantage] config",
    );
    let greedy = recipe.rollout.temperature == 0.0;
    for key in ["rollout.top-p", "rollout.top-k", "rollout.min-p"] {
        add(
            greedy,
            key,
            "`rollout.temperature` is 0, which always takes the likeliest token",
            "leave it out, or write `temperature = 1.0`",
        );
    }
    let raw = recipe.data.prompt_format == PromptFormat::Raw;
    for key in ["data.system", "data.examples", "data.template-kwargs"] {
        add(
            raw,
            key,
            "`data.prompt-format` is \"raw\", so no chat template is applied",
            "put the text into the prompts, or write `prompt-format = \"chat\"`",
        );
    }
    tasks::inert(recipe, &mut |more| inert.push(more));
    inert
}

/// Reports keys without effect and keys that contradict each other.
pub(crate) fn check(recipe: &Recipe, document: &Document) -> Vec<RecipeError> {
    let unused = inert(recipe).into_iter().filter_map(|i| {
        let (reason, remedy) = (i.reason.to_owned(), i.remedy.to_owned());
        Some(document.error(document.given_below(i.key)?, Problem::Unused { reason, remedy }))
    });
    let mut errors: Vec<RecipeError> = unused.collect();
    let mut report = |key: &str, reason: String, remedy: String| {
        errors.push(document.error(key, Problem::Contradiction { reason, remedy }));
    };
    if recipe.task == Task::Rl {
        sampling(recipe, &mut report);
        combination::check(recipe, &mut report);
        asking::check(recipe, document, &mut report);
    }
    tasks::check(recipe, &mut report);
    measuring(recipe, &mut report);
    if recipe.task == Task::Rl && recipe.reward.is_empty() && recipe.teacher.is_none() {
        errors.push(document.error("reward", Problem::MissingKey { example: shape::example("reward") }));
    }
    errors
}

/// What contradicts itself about responses and their rewards.
fn sampling(recipe: &Recipe, report: &mut impl FnMut(&str, String, String)) {
    let (data, rollout, algorithm, train) = (&recipe.data, &recipe.rollout, &recipe.algorithm, &recipe.train);
    let always_equal = match (rollout.temperature == 0.0, rollout.top_k == 1) {
        (true, _) => Some("rollout.temperature"),
        (false, true) => Some("rollout.top-k"),
        (false, false) => None,
    };
    if let Some(key) = always_equal.filter(|_| rollout.samples_per_prompt > 1) {
        report(
            key,
            "greedy sampling gives every prompt the same response each time: no advantage differs from 0"
                .into(),
            "write `temperature = 1.0` and no `top-k = 1`; greedy decoding belongs to [eval]".into(),
        );
    }
    if rollout.dynamic.is_some() && recipe.filter.is_empty() {
        report(
            "rollout.dynamic",
            "without a [[filter]] every group passes at the first attempt".into(),
            "add `[[filter]]` with `plugin = \"zero-variance\"`, or leave dynamic out".into(),
        );
    }
    let longest = data.max_prompt_tokens + rollout.max_tokens;
    if train.micro_batch_tokens < longest {
        report(
            "train.micro-batch-tokens",
            format!(
                "{} tokens cannot hold one sample: `data.max-prompt-tokens` + `rollout.max-tokens` is {longest}",
                train.micro_batch_tokens
            ),
            format!("write `micro-batch-tokens = {longest}` or more, or lower one of the two"),
        );
    }
    if algorithm.minibatches > rollout.prompts_per_step {
        report(
            "algorithm.minibatches",
            format!(
                "{} prompts per step cannot be split into {}: a group stays in one minibatch",
                rollout.prompts_per_step, algorithm.minibatches
            ),
            format!(
                "write at most `minibatches = {}`, or raise `rollout.prompts-per-step`",
                rollout.prompts_per_step
            ),
        );
    }
    if !recipe.reward.is_empty() && recipe.reward.iter().all(|reward| reward.weight == 0.0) {
        report(
            if recipe.reward.len() == 1 { "reward.weight" } else { "reward" },
            "with weight 0 nothing is rewarded".into(),
            "write a weight other than 0, or leave it out for 1".into(),
        );
    }
}

/// What contradicts itself about test data.
fn measuring(recipe: &Recipe, report: &mut impl FnMut(&str, String, String)) {
    let data = &recipe.data;
    if let Some(eval) = &recipe.eval {
        if data.test.is_empty() {
            report(
                "eval",
                "there is no test data to measure on".into(),
                "add `test = \"test.jsonl\"` to [data], or leave [eval] out".into(),
            );
        }
        if recipe.task == Task::Rl && eval.samples_per_prompt > 1 && eval.temperature == 0.0 {
            report(
                "eval.samples-per-prompt",
                format!(
                    "at temperature 0 the {} responses to a prompt are all the same",
                    eval.samples_per_prompt
                ),
                "write `samples-per-prompt = 1`, or `temperature = 1.0`".into(),
            );
        }
    }
    for (index, test) in data.test.iter().enumerate() {
        if data.train.iter().any(|train| overlap(train, test)) {
            let key =
                if data.test.len() == 1 { "data.test".to_owned() } else { format!("data.test[{index}]") };
            report(
                &key,
                format!("{} holds rows that are trained on", test.path.display()),
                "name another file, or slices that do not meet, as in `train = \"a.jsonl[200..]\"` and `test = \"a.jsonl[..200]\"`".into(),
            );
        }
    }
}

/// Whether two data paths share rows, as far as their ranges tell.
fn overlap(a: &DataPath, b: &DataPath) -> bool {
    let range =
        |path: &DataPath| path.slice.map_or((0, usize::MAX), |s| (s.start, s.end.unwrap_or(usize::MAX)));
    let ((a_start, a_end), (b_start, b_end)) = (range(a), range(b));
    a.path == b.path && a_start < b_end && b_start < a_end
}
