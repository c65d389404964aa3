//! Where a response says its answer: behind its reasoning, in boxes, in tags.
//!
//! The parts that rewards share. Texts in, slices of them out; what an answer means is none of its
//! business. Every function takes time in proportion to the text.

mod boxes;
mod label;
mod reasoning;
pub mod tags;

pub use boxes::{Boxed, boxes, closing_brace};
pub use label::is_remark;
pub use reasoning::{behind_reasoning, without_end_tokens};
