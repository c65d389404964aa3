//! Whet's end-to-end tests in one binary: one module per area, so that one link step serves all.
#![allow(clippy::unwrap_used)]

mod observe;
mod gpu;
mod golden;
mod gradients;
mod data;
mod recipes;
mod rollout;
mod models;
mod whet;
mod train;
mod resume;
mod bad_input;
mod plugin_cli;
