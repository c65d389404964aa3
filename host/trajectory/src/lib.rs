//! What was asked, sampled and scored, as plain data that every other crate shares.
//!
//! Messages and groups are what plugins see; segments and trajectories are what trainers see.
//! Results are joined on ids, never on position. Nothing here knows tensors, WebAssembly or how
//! a token was sampled.

mod id;
mod message;
mod outcome;
mod sample;
mod segment;

pub use id::{GroupId, SampleId, WeightVersion};
pub use message::{Media, Message, MessageError, Part, Role, ToolCall};
pub use outcome::{Attribution, Component, Failure, Grade, Outcome, Span};
pub use sample::{FinishReason, Group, Sample};
pub use segment::{Provenance, Segment, Trajectory};
