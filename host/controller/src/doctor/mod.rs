//! Everything that can be found out about a recipe without training: what `whet doctor` tells.
//!
//! Every check runs, whatever an earlier one found, as far as it does not need what is missing.

pub mod label_lint;

use crate::doctor::label_lint::{LabelReport, RowNote, grade_labels, reads_metadata};
use crate::offline::reward_model;
use crate::setup::{self, LoadedModel};
use crate::step::{critic, teacher};
use crate::{RunError, offline, options};
use tch::Kind;
use whet_recipe::data::{Finding as DataFinding, Rows, WarningKind};
use whet_recipe::{ByteSize, ModelNumbers, Recipe, Task};

/// Rows named one by one; beyond that they are counted.
const NAMED: usize = 5;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Fine,
    /// A run would work, perhaps not as meant.
    Warning,
    /// A run would fail, or learn from wrong scores.
    Problem,
}

/// One thing that was found out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked at, as in `model` or `data.train`.
    pub subject: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is the case.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// All rows that it is about, as `file:line`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
}

/// Positions that the engine gives out memory for at once.
const BLOCK: usize = 16;

/// Looks at everything. `explain` puts an error into words, since words are made in one place.
pub fn examine(recipe: &Recipe, explain: &dyn Fn(&RunError) -> (String, Option<String>)) -> Vec<Finding> {
    let mut findings = Vec::new();
    if recipe.task != Task::Rl {
        examine_texts(recipe, &mut findings, explain);
        return findings;
    }
    let plugins = check(&mut findings, "plugins", explain, || setup::start_plugins(recipe, None));
    if let Some((_, plugins)) = &plugins {
        findings.extend(recipe.judge.iter().map(|judge| {
            let key =
                judge.api_key_env.as_ref().map_or("no key".into(), |name| format!("the key of `{name}`"));
            fine("judge", format!("`{}` is `{}` at {}, with {key}", judge.route, judge.model, judge.base_url))
        }));
        findings.extend(plugins.records.iter().map(|record| {
            let grants = if record.grants.is_empty() { "none".to_owned() } else { record.grants.join(", ") };
            let digest = record.digest.get(..19).unwrap_or(&record.digest);
            fine(&record.role, format!("`{}` loads ({digest}…; grants: {grants})", record.name))
        }));
    }
    let train = check(&mut findings, "data.train", explain, || Ok(whet_recipe::data::train(&recipe.data)?));
    let test = match recipe.data.test.is_empty() {
        true => None,
        false => check(&mut findings, "data.test", explain, || Ok(whet_recipe::data::test(&recipe.data)?)),
    };
    for (subject, rows) in [("data.train", &train), ("data.test", &test)] {
        let Some(rows) = rows else { continue };
        let rewards = plugins.iter().flat_map(|(_, plugins)| &plugins.scorer.rewards);
        let by_metadata = rows.rows.iter().all(|row| row.label.is_none())
            && rewards
                .filter(|reward| !reward.plugin.asks_others())
                .any(|reward| reads_metadata(reward, &rows.rows));
        findings.extend(data_findings(subject, rows, by_metadata));
        if let Some((_, plugins)) = &plugins {
            for reward in &plugins.scorer.rewards {
                findings.push(match reward.plugin.asks_others() {
                    true => fine(
                        subject,
                        format!(
                            "`{}` asks a judge or a server, so labels are not graded: it would cost what a run does",
                            reward.name
                        ),
                    ),
                    false => label_finding(subject, &grade_labels(reward, &rows.rows)),
                });
            }
        }
    }
    if let (Some(train), Some(test)) = (&train, &test) {
        let shared = whet_recipe::data::overlap(train, test);
        if let Some(finding) = overlap_finding(shared.len()) {
            findings.push(finding);
        }
    }
    if let Some(model) = check(&mut findings, "model", explain, || setup::load_model(recipe)) {
        findings.push(model_finding(recipe, &model));
        for (subject, rows) in [("data.train", train), ("data.test", test)] {
            let Some(rows) = rows else { continue };
            // Filters choose what is trained on; they do not touch what is measured.
            let prompts = || match &plugins {
                Some((_, plugins)) if subject == "data.train" => {
                    setup::training_prompts(recipe, rows.rows, &model.checkpoint, plugins)
                }
                _ => setup::prompts_of(subject, recipe, rows.rows, &model.checkpoint),
            };
            if let Some(set) = check(&mut findings, subject, explain, prompts) {
                findings.push(prompt_finding(subject, &set));
                let longest = set.prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0);
                findings.extend(cache_finding(recipe, &model, longest));
            }
        }
        check(&mut findings, "critic", explain, || critic::load(recipe, &model));
        check(&mut findings, "teacher", explain, || teacher::load(recipe, &model));
        findings.push(memory_finding(recipe, &model));
    }
    findings
}

/// Looks at a recipe that samples nothing.
fn examine_texts(
    recipe: &Recipe,
    findings: &mut Vec<Finding>,
    explain: &dyn Fn(&RunError) -> (String, Option<String>),
) {
    let load = || match recipe.task {
        Task::RewardModel => reward_model::load(recipe),
        _ => setup::load_model(recipe),
    };
    let Some(model) = check(findings, "model", explain, load) else { return };
    findings.push(model_finding(recipe, &model));
    let texts = check(findings, "data", explain, || offline::survey(recipe, &model.checkpoint));
    for (subject, survey) in texts.into_iter().flatten() {
        let message = format!(
            "{} rows; the longest has {} tokens, {} tokens in all are learnt",
            survey.rows, survey.longest, survey.learnt
        );
        findings.push(fine(subject, message));
        findings.extend(survey.left_out.into_iter().map(|sentence| {
            warning(
                subject,
                sentence,
                "look at these rows, if they matter; data.max-tokens bounds their length",
            )
        }));
    }
    findings.push(memory_finding(recipe, &model));
}

fn check<T>(
    findings: &mut Vec<Finding>,
    subject: &str,
    explain: &dyn Fn(&RunError) -> (String, Option<String>),
    what: impl FnOnce() -> Result<T, RunError>,
) -> Option<T> {
    match what() {
        Ok(value) => Some(value),
        Err(error) => {
            let (message, help) = explain(&error);
            findings.push(Finding {
                subject: subject.into(),
                severity: Severity::Problem,
                message,
                help,
                rows: Vec::new(),
            });
            None
        }
    }
}

/// `by_metadata`: a reward grades the rows by what they carry in place of a label.
fn data_findings(subject: &str, rows: &Rows, by_metadata: bool) -> Vec<Finding> {
    let (statistics, signs) = whet_recipe::data::lint(rows);
    let [shortest, median, longest] = statistics.prompt_chars;
    let mut findings = vec![fine(
        subject,
        format!(
            "{} rows, {} labelled ({} different labels), questions of {shortest} to {longest} characters (median {median})",
            statistics.rows, statistics.labelled, statistics.distinct_labels
        ),
    )];
    let expected = |sign: &DataFinding| by_metadata && *sign == DataFinding::NoLabels;
    for sign in signs.into_iter().filter(|sign| !expected(sign)) {
        let (message, help) = data_words(&sign);
        findings.push(warning(subject, message, help));
    }
    for odd in rows.warnings.iter().take(NAMED) {
        findings.push(warning(
            subject,
            format!("{}: {}", odd.origin, odd_words(&odd.kind)),
            "look at the row",
        ));
    }
    if rows.warnings.len() > NAMED {
        let more = rows.warnings.len() - NAMED;
        findings.push(warning(
            subject,
            format!("{more} more rows are odd in the same ways"),
            "look at the rows",
        ));
    }
    findings
}

fn data_words(sign: &DataFinding) -> (String, &'static str) {
    match sign {
        DataFinding::MissingLabels { missing, first } => (
            format!("{missing} rows have no label, the first at {first}"),
            "a reward that needs the label cannot grade them: add labels or leave the rows out",
        ),
        DataFinding::NoLabels => (
            "no row has a label".into(),
            "set data.columns.label, if the reward compares with a reference answer",
        ),
        DataFinding::OneLabel { label } => (
            format!("every row has the label {label:?}: a constant answer earns the full reward"),
            "mix in rows with other answers",
        ),
        DataFinding::DominantLabel { label, percent } => (
            format!(
                "{percent} % of the rows have the label {label:?}: a constant answer earns most of the reward"
            ),
            "balance the rows",
        ),
        DataFinding::AnswerInPrompt { rows, first } => (
            format!("{rows} prompts end with an answer of the assistant, the first at {first}"),
            "take the last message out of these conversations, and make it the label if it is the right answer",
        ),
        DataFinding::DuplicatePrompts { repeated, first } => (
            format!("{repeated} rows repeat an earlier prompt, the first {} that of {}", first.1, first.0),
            "remove the repetitions",
        ),
        DataFinding::ConflictingLabels { rows, first } => (
            format!("{rows} rows ask the same with another label, as {} and {}", first.0, first.1),
            "decide which label is right",
        ),
    }
}

fn odd_words(kind: &WarningKind) -> String {
    match kind {
        WarningKind::RepeatedKey { key } => {
            format!("the key `{key}` stands twice in one object; the last one counts")
        }
        WarningKind::EndsWithAnswer => {
            "the conversation ends with an answer, which the model would continue".into()
        }
        WarningKind::MessagesAsText => "the prompt is text that looks like a list of messages".into(),
    }
}

/// What a reward makes of the labels.
fn label_finding(subject: &str, report: &LabelReport) -> Finding {
    let reward = &report.reward;
    if !report.ungradable.is_empty() {
        let what = format!("`{reward}` cannot grade {} of {} rows:", report.ungradable.len(), report.rows);
        return Finding {
            subject: subject.into(),
            severity: Severity::Problem,
            message: listed(what, &report.ungradable),
            help: Some(
                "correct these rows, or choose a reward that can read them: their samples are never scored"
                    .into(),
            ),
            rows: places(&report.ungradable),
        };
    }
    let Some((best, form)) = report.best else {
        return fine(
            subject,
            format!("`{reward}` can grade all {} rows; there is no label to grade", report.rows),
        );
    };
    let answered = report.answered;
    if !report.reads_labels {
        return fine(
            subject,
            format!("`{reward}` can grade all {} rows and does not look at labels", report.rows),
        );
    }
    if report.indifferent == answered && answered > 1 {
        return Finding {
            severity: Severity::Problem,
            ..warning(
                subject,
                format!(
                    "`{reward}` pays a row's own label no more than another row's, in whatever form it is answered"
                ),
                "look at the labels: the reward cannot find the answer in them; `whet plugin run` shows what it extracts",
            )
        };
    }
    if !report.short.is_empty() {
        let what = format!(
            "answered with their own label, {} of {answered} rows earn less from `{reward}` than the best, which is {best}:",
            report.short.len()
        );
        let help = "look at these labels; if a right answer must have another form, this is as it should be";
        return Finding {
            rows: places(&report.short),
            ..warning(subject, listed(what, &report.short), help)
        };
    }
    let form = form.replacen("{}", "LABEL", 1).replace('\n', "⏎");
    fine(
        subject,
        format!(
            "`{reward}` grades all {answered} labels; answered with itself, as in `{form}`, each earns {best}"
        ),
    )
}

/// The first rows one by one, the others counted.
fn listed(mut text: String, notes: &[RowNote]) -> String {
    for RowNote { place, note } in notes.iter().take(NAMED) {
        text.push_str(&format!("\n     {place}: {note}"));
    }
    if notes.len() > NAMED {
        text.push_str(&format!("\n     and {} more", notes.len() - NAMED));
    }
    text
}

fn places(notes: &[RowNote]) -> Vec<String> {
    notes.iter().map(|note| note.place.clone()).collect()
}

fn overlap_finding(shared: usize) -> Option<Finding> {
    (shared > 0).then(|| {
        warning(
            "data.test",
            format!("{shared} test prompts are trained on too, so the measured gain is partly memory"),
            "remove them from data.train",
        )
    })
}

fn prompt_finding(subject: &str, set: &setup::PromptSet) -> Finding {
    let longest = set.prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
    if set.too_long > 0 {
        return warning(
            subject,
            format!(
                "{} of {} rows are longer than data.max-prompt-tokens and would be left out",
                set.too_long, set.rows
            ),
            "raise data.max-prompt-tokens, if these rows matter",
        );
    }
    let mut message = format!("all {} prompts render; the longest has {longest} tokens", set.rows);
    if !set.filtered.is_empty() {
        let reasons: Vec<String> =
            set.filtered.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        message = format!(
            "filters leave {} of {} rows ({}); the longest has {longest} tokens",
            set.prompts.len(),
            set.rows,
            reasons.join(", ")
        );
    }
    fine(subject, message)
}

fn model_finding(recipe: &Recipe, model: &LoadedModel) -> Finding {
    let weights: usize = model.checkpoint.weights.values().map(tch::Tensor::numel).sum();
    let config = &model.checkpoint.config;
    fine(
        "model",
        format!(
            "`{}` loads: {:.1} M weights, {} layers, {} on {:?}{}",
            recipe.model.source,
            weights as f64 / 1e6,
            config.layers,
            options::kind_name(model.kind),
            model.device,
            if model.checkpoint.template.is_some() { "" } else { ", no chat template" }
        ),
    )
}

fn memory_finding(recipe: &Recipe, model: &LoadedModel) -> Finding {
    let estimate = whet_recipe::estimate(&numbers(recipe, model), recipe);
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let parts: Vec<String> = estimate
        .parts
        .iter()
        .filter(|(_, b)| *b >= 1 << 20)
        .map(|(name, b)| format!("{name} {}", mib(*b)))
        .collect();
    let message = format!("about {} ({})", mib(estimate.total()), parts.join(", "));
    match available_memory() {
        Some(ByteSize(free)) if model.device == tch::Device::Cpu && estimate.total() > free => warning(
            "memory",
            format!("{message}; {} are free", mib(free)),
            "set train.gradient-checkpointing, lower train.micro-batch-tokens or rollout.kv-budget, or train a [model.lora]",
        ),
        _ => fine("memory", message),
    }
}

/// Whether one sequence of the longest prompt has no room among keys and values, which the engine would refuse.
fn cache_finding(recipe: &Recipe, model: &LoadedModel, longest: usize) -> Option<Finding> {
    let (response, budget) = (recipe.rollout.max_tokens, recipe.rollout.kv_budget);
    let needed =
        positions(longest, response) as u64 * whet_recipe::kv_bytes_per_token(&numbers(recipe, model));
    (needed > budget.0).then(|| Finding {
        subject: "rollout.kv-budget".into(),
        severity: Severity::Problem,
        message: format!(
            "a prompt of {longest} tokens and up to {response} new ones need {} of keys and values, the budget is {budget}",
            ByteSize(needed.next_multiple_of(1 << 20))
        ),
        help: Some("raise rollout.kv-budget, or lower rollout.max-tokens or data.max-prompt-tokens".into()),
        rows: Vec::new(),
    })
}

/// What a sequence takes of the engine's keys and values: whole blocks for the prompt but its last token, which is the
/// answer's first input, and whole blocks for the answer.
fn positions(prompt: usize, response: usize) -> usize {
    prompt.saturating_sub(1).next_multiple_of(BLOCK) + response.next_multiple_of(BLOCK)
}

fn numbers(recipe: &Recipe, model: &LoadedModel) -> ModelNumbers {
    let config = &model.checkpoint.config;
    let adapters = recipe.model.lora.as_ref().map_or(0, |lora| {
        let targeted = |name: &str| {
            let module = name.strip_suffix(".weight").and_then(|n| n.rsplit('.').next());
            lora.targets.iter().any(|t| Some(t.as_str()) == module)
        };
        let linear = config.tensors().into_iter().filter(|(name, shape)| targeted(name) && shape.len() == 2);
        linear.map(|(_, shape)| u64::from(lora.rank) * (shape[0] + shape[1]) as u64).sum()
    });
    ModelNumbers {
        parameters: model.checkpoint.weights.values().map(|w| w.numel() as u64).sum(),
        layers: config.layers as u64,
        hidden_size: config.hidden_size as u64,
        intermediate_size: config.intermediate_size as u64,
        heads: config.heads as u64,
        kv_heads: config.kv_heads as u64,
        head_dim: config.head_dim as u64,
        vocab_size: config.vocab_size as u64,
        adapter_parameters: adapters,
        compute_bytes: if model.kind == Kind::Float { 4 } else { 2 },
    }
}

/// Memory that the system could give to a program now; unknown where it does not say.
fn available_memory() -> Option<ByteSize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(ByteSize(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10))
}

fn fine(subject: &str, message: String) -> Finding {
    Finding { subject: subject.into(), severity: Severity::Fine, message, help: None, rows: Vec::new() }
}

fn warning(subject: &str, message: String, help: &str) -> Finding {
    Finding {
        subject: subject.into(),
        severity: Severity::Warning,
        message,
        help: Some(help.into()),
        rows: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use whet_recipe::data::{Origin, Row};
    use whet_trajectory::{Message, Role};

    #[test]
    fn rows_without_labels_are_told_unless_a_reward_grades_what_they_carry() {
        let row = Row {
            id: "a".into(),
            prompt: vec![Message::text(Role::User, "Write add(a, b).")],
            label: None,
            metadata: [("tests".to_owned(), "assert add(1, 2) == 3".into())].into_iter().collect(),
            origin: Origin { file: Path::new("train.jsonl").into(), line: 1, column: 0 },
        };
        let rows = Rows { rows: vec![row], columns: Vec::new(), warnings: Vec::new() };
        let told = |by_metadata| {
            let findings = data_findings("data.train", &rows, by_metadata);
            findings.iter().filter(|f| f.severity == Severity::Warning).count()
        };
        assert_eq!((told(false), told(true)), (1, 0));
    }

    #[test]
    fn a_prompt_and_its_answer_take_whole_blocks_as_in_the_engine() {
        for (prompt, response, taken) in [(17, 16, 32), (18, 16, 48), (1, 1, 16), (177, 16, 192)] {
            assert_eq!(positions(prompt, response), taken, "{prompt} + {response}");
        }
    }
}
