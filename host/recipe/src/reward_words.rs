//! What a recipe's rewards, filters and dynamic sampling do, as `whet recipe explain` says it.

use crate::formula::number;
use crate::section::{Combine, Comparison, Gate, PluginUse, Recipe, Reward};

/// Lines of name and text: the total reward as a formula, then what decides which groups are trained on.
pub fn explain(recipe: &Recipe) -> Vec<(&'static str, String)> {
    let sum = match recipe.reward.is_empty() {
        true => "none: what is learnt comes from the teacher alone".to_owned(),
        false if recipe.learns_from_rewards() => format!("r = {}", total(&recipe.reward)),
        false => format!("r = {}, measured and not learnt from", total(&recipe.reward)),
    };
    let mut lines = vec![("reward", sum)];
    let names = Reward::names(&recipe.reward);
    for (reward, name) in recipe.reward.iter().zip(&names).filter(|(reward, _)| !reward.weights.is_empty()) {
        let weights: Vec<String> = reward
            .weights
            .iter()
            .map(|(component, weight)| format!("{component} {}", number(*weight)))
            .collect();
        lines.push(("", format!("{name} weighs its components: {}", weights.join(", "))));
    }
    if recipe.reward.iter().any(|reward| !reward.gate.is_empty()) {
        lines.push(("", "[condition] is 1 where it holds, else 0".to_owned()));
    }
    if !recipe.filter.is_empty() {
        let names: Vec<String> = recipe.filter.iter().map(PluginUse::own_name).collect();
        let text = format!("{}: drops rows before sampling or groups before training", names.join(", then "));
        let rest = if recipe.rollout.dynamic.is_none() { "; a step trains on what is left" } else { "" };
        lines.push(("filter", text + rest));
    }
    if let Some(dynamic) = &recipe.rollout.dynamic {
        let prompts = recipe.rollout.prompts_per_step;
        let text = format!(
            "until {prompts} groups pass the filters: {} × {prompts} prompts at first, then as many as are missing, in at \
             most {} attempts (DAPO arXiv 2503.14476)",
            number(dynamic.oversample),
            dynamic.max_attempts
        );
        lines.push(("dynamic", text));
    }
    lines
}

/// `(a + 0.2·b·[a/ok ≥ 1]) · c`: what is added, times what multiplies; the sum is 1 where nothing is added.
fn total(rewards: &[Reward]) -> String {
    let names = Reward::names(rewards);
    let of = |combine| rewards.iter().zip(&names).filter(move |(reward, _)| reward.combine == combine);
    let mut sum = String::new();
    for (index, (reward, name)) in of(Combine::Sum).enumerate() {
        match (index, reward.weight < 0.0) {
            (0, false) => {}
            (0, true) => sum.push('-'),
            (_, false) => sum.push_str(" + "),
            (_, true) => sum.push_str(" - "),
        }
        sum.push_str(&term(reward, name, reward.weight.abs()));
    }
    let mut factors: Vec<String> =
        of(Combine::Product).map(|(reward, name)| term(reward, name, reward.weight)).collect();
    if !sum.is_empty() {
        let several = !factors.is_empty() && of(Combine::Sum).count() > 1;
        factors.insert(0, if several { format!("({sum})") } else { sum });
    }
    factors.join(" · ")
}

/// One reward with its weight and its conditions.
fn term(reward: &Reward, name: &str, weight: f64) -> String {
    let mut factors = vec![name.to_owned()];
    if weight != 1.0 {
        factors.insert(0, number(weight));
    }
    factors.extend(reward.gate.iter().map(condition));
    factors.join("·")
}

fn condition(gate: &Gate) -> String {
    let sign = match gate.comparison {
        Comparison::AtLeast => "≥",
        Comparison::AtMost => "≤",
        Comparison::Equal => "=",
        Comparison::Unequal => "≠",
        Comparison::Above => ">",
        Comparison::Below => "<",
    };
    format!("[{} {sign} {}]", gate.component, number(gate.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(rewards: &str) -> String {
        #[derive(serde::Deserialize)]
        struct Rewards {
            reward: Vec<Reward>,
        }
        let rewards: Rewards = toml::from_str(rewards).unwrap_or_else(|e| panic!("{rewards}: {e}"));
        total(&rewards.reward)
    }

    #[test]
    fn the_total_shows_weights_gates_and_factors() {
        let math = "[[reward]]\nplugin = \"math\"\n";
        let length = "[[reward]]\nplugin = \"length\"\nweight = 0.2\ngate = \"math/reward >= 1\"\n";
        let format = "[[reward]]\nplugin = \"/a/format.wasm\"\ncombine = \"product\"\n";
        let minus = "[[reward]]\nplugin = \"repetition\"\nweight = -1.0\n";
        for (rewards, expected) in [
            (vec![math], "math"),
            (vec![math, length, format], "(math + 0.2·length·[math/reward ≥ 1]) · format"),
            (vec![format, math], "math · format"),
            (vec![format, format], "format · format.2"),
            (vec![length, "name = \"short\"\n"], "0.2·short·[math/reward ≥ 1]"),
            (vec![math, minus], "math - repetition"),
            (vec![minus, format], "-repetition · format"),
        ] {
            assert_eq!(formula(&rewards.concat()), expected);
        }
        let several = "[[reward]]\nplugin = \"a\"\ngate = [\"a/x != 0\", \"y < 2.5\"]\n";
        assert_eq!(formula(several), "a·[a/x ≠ 0]·[y < 2.5]");
    }

    #[test]
    fn filters_and_dynamic_sampling_are_said() {
        let text = "model = \"hf://a/b\"\n[data]\ntrain = []\n[[reward]]\nplugin = \"math\"\nweights = { correct = 1.0, \
                    format = 0.2 }\n[[filter]]\nplugin = \"no-signal\"\n[run]\ndir = \"r\"\n[rollout]\nprompts-per-step = 4\n";
        let explained = |text: &str| {
            let recipe: Recipe = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            explain(&recipe)
        };
        let lines = explained(text);
        assert_eq!(lines[1].1, "math weighs its components: correct 1, format 0.2");
        assert_eq!(lines[2].0, "filter");
        assert!(
            lines[2].1.starts_with("no-signal: drops") && lines[2].1.ends_with("on what is left"),
            "{lines:?}"
        );
        let lines = explained(&format!("{text}dynamic = {{ max-attempts = 3 }}\n"));
        assert!(!lines[2].1.contains("what is left"), "{lines:?}");
        assert_eq!(lines[3].0, "dynamic");
        for said in ["until 4 groups", "1.5 × 4 prompts", "most 3 attempts"] {
            assert!(lines[3].1.contains(said), "{lines:?}");
        }
    }
}
