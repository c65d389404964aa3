//! The run directory's logs, opened and written together.

use crate::{EventWriter, Metrics, MetricsWriter, ObserveError, SampleRecord, TrajectoryWriter};
use std::path::Path;

/// `metrics.jsonl`, `tensorboard/` and `trajectories/` of one run directory.
#[derive(Debug)]
pub struct Recorder {
    metrics: MetricsWriter,
    events: Option<EventWriter>,
    trajectories: Option<TrajectoryWriter>,
}

impl Recorder {
    /// Opens the logs. `resumed_after`: the step of the checkpoint that a resumed run starts from; what was
    /// logged for later steps is dropped.
    pub fn open(
        run_dir: &Path,
        resumed_after: Option<u64>,
        tensorboard: bool,
        trajectories: bool,
    ) -> Result<Self, ObserveError> {
        std::fs::create_dir_all(run_dir).map_err(ObserveError::write(run_dir))?;
        let events = tensorboard
            .then(|| EventWriter::create(&run_dir.join("tensorboard"), resumed_after))
            .transpose()?;
        let trajectories = trajectories
            .then(|| TrajectoryWriter::open(&run_dir.join("trajectories"), resumed_after))
            .transpose()?;
        let metrics = MetricsWriter::open(&run_dir.join("metrics.jsonl"), resumed_after)?;
        Ok(Recorder { metrics, events, trajectories })
    }

    /// Writes the numbers of a step to every sink.
    pub fn numbers(&mut self, step: u64, metrics: &Metrics) -> Result<(), ObserveError> {
        self.metrics.write(step, metrics)?;
        self.events.as_mut().map_or(Ok(()), |e| e.scalars(step, metrics))
    }

    /// Writes the samples of a step.
    pub fn samples(&self, step: u64, records: &[SampleRecord]) -> Result<(), ObserveError> {
        self.trajectories.as_ref().map_or(Ok(()), |t| t.write(step, records).map(drop))
    }
}
