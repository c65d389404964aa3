//! Keys that belong to another task, and what a critic and a teacher ask of the rest of a recipe.

use crate::rules::Inert;
use crate::section::{DpoLoss, Estimator, Recipe, Task, TeacherDivergence, TopTokens};

/// Keys that nothing reads under the recipe's task.
pub(crate) fn inert(recipe: &Recipe, add: &mut impl FnMut(Inert)) {
    let mut none = |condition: bool, keys: &[&'static str], reason: &'static str, remedy: &'static str| {
        if condition {
            keys.iter().for_each(|key| add(Inert { key, reason, remedy }));
        }
    };
    let task = recipe.task;
    none(
        task != Task::Rl,
        &[
            "reward",
            "on-failure",
            "filter",
            "advantage",
            "rollout",
            "algorithm",
            "critic",
            "teacher",
            "data.max-prompt-tokens",
            "data.columns.metadata",
            "eval.samples-per-prompt",
            "eval.temperature",
            "eval.max-tokens",
            "log.trajectories",
            "log.show-samples",
        ],
        "the recipe's `task` samples no responses, so none is scored",
        "leave it out, or write `task = \"rl\"`",
    );
    none(
        task == Task::Rl,
        &["train.batch-size", "data.max-tokens"],
        "with `task = \"rl\"` a step trains on the responses that it samples",
        "write `prompts-per-step` and `max-tokens` in [rollout], `max-prompt-tokens` in [data], or another `task`",
    );
    none(
        !task.compares(),
        &["data.columns.chosen", "data.columns.rejected"],
        "only the tasks \"dpo\" and \"reward-model\" compare two answers",
        "leave it out, or write `task = \"dpo\"`",
    );
    none(
        task.compares(),
        &["data.columns.label"],
        "a task that compares two answers reads the columns `chosen` and `rejected`",
        "name them with `columns = { chosen = \"…\", rejected = \"…\" }`",
    );
    none(
        task != Task::Sft,
        &["sft"],
        "the recipe's `task` is not \"sft\"",
        "leave it out, or write `task = \"sft\"`",
    );
    none(
        task != Task::Dpo,
        &["dpo"],
        "the recipe's `task` is not \"dpo\"",
        "leave it out, or write `task = \"dpo\"`",
    );
    none(
        recipe.dpo.as_ref().is_some_and(|dpo| dpo.loss != DpoLoss::Sigmoid),
        &["dpo.label-smoothing"],
        "`dpo.loss` is not \"sigmoid\"",
        "leave it out, or write `loss = \"sigmoid\"`",
    );
    let Some(teacher) = &recipe.teacher else { return };
    none(
        teacher.base_url.is_none(),
        &[
            "teacher.model",
            "teacher.api-key-env",
            "teacher.timeout",
            "teacher.retries",
            "teacher.concurrency",
        ],
        "the teacher is loaded here, no server is asked",
        "leave it out, or name a server with `base-url = \"http://localhost:8000/v1\"`",
    );
    none(
        teacher.source.is_none(),
        &["teacher.dtype"],
        "the teacher is not loaded here",
        "leave it out, or name a model with `source`",
    );
    if let Some(loss) = &teacher.loss {
        none(
            loss.divergence != TeacherDivergence::Jensen,
            &["teacher.loss.beta"],
            "`teacher.loss.divergence` is not \"jensen\"",
            "leave it out, or write `divergence = \"jensen\"`",
        );
        none(
            loss.top_k == 0,
            &["teacher.loss.tokens", "teacher.loss.rest"],
            "`teacher.loss.top-k` is 0, which compares over the whole vocabulary",
            "write `top-k = 64`, or leave it out",
        );
    }
    none(
        recipe.teacher_alone(),
        &[
            "algorithm.estimator",
            "algorithm.overlong",
            "algorithm.reward-clip",
            "algorithm.whiten",
            "algorithm.advantage-clip",
            "algorithm.loss",
            "algorithm.ratio",
            "algorithm.ratio-clamp",
            "algorithm.old",
            "algorithm.correction",
            "algorithm.rejection",
        ],
        "the teacher's loss stands alone, without a policy-gradient term",
        "leave it out, or give the recipe a [reward] and leave `teacher.loss.alone` out",
    );
}

/// Reports what contradicts itself, as key, reason and remedy.
pub(crate) fn check(recipe: &Recipe, report: &mut impl FnMut(&str, String, String)) {
    let mut refuse =
        |key: &str, reason: &str, remedy: &str| report(key, reason.to_owned(), remedy.to_owned());
    if recipe.task != Task::Rl {
        if recipe.train.micro_batch_tokens < recipe.data.max_tokens {
            let reason = format!(
                "{} tokens cannot hold one row: `data.max-tokens` is {}",
                recipe.train.micro_batch_tokens, recipe.data.max_tokens
            );
            refuse("train.micro-batch-tokens", &reason, "raise it, or lower `data.max-tokens`");
        }
        return;
    }
    let estimator = &recipe.algorithm.estimator;
    let gae = matches!(estimator, Estimator::Gae { .. });
    if recipe.critic.is_some() && !gae && recipe.advantage.is_none() {
        refuse(
            "critic",
            "nothing reads the critic's values",
            "write `preset = \"ppo\"` (or `estimator = \"gae\"`) in [algorithm], or leave [critic] out",
        );
    }
    if recipe.critic.is_some() && recipe.teacher_alone() {
        refuse(
            "critic",
            "the teacher's loss stands alone, so that no advantage is computed",
            "leave [critic] out, or `teacher.loss.alone`",
        );
    }
    let Some(teacher) = &recipe.teacher else { return };
    if recipe.reward.is_empty() {
        if matches!(estimator, Estimator::Distillation { rewards: true, .. }) {
            refuse(
                "algorithm.estimator.rewards",
                "there is no [reward] to add",
                "write `rewards = false`, or add a section [reward]",
            );
        }
        if recipe.advantage.is_some() {
            refuse(
                "advantage",
                "there is no [reward] that the plugin could turn into advantages",
                "add a section [reward], or leave [advantage] out",
            );
        }
    }
    match (&teacher.source, &teacher.base_url) {
        (None, None) => refuse(
            "teacher",
            "there is no model to learn from",
            "name a model with `source = \"hf://organisation/name\"`, or a server with `base-url` and `model`",
        ),
        (Some(_), Some(_)) => refuse(
            "teacher.base-url",
            "a teacher is either loaded here (`source`) or asked at a server (`base-url`)",
            "leave one of the two out",
        ),
        (None, Some(_)) if teacher.model.is_none() => refuse(
            "teacher.base-url",
            "a server may have several models",
            "name the teacher with `model = \"…\"`, as the server lists it under /v1/models",
        ),
        _ => {}
    }
    if let Some(url) = &teacher.base_url
        && !url.starts_with("http://")
        && !url.starts_with("https://")
    {
        refuse(
            "teacher.base-url",
            "it is no address of a server",
            "write it as `base-url = \"http://localhost:8000/v1\"`",
        );
    }
    if teacher.base_url.is_some() && recipe.rollout.temperature != 1.0 && recipe.rollout.temperature != 0.0 {
        refuse(
            "teacher.base-url",
            "a server tells log-probabilities at temperature 1, which are not those of `rollout.temperature`",
            "write `temperature = 1.0` in [rollout], or load the teacher here with `source`",
        );
    }
    let distils = matches!(estimator, Estimator::Distillation { .. });
    let Some(loss) = &teacher.loss else {
        if !distils {
            refuse(
                "teacher",
                "nothing reads what the teacher says",
                "write `estimator = \"distillation\"` in [algorithm], or `loss = { divergence = \"reverse\" }` in [teacher]",
            );
        }
        return;
    };
    if loss.alone && distils {
        refuse(
            "teacher.loss.alone",
            "`estimator = \"distillation\"` asks for the policy gradient that it leaves out",
            "leave one of the two out",
        );
    }
    if teacher.base_url.is_some() && loss.top_k == 0 {
        refuse(
            "teacher.loss.top-k",
            "a server tells the likeliest tokens only, not the whole distribution",
            "write `top-k = 20`, or as many as the server allows (vLLM: --max-logprobs)",
        );
    }
    if teacher.base_url.is_some() && loss.top_k > 0 && loss.tokens == TopTokens::Student {
        refuse(
            "teacher.loss.tokens",
            "a server tells its own likeliest tokens only",
            "write `tokens = \"teacher\"`, or load the teacher here with `source`",
        );
    }
}

impl Recipe {
    /// Whether the divergence from a teacher is the whole loss.
    pub fn teacher_alone(&self) -> bool {
        let distils = matches!(self.algorithm.estimator, Estimator::Distillation { .. });
        let loss = self.teacher.as_ref().and_then(|teacher| teacher.loss.as_ref());
        loss.is_some_and(|loss| loss.alone || (self.reward.is_empty() && !distils))
    }

    /// Whether the model learns from rewards.
    pub fn learns_from_rewards(&self) -> bool {
        let teacher_only = matches!(self.algorithm.estimator, Estimator::Distillation { rewards: false, .. });
        !self.teacher_alone() && !teacher_only
    }
}

#[cfg(test)]
mod tests {
    use crate::Recipe;

    /// The problems of a recipe for a model folder and files that exist.
    fn problems(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("m")).unwrap();
        for name in ["a.jsonl", "b.jsonl"] {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let path = dir.path().join("r.toml");
        std::fs::write(&path, text).unwrap();
        match Recipe::load(&path) {
            Ok(recipe) => {
                let again = dir.path().join("again.toml");
                std::fs::write(&again, recipe.resolved_toml()).unwrap();
                let mut read =
                    Recipe::load(&again).unwrap_or_else(|e| panic!("{e}\n{}", recipe.resolved_toml()));
                read.run = recipe.run.clone();
                assert_eq!(read, recipe, "a resolved recipe loads back equal");
                String::new()
            }
            Err(errors) => errors.to_string(),
        }
    }

    const SFT: &str = "task = \"sft\"\nmodel = \"m\"\n[data]\ntrain = \"a.jsonl\"\ntest = \"b.jsonl\"\n";

    #[test]
    fn every_task_loads_with_the_least_that_it_needs_and_back_from_what_is_recorded() {
        for task in ["sft", "dpo", "reward-model"] {
            assert_eq!(problems(&SFT.replace("sft", task)), "", "{task}");
        }
        let rl = SFT.replace("\"sft\"", "\"rl\"");
        assert_eq!(problems(&format!("{rl}[reward]\nplugin = \"length\"\n")), "");
        assert!(problems(&rl).contains("recipe key `reward` is missing"));
        let ppo = "[reward]\nplugin = \"length\"\n[algorithm]\npreset = \"ppo\"\n[critic]\n";
        assert_eq!(problems(&format!("{rl}{ppo}")), "");
        let distilled = "[teacher]\nsource = \"m\"\nloss = { divergence = \"jensen\", beta = 0.3 }\n";
        assert_eq!(problems(&format!("{rl}{distilled}")), "");
        let server = "[algorithm]\npreset = \"distillation\"\n[teacher]\nbase-url = \"http://localhost/v1\"\nmodel = \"t\"\n";
        assert_eq!(problems(&format!("{rl}{server}")), "");
    }

    #[test]
    fn a_key_of_another_task_is_refused_with_what_to_write() {
        for (section, key) in [
            ("[rollout]\nmax-tokens = 5\n", "rollout"),
            ("[algorithm]\npreset = \"dapo\"\n", "algorithm"),
            ("[reward]\nplugin = \"length\"\n", "reward"),
            ("[critic]\n", "critic"),
            ("[dpo]\nbeta = 0.2\n", "dpo"),
            ("[eval]\ntemperature = 1.0\n", "eval.temperature"),
        ] {
            let found = problems(&format!("{SFT}{section}"));
            let expected = format!("`{key}` has no effect");
            assert!(found.contains(&expected) && found.contains("help: leave it out"), "{found}");
        }
        let rl = SFT.replace("\"sft\"", "\"rl\"").replace("[data]", "[data]\nmax-tokens = 9");
        let found = problems(&format!("{rl}[reward]\nplugin = \"length\"\n[train]\nbatch-size = 3\n"));
        assert!(found.contains("`train.batch-size` has no effect"), "{found}");
        assert!(found.contains("`data.max-tokens` has no effect"), "{found}");
        let found = problems(&SFT.replace("[data]", "[data]\ncolumns = { chosen = \"good\" }"));
        assert!(found.contains("`data.columns.chosen` has no effect"), "{found}");
    }

    #[test]
    fn critics_and_teachers_that_nobody_listens_to_are_refused() {
        let rl = SFT.replace("\"sft\"", "\"rl\"") + "[reward]\nplugin = \"length\"\n";
        for (sections, said) in [
            ("[critic]\n", "nothing reads the critic's values"),
            ("[algorithm]\npreset = \"ppo\"\n", "needs the values of a critic"),
            ("[teacher]\nsource = \"m\"\n", "nothing reads what the teacher says"),
            ("[teacher]\nloss = {}\n", "there is no model to learn from"),
            ("[teacher]\nsource = \"m\"\nbase-url = \"http://a/v1\"\nloss = {}\n", "either loaded here"),
            (
                "[teacher]\nbase-url = \"http://a/v1\"\nmodel = \"t\"\nloss = {}\n",
                "the likeliest tokens only",
            ),
            ("[teacher]\nbase-url = \"http://a/v1\"\nloss = { top-k = 5 }\n", "name the teacher with"),
            ("[teacher]\nsource = \"m\"\nloss = { beta = 0.3 }\n", "`teacher.loss.beta` has no effect"),
            (
                "[teacher]\nsource = \"m\"\napi-key-env = \"K\"\nloss = {}\n",
                "`teacher.api-key-env` has no effect",
            ),
            ("[teacher]\nsource = \"m\"\nloss = { divergence = \"jensen\", beta = 1.0 }\n", "out of range"),
            ("[algorithm]\npreset = \"distillation\"\n", "needs the log-probabilities of a teacher"),
        ] {
            let found = problems(&format!("{rl}{sections}"));
            assert!(found.contains(said), "{sections}: {found}");
        }
    }
}
