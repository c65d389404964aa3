//! Algorithms in words and formulas: of one recipe (`whet recipe explain`), and all of them (`docs/algorithms.md`).

use crate::definition::{DEFINITIONS, Definition, SYMBOLS, definition};
use crate::formula::{self, number, times};
use crate::preset;
use crate::section::{Algorithm, Correction, Old, Placement, Preset, Ratio, Recipe, Whiten};
use serde_json::{Map, Value};
use std::fmt::Write;

/// What a recipe's algorithm computes, line by line as name and text, with its numbers filled in.
pub fn explain(recipe: &Recipe) -> Vec<(&'static str, String)> {
    let algorithm = &recipe.algorithm;
    let mut lines = vec![("preset", format!("{}: {}", algorithm.preset.name(), meaning(algorithm.preset)))];
    let mut add = |name, text: String| lines.push((name, text));
    if let Some(text) = shaping(recipe) {
        add("shaping", text);
    }
    match &recipe.advantage {
        Some(plugin) => add("advantage", format!("A = {}(rewards of the step)", plugin.own_name())),
        None => {
            add("advantage", kind_and(&algorithm.estimator, "", formula::estimator(&algorithm.estimator)))
        }
    }
    if let Some(text) = normalising(algorithm) {
        add("", text);
    }
    add("loss", kind_and(&algorithm.loss, "L = ", formula::loss(&algorithm.loss)));
    if algorithm.loss.has_ratio() {
        let clamp = match algorithm.ratio_clamp {
            0.0 => String::new(),
            bound => format!(", log r in ±{}", number(bound)),
        };
        let old = match algorithm.old {
            Old::Trainer => "p_old the trainer's before the step's first update",
            Old::Rollout => "p_old the rollout's",
            Old::Current => "p_old the policy itself, so that r = 1",
        };
        let ratio = definition("ratio", &name_of(&algorithm.ratio)).map_or("", |d| d.formula);
        add("ratio", format!("{ratio}{clamp}; {old}"));
    }
    if algorithm.correction != Correction::None {
        let text = formula::correction(algorithm.correction);
        add("correction", kind_and(&algorithm.correction, "L times ", text));
    }
    for rule in &algorithm.rejection {
        add("rejection", kind_and(rule, "L = ", formula::rejection(rule)));
    }
    if algorithm.entropy.top_share < 1.0 {
        add(
            "tokens",
            format!(
                "L = 0 but at the share of {} with the highest entropy",
                number(algorithm.entropy.top_share)
            ),
        );
    }
    if algorithm.entropy.bonus > 0.0 {
        add("entropy", format!("- {}entropy of each token's distribution", times(algorithm.entropy.bonus)));
    }
    if let Some(text) = penalty(algorithm) {
        add("kl", text);
    }
    let reduced = formula::reduction(algorithm.reduction, recipe.rollout.max_tokens);
    add("reduction", kind_and(&algorithm.reduction, "", reduced));
    let sources: Vec<&str> = [
        definition("estimator", &preset::kind_of(&algorithm.estimator))
            .filter(|_| recipe.advantage.is_none()),
        definition("loss", &preset::kind_of(&algorithm.loss)),
        definition("ratio", &name_of(&algorithm.ratio)).filter(|_| algorithm.ratio != Ratio::Token),
    ]
    .into_iter()
    .flatten()
    .map(|d| d.source)
    .filter(|source| !source.is_empty())
    .collect();
    add("sources", sources.join("; "));
    lines
}

/// What is said of a preset at its type.
fn meaning(preset: Preset) -> String {
    let schema = crate::schema();
    let all = schema["$defs"]["Preset"]["oneOf"].as_array().cloned().unwrap_or_default();
    let of = all.iter().find(|m| m["const"] == preset.name().as_str());
    of.and_then(|m| m["description"].as_str()).unwrap_or_default().to_owned()
}

fn shaping(recipe: &Recipe) -> Option<String> {
    let algorithm = &recipe.algorithm;
    let mut parts = Vec::new();
    if algorithm.reward_clip > 0.0 {
        parts.push(format!("r clipped to ±{}", number(algorithm.reward_clip)));
    }
    let overlong = algorithm.overlong;
    if overlong.penalty > 0.0 {
        let longest = recipe.rollout.max_tokens;
        let buffer = overlong.buffer.unwrap_or(longest / 5).max(1);
        let free = longest - buffer;
        parts.push(format!(
            "r - {}(length - {free}) / {buffer} beyond {free} tokens, at most {} off (DAPO arXiv 2503.14476)",
            times(overlong.penalty),
            number(overlong.penalty)
        ));
    }
    if overlong.filter {
        parts.push("answers that were cut off are not trained on".into());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn normalising(algorithm: &Algorithm) -> Option<String> {
    let mut parts = Vec::new();
    let whitened = |how| format!("A whitened over the step's tokens: (A - mean) / std, variance over {how}");
    match algorithm.whiten {
        Whiten::None => {}
        Whiten::Sample => parts.push(whitened("n - 1")),
        Whiten::Population => parts.push(whitened("n")),
    }
    if algorithm.advantage_clip > 0.0 {
        parts.push(format!("A clipped to ±{}", number(algorithm.advantage_clip)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn penalty(algorithm: &Algorithm) -> Option<String> {
    let kl = &algorithm.kl;
    if kl.coefficient == 0.0 {
        return None;
    }
    let name = name_of(&kl.estimator);
    let formula = definition("kl.estimator", &name).map_or("", |d| d.formula);
    let gradient = definition("kl.gradient", &name_of(&kl.gradient)).map_or("", |d| d.formula);
    let factor = times(kl.coefficient);
    let mut text = match kl.placement {
        Placement::Loss => format!("+ {factor}{name} at every token"),
        Placement::Reward => format!("{factor}{name} off the reward of every token"),
    };
    let _ = write!(text, "; {name} = {formula}; d = log p_ref - log p");
    if kl.placement == Placement::Loss {
        let _ = write!(text, "; its gradient is {gradient}");
    }
    if let Some(adaptive) = kl.adaptive {
        let _ = write!(
            text,
            "; after every step the coefficient is multiplied by 1 + clip(kl / {} - 1, ±0.2) · answers / {}",
            number(adaptive.target),
            number(adaptive.horizon)
        );
    }
    Some(text)
}

fn value<T: serde::Serialize>(part: &T) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// A choice as recipes write it.
fn name_of<T: serde::Serialize>(choice: &T) -> String {
    value(choice).as_str().unwrap_or_default().to_owned()
}

/// The kind's name and its formula, `clip: L = …`.
fn kind_and<T: serde::Serialize>(kind: &T, symbol: &str, formula: String) -> String {
    format!("{}: {symbol}{formula}", preset::kind_of(kind))
}

/// The schema of one kind of a part.
pub(crate) fn kind_schema<'s>(schema: &'s Value, part: &str, name: &str) -> Option<&'s Value> {
    let branches = schema["$defs"][definition_of(part)]["anyOf"].as_array()?;
    branches.iter().find(|b| b.pointer("/properties/kind/const").and_then(Value::as_str) == Some(name))
}

/// The schema's name of a part.
fn definition_of(part: &str) -> &'static str {
    match part {
        "estimator" => "Estimator",
        "loss" => "Loss",
        "reduction" => "Reduction",
        "correction" => "Correction",
        "rejection" => "Rejection",
        "ratio" => "Ratio",
        "kl.estimator" => "KlEstimator",
        _ => "KlGradient",
    }
}

/// Parts in the order of the page, with what is said of each.
const PARTS: [(&str, &str, &str); 8] = [
    (
        "estimator",
        "Estimators",
        "How rewards become advantages: `estimator = \"remax\"`, or a table with its options.",
    ),
    ("loss", "Losses", "The policy-gradient term `L` of a token."),
    ("ratio", "Ratios", "Over what the ratio is formed; losses that name single tokens take `token` alone."),
    (
        "reduction",
        "Reductions",
        "From tokens to the loss of a batch. Every split into micro-batches has the same loss and gradient.",
    ),
    (
        "kl.estimator",
        "KL estimators",
        "The penalty for leaving the reference, `kl = { estimator = \"k3\", coefficient = 0.001 }`, added to the \
     loss or, with `placement = \"reward\"`, taken off the rewards.",
    ),
    ("kl.gradient", "KL gradients", "How the penalty in the loss is differentiated."),
    (
        "correction",
        "Corrections",
        "A weight on the policy-gradient term for what the sampler thought of a token, after the clip.",
    ),
    (
        "rejection",
        "Rejections",
        "Rules by which tokens lose their policy-gradient term, `rejection = [\"veto\"]`. Means keep counting them, so \
     that a rule makes gradients smaller, never larger (AReaL, TRL; verl counts what is left).",
    ),
];

/// The page of all algorithms, in Markdown.
pub fn markdown() -> String {
    let schema = crate::schema();
    let mut page = String::from(
        "# Algorithms\n\n<!-- Generated by `cargo xtask docs` from the definitions in `host/recipe`. Change it there. -->\n\n\
         An algorithm is an estimator, a loss, a reduction, and what corrects or penalises them: each a key of \
         `[algorithm]` with options of its own. A preset stands for a published combination, `algorithm = \"dapo\"`; keys \
         written beside it replace the preset's:\n\n\
         ```toml\n[algorithm]\npreset = \"dapo\"\nloss = { high = 0.3 }          # the preset's kind, another bound\nkl = { coefficient = 0.001 }\n```\n\n\
         `whet recipe explain RECIPE` prints what a recipe computes, with its numbers. What cannot be combined is refused \
         before anything runs.\n\n| symbol | meaning |\n|---|---|\n",
    );
    for (symbol, meaning) in SYMBOLS {
        let _ = writeln!(page, "| `{}` | {} |", cell(symbol), cell(meaning));
    }
    page.push_str("\n## Presets\n\nWhere a column is empty, the preset has GRPO's value.\n\n");
    presets(&mut page);
    for (part, title, text) in PARTS {
        let _ = writeln!(page, "\n## {title}\n\n{text}\n");
        for definition in DEFINITIONS.iter().filter(|d| d.part == part) {
            kind(&mut page, &schema, definition);
        }
    }
    page
}

fn presets(page: &mut String) {
    let usual = value(&preset::algorithm(Preset::Grpo));
    let _ = writeln!(
        page,
        "| preset | what it is | estimator | loss | reduction | other |\n|---|---|---|---|---|---|"
    );
    for preset in Preset::ALL {
        let algorithm = value(&preset::algorithm(preset));
        let name = preset.name();
        let part = |key: &str| {
            let same = preset != Preset::Grpo && algorithm[key] == usual[key];
            if same { String::new() } else { format!("`{}`", inline(&algorithm[key])) }
        };
        let mut other = Vec::new();
        for (key, value) in algorithm.as_object().into_iter().flatten() {
            let listed = ["preset", "estimator", "loss", "reduction"].contains(&key.as_str());
            let shown = preset == Preset::Grpo && ["ratio-clamp", "correction"].contains(&key.as_str());
            if !listed && (*value != usual[key] || shown) {
                other.push(format!("`{key} = {}`", inline(value)));
            }
        }
        let _ = writeln!(
            page,
            "| `{name}` | {} | {} | {} | {} | {} |",
            cell(&meaning(preset)),
            part("estimator"),
            part("loss"),
            part("reduction"),
            other.join(", ")
        );
    }
}

fn kind(page: &mut String, schema: &Value, definition: &Definition) {
    let Definition { part, name, formula, source, peers } = definition;
    let _ = writeln!(page, "### `{name}`\n");
    let found = kind_schema(schema, part, name).or_else(|| {
        let choices = schema["$defs"][definition_of(part)]["oneOf"].as_array()?;
        choices.iter().find(|c| c["const"].as_str() == Some(name))
    });
    if let Some(text) = found.and_then(|f| f["description"].as_str()) {
        let _ = writeln!(page, "{text}\n");
    }
    let _ = writeln!(page, "```text\n{}\n```\n", formula.replace(['{', '}'], ""));
    if !source.is_empty() {
        let _ = writeln!(page, "Source: {source}.  ");
    }
    if !peers.is_empty() {
        let _ = writeln!(page, "Elsewhere: {}.", peers.trim_end_matches('.'));
    }
    let properties = found.and_then(|f| f["properties"].as_object()).cloned().unwrap_or_default();
    let options: Map<String, Value> = properties.into_iter().filter(|(key, _)| key != "kind").collect();
    if options.is_empty() {
        page.push('\n');
        return;
    }
    page.push_str("\n| option | default | meaning |\n|---|---|---|\n");
    for (option, property) in &options {
        let default = property.get("default").map(|d| format!("`{d}`")).unwrap_or_default();
        let choices = property["$ref"]
            .as_str()
            .and_then(|r| r.strip_prefix("#/$defs/"))
            .map(|name| &schema["$defs"][name])
            .and_then(|d| d["oneOf"].as_array().cloned())
            .unwrap_or_default();
        let mut meaning = property["description"].as_str().unwrap_or_default().to_owned();
        for choice in &choices {
            let text = choice["description"].as_str().unwrap_or_default();
            let _ = write!(meaning, " `{}`: {text}", choice["const"].as_str().unwrap_or_default());
        }
        let _ = writeln!(page, "| `{option}` | {} | {} |", cell(&default), cell(&meaning));
    }
    page.push('\n');
}

/// A value as it stands in a recipe, on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            if let (Some(Value::String(kind)), 1) = (table.get("kind"), table.len()) {
                return format!("\"{kind}\"");
            }
            let keys = table.iter().map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Text that fits in one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_preset_and_every_kind() {
        let page = markdown();
        for preset in Preset::ALL {
            assert!(page.contains(&format!("| `{}` |", preset.name())), "{preset:?}");
        }
        for definition in DEFINITIONS {
            assert!(page.contains(&format!("### `{}`", definition.name)), "{}", definition.name);
        }
    }
}
