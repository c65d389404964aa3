//! `trajectories/step-000012.jsonl`: every sample of a step, one line each, with everything needed to look
//! at it, score it again or train on it again.
//!
//! A step's file is written aside and renamed, so a reader never sees half a step, and a repeated step
//! (after a resume) replaces its file.

use crate::ObserveError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use whet_trajectory::{Component, FinishReason, GroupId, Message, SampleId, WeightVersion};

/// What the reward made of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// It has a score.
    Scored,
    /// There is no right score.
    Unscorable,
    /// The reward failed.
    Error,
}

/// One line: a sample, its tokens and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// The training step that sampled it, counted from 1.
    pub step: u64,
    /// The sample.
    pub id: SampleId,
    /// All samples of one prompt.
    pub group: GroupId,
    /// The data row, as the data crate names it.
    pub row: String,
    /// The conversation before the response.
    pub prompt: Vec<Message>,
    /// The row's reference answer.
    pub label: Option<String>,
    /// The row's other columns.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Decoded response, without special tokens.
    pub response: String,
    /// Why generation ended.
    pub finish: FinishReason,
    /// Prompt and response ids.
    pub tokens: Vec<u32>,
    /// How many of `tokens` are the prompt.
    pub prompt_tokens: usize,
    /// Log-probability of each response token under the distribution it was sampled from.
    pub logprobs: Vec<f32>,
    /// Weight version that sampled each response token.
    pub versions: Vec<WeightVersion>,
    /// What the reward said.
    pub outcome: OutcomeKind,
    /// The weighted reward; null unless scored.
    pub reward: Option<f64>,
    /// The parts of the reward, `name` or `plugin/name`.
    pub components: Vec<Component>,
    /// What was extracted, or why it fell short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why there is no score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the loss saw; null when the sample did not reach it.
    pub advantage: Option<f64>,
}

/// Writes the trajectory files of a run.
#[derive(Debug)]
pub struct TrajectoryWriter {
    dir: PathBuf,
}

impl TrajectoryWriter {
    /// Opens the folder. Files of steps after `keep_until` (all of them, when a run starts fresh) go.
    pub fn open(dir: &Path, keep_until: Option<u64>) -> Result<Self, ObserveError> {
        std::fs::create_dir_all(dir).map_err(ObserveError::write(dir))?;
        for entry in std::fs::read_dir(dir).map_err(ObserveError::read(dir))? {
            let path = entry.map_err(ObserveError::read(dir))?.path();
            let stale = match step_of(&path) {
                Some(step) => keep_until.is_none_or(|kept| step > kept),
                None => path.extension().is_some_and(|e| e == "tmp"),
            };
            if stale {
                std::fs::remove_file(&path).map_err(ObserveError::write(&path))?;
            }
        }
        Ok(TrajectoryWriter { dir: dir.to_owned() })
    }

    /// Writes all samples of `step`.
    pub fn write(&self, step: u64, records: &[SampleRecord]) -> Result<PathBuf, ObserveError> {
        let path = self.dir.join(format!("step-{step:06}.jsonl"));
        let aside = path.with_extension("jsonl.tmp");
        write_lines(&aside, records).map_err(ObserveError::write(&aside))?;
        std::fs::rename(&aside, &path).map_err(ObserveError::write(&path))?;
        Ok(path)
    }
}

fn write_lines(path: &Path, records: &[SampleRecord]) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for record in records {
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn step_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.strip_suffix(".jsonl")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_trajectory::Role;

    fn record(step: u64) -> SampleRecord {
        SampleRecord {
            step,
            id: SampleId(format!("step{step}/row7/0")),
            group: GroupId(format!("step{step}/row7")),
            row: "7".into(),
            prompt: vec![Message::text(Role::User, "1 + 1?")],
            label: Some("2".into()),
            metadata: Map::new(),
            response: "2".into(),
            finish: FinishReason::Stop,
            tokens: vec![5, 6, 7],
            prompt_tokens: 2,
            logprobs: vec![-0.5],
            versions: vec![WeightVersion(step - 1)],
            outcome: OutcomeKind::Scored,
            reward: Some(1.0),
            components: vec![Component { name: "correct".into(), value: 1.0 }],
            note: Some("found 2".into()),
            reason: None,
            advantage: Some(0.5),
        }
    }

    #[test]
    fn a_line_reads_back_as_the_sample() {
        let dir = tempfile::tempdir().unwrap();
        let writer = TrajectoryWriter::open(dir.path(), None).unwrap();
        let path = writer.write(3, &[record(3), record(3)]).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<SampleRecord> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines, [record(3), record(3)]);
    }

    #[test]
    fn a_resumed_run_forgets_the_steps_after_its_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let writer = TrajectoryWriter::open(dir.path(), None).unwrap();
        for step in 1..=4 {
            writer.write(step, &[record(step)]).unwrap();
        }
        TrajectoryWriter::open(dir.path(), Some(2)).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["step-000001.jsonl", "step-000002.jsonl"]);
    }
}
