//! Scoring stored samples again: whether a reward still says what it said, and says it twice.
//!
//! Reads what runs write (`trajectories/`, `evals/`), a file at a time. A stored failure is no score, so
//! nothing is compared with it; it is counted. Knows nothing of the command line.

use crate::step::policy::Judgement;
use crate::step::score::Scorer;
use crate::{RunError, directory};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use whet_observe::{OutcomeKind, SampleRecord};
use whet_trajectory::{Component, Group, Message, Role, Sample};

/// Numbers that differ by less, relative to their size, differ by how a file writes them.
const ROUNDING: f64 = 1e-12;

/// A sample's score, as a file has it or a reward says it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// What became of it.
    pub outcome: OutcomeKind,
    /// Null unless scored.
    pub reward: Option<f64>,
    /// Its parts.
    pub components: Vec<Component>,
    /// The note, or why there is no score.
    pub note: Option<String>,
}

/// A stored sample and its scores.
#[derive(Clone, Debug, Serialize)]
pub struct Rescored {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Line in it, from 1.
    pub line: usize,
    /// The sample.
    pub id: String,
    /// What the file says.
    pub stored: Score,
    /// What the reward says now.
    pub now: Score,
    /// What it says when asked again, if that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Score>,
}

impl Rescored {
    /// Whether the stored score is another one. A stored failure is none.
    pub fn differs(&self) -> bool {
        self.stored.outcome != OutcomeKind::Error && !same_score(&self.stored, &self.now)
    }

    /// Whether the sample had no score because the reward failed.
    pub fn had_failed(&self) -> bool {
        self.stored.outcome == OutcomeKind::Error
    }
}

impl Score {
    fn of_record(record: &SampleRecord) -> Self {
        Score {
            outcome: record.outcome,
            reward: record.reward,
            components: record.components.clone(),
            note: record.note.clone().or_else(|| record.reason.clone()),
        }
    }

    fn of_judgement(judgement: &Judgement) -> Self {
        Score {
            outcome: match judgement {
                Judgement::Scored { .. } => OutcomeKind::Scored,
                Judgement::Unscorable { .. } => OutcomeKind::Unscorable,
                Judgement::Failed(_) => OutcomeKind::Error,
            },
            reward: judgement.reward(),
            components: judgement.components().to_vec(),
            note: judgement.note(),
        }
    }
}

/// The files of stored samples that `source` stands for: a file, a folder of them, or a run directory, of
/// which it is the training samples, or with `evaluations` the answers of evaluations.
pub fn files(source: &Path, evaluations: bool) -> Result<Vec<PathBuf>, RunError> {
    if !source.exists() {
        return Err(RunError::NoSource { path: source.to_owned() });
    }
    if !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let kind = if evaluations { "evals" } else { "trajectories" };
    let folder = match directory::is_run(source) {
        true => source.join(kind),
        false => source.to_owned(),
    };
    if !folder.exists() {
        return Err(RunError::NothingSampled { run: source.to_owned(), kind });
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(RunError::read(&folder))? {
        let path = entry.map_err(RunError::read(&folder))?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(RunError::NoSamples { folder });
    }
    Ok(files)
}

/// Scores the samples of one file twice, on all cores, and compares; in the order of the file.
pub fn rescore(file: &Path, scorer: &Scorer) -> Result<Vec<Rescored>, RunError> {
    let groups = read_groups(file)?;
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(groups.len().max(1));
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(lines) = groups.get(index) else { return done };
            done.extend(rescore_group(file, lines, scorer));
        }
    };
    let mut rescored: Vec<Rescored> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Rescored>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    rescored.sort_by_key(|r| r.line);
    Ok(rescored)
}

/// A line's number and what it holds.
type Line = (usize, SampleRecord);

fn rescore_group(file: &Path, lines: &[Line], scorer: &Scorer) -> Vec<Rescored> {
    let group = group_of(lines);
    let (first, second) = (scorer.score(&group), scorer.score(&group));
    let compared = lines.iter().zip(first).zip(second).map(|(((line, record), first), second)| {
        let (now, again) = (Score::of_judgement(&first), Score::of_judgement(&second));
        Rescored {
            file: file.to_owned(),
            line: *line,
            id: record.id.to_string(),
            stored: Score::of_record(record),
            again: (again != now).then_some(again),
            now,
        }
    });
    compared.collect()
}

/// Neighbouring lines of one group.
fn read_groups(file: &Path) -> Result<Vec<Vec<Line>>, RunError> {
    let text = fs::read_to_string(file).map_err(RunError::read(file))?;
    let mut groups: Vec<Vec<Line>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let record: SampleRecord = serde_json::from_str(line).map_err(|e| RunError::Malformed {
            path: format!("{}:{}", file.display(), index + 1).into(),
            reason: format!("it is no line that a run has written ({e})"),
        })?;
        match groups.last_mut() {
            Some(group) if group[0].1.group == record.group => group.push((index + 1, record)),
            _ => groups.push(vec![(index + 1, record)]),
        }
    }
    Ok(groups)
}

/// The group as the reward saw it.
fn group_of(lines: &[Line]) -> Group {
    let first = &lines[0].1;
    let sample = |(_, record): &Line| Sample {
        id: record.id.clone(),
        completion: vec![Message::text(Role::Assistant, &record.response)],
        response: record.response.clone(),
        finish: record.finish,
        prompt_tokens: record.prompt_tokens as u32,
        response_tokens: record.tokens.len().saturating_sub(record.prompt_tokens) as u32,
        turns: 1,
        environment_rewards: Vec::new(),
    };
    Group {
        id: first.group.clone(),
        prompt: first.prompt.clone(),
        label: first.label.clone(),
        metadata: first.metadata.clone(),
        samples: lines.iter().map(sample).collect(),
    }
}

/// Whether two scores are the same; notes are for people and may be worded anew.
fn same_score(a: &Score, b: &Score) -> bool {
    let value = |score: &Score, name: &str| score.components.iter().find(|c| c.name == name).map(|c| c.value);
    let close = |x: Option<f64>, y: Option<f64>| match (x, y) {
        (Some(x), Some(y)) => (x - y).abs() <= ROUNDING * x.abs().max(y.abs()).max(1.0),
        (x, y) => x == y,
    };
    a.outcome == b.outcome
        && close(a.reward, b.reward)
        && a.components.len() == b.components.len()
        && a.components.iter().all(|c| close(Some(c.value), value(b, &c.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(reward: Option<f64>, components: &[(&str, f64)]) -> Score {
        Score {
            outcome: if reward.is_some() { OutcomeKind::Scored } else { OutcomeKind::Unscorable },
            reward,
            components: components
                .iter()
                .map(|(name, value)| Component { name: (*name).into(), value: *value })
                .collect(),
            note: None,
        }
    }

    #[test]
    fn what_has_no_samples_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let told = |path: &Path, evaluations| files(path, evaluations).unwrap_err().to_string();
        assert!(told(&dir.path().join("nope"), false).ends_with("nope` does not exist"));
        assert!(told(dir.path(), false).contains("holds no samples"), "a folder, not a run");
        fs::write(dir.path().join("recipe.resolved.toml"), "").unwrap();
        assert!(told(dir.path(), false).contains("sampled nothing: it has no `trajectories`"));
        assert!(told(dir.path(), true).contains("sampled nothing: it has no `evals`"));
        fs::create_dir(dir.path().join("trajectories")).unwrap();
        fs::write(dir.path().join("trajectories/step-000001.jsonl"), "").unwrap();
        assert_eq!(files(dir.path(), false).unwrap().len(), 1);
    }

    #[test]
    fn scores_are_the_same_up_to_rounding_and_the_order_of_their_parts() {
        let stored = score(Some(0.3), &[("a", 0.1), ("b", 0.2)]);
        assert!(same_score(&stored, &score(Some(0.1 + 0.2), &[("b", 0.2), ("a", 0.1)])));
        assert!(!same_score(&stored, &score(Some(0.3), &[("a", 0.2), ("b", 0.1)])));
        assert!(!same_score(&stored, &score(Some(0.3), &[("a", 0.1)])));
        assert!(!same_score(&stored, &score(Some(0.3001), &[("a", 0.1), ("b", 0.2)])));
        assert!(!same_score(&stored, &score(None, &[])));
    }

    #[test]
    fn a_stored_failure_is_no_score_to_compare_with() {
        let mut rescored = Rescored {
            file: "a".into(),
            line: 1,
            id: "s".into(),
            stored: Score { outcome: OutcomeKind::Error, ..score(None, &[]) },
            now: score(Some(1.0), &[("reward", 1.0)]),
            again: None,
        };
        assert!(!rescored.differs() && rescored.had_failed());
        rescored.stored = score(None, &[]);
        assert!(rescored.differs(), "what had no right score has one now");
    }
}
