//! Grading every label against itself: whether a reward can read the labels, and tells its own from another.
//!
//! A label is written as answers are usually written (bare, boxed, behind `Answer:` …), and the form that
//! earns most is taken for the one that the reward reads. Nothing here knows a single plugin: what it can
//! read shows in what it pays. Rewards that ask judges or servers are left alone, since asking costs.

use crate::step::score::Reward;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use whet_recipe::data::Row;
use whet_trajectory::{FinishReason, Group, GroupId, Message, Outcome, Role, Sample, SampleId};

/// Forms of an answer, `{}` standing for the label.
const FORMS: [&str; 10] = [
    "{}",
    "\\boxed{{}}",
    "Answer: {}",
    "#### {}",
    "The answer is {}.",
    "<answer>{}</answer>",
    "<think>\nIt follows.\n</think>\n\n\\boxed{{}}",
    "<think>\nIt follows.\n</think>\n<answer>{}</answer>",
    "<think>\nIt follows.\n</think>\n<answer>\\boxed{{}}</answer>",
    "```python\n{}\n```",
];

/// Columns beside the label in which data sets keep a right answer.
const ANSWERS: [&str; 3] = ["correct_letter", "canonical_solution", "answer"];

/// What a row without any answer is answered with, to see whether it can be graded at all.
const NO_ANSWER: &str = "I do not know.";

/// Rows on which something is tried out before all are graded.
const SAMPLE: usize = 8;

/// A row about which there is something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowNote {
    /// `file:line`.
    pub place: String,
    /// What the reward says.
    pub note: String,
}

/// What one reward makes of the labels of one file set.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelReport {
    /// The reward's name.
    pub reward: String,
    /// Rows that have an answer to grade.
    pub answered: usize,
    /// All rows.
    pub rows: usize,
    /// Most that an own answer earns, and the form in which most rows earn it.
    pub best: Option<(f64, &'static str)>,
    /// Rows that get no score, whatever is answered.
    pub ungradable: Vec<RowNote>,
    /// Rows whose own answer earns less than the best.
    pub short: Vec<RowNote>,
    /// Whether the reward looks at labels at all: without them, or with another, it says something else.
    pub reads_labels: bool,
    /// Rows whose own answer earns no more than another row's does.
    pub indifferent: usize,
}

/// What was found about one row.
struct Graded {
    /// The most that an own answer earned, and in which form; none without a score.
    own: Option<(f64, usize)>,
    /// What another row's answer earned in the same form.
    other: Option<f64>,
    /// Whether there was an answer.
    answered: bool,
    note: String,
}

/// Grades all rows with one reward, on all cores.
pub fn grade_labels(reward: &Reward, rows: &[Row]) -> LabelReport {
    let usual = usual_form(reward, rows);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(index) else { return done };
            done.push((index, grade(reward, row, other_answer(rows, index), usual)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(rows.len().max(1));
    let mut graded: Vec<(usize, Graded)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
            t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    graded.sort_by_key(|(index, _)| *index);
    report(reward, rows, usual, &graded)
}

fn report(reward: &Reward, rows: &[Row], usual: usize, graded: &[(usize, Graded)]) -> LabelReport {
    let answered = || graded.iter().filter(|(_, g)| g.answered);
    let best = answered().filter_map(|(_, g)| g.own).max_by(|a, b| a.0.total_cmp(&b.0));
    let full = best.map_or(0.0, |(reward, _)| reward);
    let mut uses = [0usize; FORMS.len()];
    for (_, form) in answered().filter_map(|(_, g)| g.own).filter(|(reward, _)| *reward == full) {
        uses[form] += 1;
    }
    let form = (0..FORMS.len()).max_by_key(|&i| (uses[i], std::cmp::Reverse(i))).unwrap_or(0);
    let note = |(index, g): &(usize, Graded)| RowNote {
        place: rows[*index].origin.to_string(),
        note: g.note.clone(),
    };
    LabelReport {
        reward: reward.name.clone(),
        answered: answered().count(),
        rows: rows.len(),
        best: best.map(|(reward, _)| (reward, FORMS[form])),
        ungradable: graded.iter().filter(|(_, g)| g.own.is_none()).map(note).collect(),
        short: answered().filter(|(_, g)| g.own.is_some_and(|(own, _)| own < full)).map(note).collect(),
        reads_labels: reads_labels(reward, rows, usual),
        indifferent: answered()
            .filter(|(_, g)| matches!((g.own, g.other), (Some((own, _)), Some(other)) if own <= other))
            .count(),
    }
}

/// The form that earns most over the first rows: it is tried first, and others only where it fails.
fn usual_form(reward: &Reward, rows: &[Row]) -> usize {
    let mut earned = [0.0; FORMS.len()];
    for row in rows.iter().filter(|row| row.label.is_some()).take(SAMPLE) {
        let Some(label) = &row.label else { continue };
        for (form, sum) in earned.iter_mut().enumerate() {
            *sum += ask(reward, row, row.label.as_deref(), &filled(form, label)).0.unwrap_or(0.0);
        }
    }
    let best = earned.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    earned.iter().position(|sum| *sum == best).unwrap_or(0)
}

fn grade(reward: &Reward, row: &Row, other: Option<&str>, usual: usize) -> Graded {
    let answers = answers_of(row);
    let label = row.label.as_deref();
    let mut graded = Graded { own: None, other: None, answered: !answers.is_empty(), note: String::new() };
    if answers.is_empty() {
        let (score, note) = ask(reward, row, label, NO_ANSWER);
        return Graded { own: score.map(|score| (score, 0)), note, ..graded };
    }
    let other = other.map(|other| ask(reward, row, label, &filled(usual, other)).0);
    graded.other = other.flatten();
    let forms = std::iter::once(usual).chain((0..FORMS.len()).filter(|form| *form != usual));
    'search: for form in forms {
        for answer in &answers {
            let (score, note) = ask(reward, row, label, &filled(form, answer));
            if graded.note.is_empty() {
                graded.note = note.clone();
            }
            let Some(score) = score else { continue };
            if graded.own.is_none_or(|(own, _)| score > own) {
                graded.own = Some((score, form));
                graded.note = note;
            }
            // More than another answer earns is as good as it gets.
            if graded.other.is_none_or(|other| score > other) {
                break 'search;
            }
        }
    }
    graded
}

/// Whether the reward says something else to the first rows when they have no label.
fn reads_labels(reward: &Reward, rows: &[Row], usual: usize) -> bool {
    rows.iter().filter_map(|row| Some((row, row.label.as_deref()?))).take(SAMPLE).any(|(row, label)| {
        let answer = filled(usual, label);
        ask(reward, row, None, &answer) != ask(reward, row, Some(label), &answer)
    })
}

/// Whether the reward says something else to the first rows without what they carry beside the label, such as
/// tests: then it needs no label.
pub fn reads_metadata(reward: &Reward, rows: &[Row]) -> bool {
    rows.iter().filter(|row| !row.metadata.is_empty()).take(SAMPLE).any(|row| {
        let bare = Row { metadata: serde_json::Map::new(), ..row.clone() };
        let label = row.label.as_deref();
        let responses = [NO_ANSWER.to_owned(), filled(FORMS.len() - 1, "pass")];
        responses
            .iter()
            .any(|response| ask(reward, row, label, response) != ask(reward, &bare, label, response))
    })
}

/// Right answers of a row, the label first.
fn answers_of(row: &Row) -> Vec<String> {
    let column = |name: &&str| match row.metadata.get(*name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let mut answers: Vec<String> = row.label.clone().into_iter().collect();
    for answer in ANSWERS.iter().filter_map(column) {
        if !answers.contains(&answer) {
            answers.push(answer);
        }
    }
    answers
}

/// The label of a later row (or an earlier one) that is another.
fn other_answer(rows: &[Row], index: usize) -> Option<&str> {
    let label = rows[index].label.as_deref();
    let others = rows[index + 1..].iter().chain(&rows[..index]).take(1000);
    others.filter_map(|row| row.label.as_deref()).find(|other| Some(*other) != label)
}

fn filled(form: usize, label: &str) -> String {
    FORMS[form].replacen("{}", label, 1)
}

/// The reward of a response to a row, and what is said about it.
fn ask(reward: &Reward, row: &Row, label: Option<&str>, response: &str) -> (Option<f64>, String) {
    let outcome = match reward.plugin.score(&answered_with(row, label, response)) {
        Ok(mut outcomes) => outcomes.pop(),
        Err(error) => return (None, error.to_string()),
    };
    match outcome {
        Some(Outcome::Unscorable { reason }) => (None, reason),
        Some(Outcome::Failed(failure)) => (None, failure.to_string()),
        Some(scored) => {
            let value = scored.reward(&reward.weights);
            let note = if let Outcome::Scored(grade) = scored { grade.note } else { None };
            (value, note.unwrap_or_default())
        }
        None => (None, "the reward said nothing".into()),
    }
}

fn answered_with(row: &Row, label: Option<&str>, response: &str) -> Group {
    let sample = Sample {
        id: SampleId(format!("{}/label", row.id)),
        completion: vec![Message::text(Role::Assistant, response)],
        response: response.to_owned(),
        finish: FinishReason::Stop,
        prompt_tokens: 1,
        response_tokens: response.split_whitespace().count().max(1) as u32,
        turns: 1,
        environment_rewards: Vec::new(),
    };
    Group {
        id: GroupId(row.id.clone()),
        prompt: row.prompt.clone(),
        label: label.map(str::to_owned),
        metadata: row.metadata.clone(),
        samples: vec![sample],
    }
}
