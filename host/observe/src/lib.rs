//! What a run writes down and says aloud: metrics, TensorBoard events, trajectories, the terminal, alerts.
//!
//! Everything here takes finished numbers and texts. Nothing here decides how a run goes on, and nothing
//! knows models, plugins or tensors.

mod alerts;
mod comparison;
mod console;
mod error;
mod metrics;
mod plot;
mod recorder;
mod sparkline;
mod statistics;
mod step_line;
mod task_line;
mod tensorboard;
mod trajectories;

pub use alerts::{
    Alert, AlertKind, AlertWatch, cut_off, engine_drift, every_group_dropped, every_reward_zero,
    gradient_explodes, kl_explodes, no_variance, nothing_extracted, one_answer_takes_over, plugin_fails,
    scoring_fails, sync_mismatch, weights_stand_still,
};
pub use comparison::{Answer, Comparison, comparison_table};
pub use console::{Console, ConsoleMode, Shown};
pub use error::ObserveError;
pub use metrics::{Metrics, MetricsLine, MetricsWriter, read_metrics};
pub use plot::{Curve, Panel, PlotError, curve, smoothed, svg};
pub use recorder::Recorder;
pub use sparkline::sparkline;
pub use statistics::{StepStatistics, says_nothing_found, tally_notes};
pub use step_line::{StepLine, step_line};
pub use task_line::{TaskLine, task_line};
pub use tensorboard::{EventWriter, masked_crc32c};
pub use trajectories::{OutcomeKind, SampleRecord, TrajectoryWriter};
