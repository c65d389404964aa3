//! `metrics.jsonl`: one line per step (and one per evaluation), flat names, flushed as it is written.
//!
//! A line is `{"step": 12, "time": 1767225600.1, "reward/mean": 0.61, …}`. A number that JSON cannot hold
//! (NaN, infinity) is written as null and read back as NaN. A resumed run first drops every line after its
//! checkpoint's step, and a line that a kill left torn.

use crate::ObserveError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Named numbers of one step; names are paths as in `reward/mean`.
pub type Metrics = BTreeMap<String, f64>;

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsLine {
    /// Optimiser steps done when the numbers were taken.
    pub step: u64,
    /// Seconds since the Unix epoch.
    pub time: f64,
    /// The numbers.
    pub metrics: Metrics,
}

/// Appends lines to `metrics.jsonl`.
#[derive(Debug)]
pub struct MetricsWriter {
    path: PathBuf,
    file: File,
}

impl MetricsWriter {
    /// Opens `path`. With `keep_until`, lines of later steps and torn lines are dropped first; without, the
    /// file must not hold an earlier run's lines, so it is emptied.
    pub fn open(path: &Path, keep_until: Option<u64>) -> Result<Self, ObserveError> {
        match keep_until {
            Some(step) if path.exists() => keep_lines_until(path, step)?,
            _ => drop(File::create(path).map_err(ObserveError::write(path))?),
        }
        let file = OpenOptions::new().append(true).open(path).map_err(ObserveError::write(path))?;
        Ok(MetricsWriter { path: path.to_owned(), file })
    }

    /// Appends one line and hands it to the system before it returns.
    pub fn write(&mut self, step: u64, metrics: &Metrics) -> Result<(), ObserveError> {
        let mut line = render_line(step, unix_seconds(), metrics);
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.flush())
            .map_err(ObserveError::write(&self.path))
    }
}

/// Reads `metrics.jsonl`, passing over lines that are torn or hold no step.
pub fn read_metrics(path: &Path) -> Result<Vec<MetricsLine>, ObserveError> {
    let file = File::open(path).map_err(ObserveError::read(path))?;
    let mut lines = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(ObserveError::read(path))?;
        lines.extend(parse_line(&String::from_utf8_lossy(&line)));
    }
    Ok(lines)
}

/// Seconds since the Unix epoch, for people and plots only.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn render_line(step: u64, time: f64, metrics: &Metrics) -> String {
    let mut object = Map::new();
    object.insert("step".into(), step.into());
    object.insert("time".into(), Value::from((time * 1000.0).round() / 1000.0));
    for (name, value) in metrics {
        object.insert(name.clone(), Value::from(*value));
    }
    Value::Object(object).to_string()
}

fn parse_line(line: &str) -> Option<MetricsLine> {
    let Value::Object(object) = serde_json::from_str(line).ok()? else { return None };
    let step = object.get("step")?.as_u64()?;
    let time = object.get("time").and_then(Value::as_f64).unwrap_or(0.0);
    let metrics = object
        .into_iter()
        .filter(|(name, _)| name != "step" && name != "time")
        .filter_map(|(name, value)| match value {
            Value::Null => Some((name, f64::NAN)),
            other => other.as_f64().map(|v| (name, v)),
        })
        .collect();
    Some(MetricsLine { step, time, metrics })
}

/// Rewrites the file beside itself and renames it, so that a kill in between loses nothing.
fn keep_lines_until(path: &Path, step: u64) -> Result<(), ObserveError> {
    let text = std::fs::read(path).map_err(ObserveError::read(path))?;
    let text = String::from_utf8_lossy(&text);
    let mut kept = String::new();
    // A last line without its newline is torn even if it happens to parse.
    for line in text.split_inclusive('\n').filter(|l| l.ends_with('\n')) {
        if parse_line(line).is_some_and(|l| l.step <= step) {
            kept.push_str(line);
        }
    }
    let aside = path.with_extension("jsonl.tmp");
    std::fs::write(&aside, kept).map_err(ObserveError::write(&aside))?;
    std::fs::rename(&aside, path).map_err(ObserveError::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: f64) -> Metrics {
        Metrics::from([(name.to_owned(), value)])
    }

    #[test]
    fn what_was_written_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut writer = MetricsWriter::open(&path, None).unwrap();
        writer.write(1, &one("reward/mean", 0.25)).unwrap();
        writer.write(2, &one("reward/mean", f64::NAN)).unwrap();
        let lines = read_metrics(&path).unwrap();
        assert_eq!(lines.iter().map(|l| l.step).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(lines[0].metrics["reward/mean"], 0.25);
        assert!(lines[1].metrics["reward/mean"].is_nan());
    }

    #[test]
    fn a_resumed_run_drops_later_steps_and_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut writer = MetricsWriter::open(&path, None).unwrap();
        for step in 1..=5 {
            writer.write(step, &one("loss", step as f64)).unwrap();
        }
        writer.file.write_all(b"{\"step\": 3, \"lo").unwrap();
        let mut resumed = MetricsWriter::open(&path, Some(3)).unwrap();
        resumed.write(4, &one("loss", 40.0)).unwrap();
        let lines = read_metrics(&path).unwrap();
        assert_eq!(lines.iter().map(|l| l.metrics["loss"]).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 40.0]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
    }

    #[test]
    fn a_fresh_run_starts_an_empty_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        MetricsWriter::open(&path, None).unwrap().write(1, &one("loss", 1.0)).unwrap();
        drop(MetricsWriter::open(&path, None).unwrap());
        assert!(read_metrics(&path).unwrap().is_empty());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = MetricsWriter::open(Path::new("/no/such/folder/metrics.jsonl"), None).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/metrics.jsonl"), "{error}");
    }
}
