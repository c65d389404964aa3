//! Whet's end-to-end tests in one binary: one module per area, so that one link step serves all.
#![allow(clippy::unwrap_used)]

mod algorithms;
mod asking;
mod bad_input;
mod data;
mod dynamic;
mod examples;
mod filters;
mod golden;
mod gpu;
mod gradients;
mod hostile;
mod labels;
mod languages;
mod models;
mod observe;
mod plugin_cli;
mod recipe_commands;
mod recipes;
mod resume;
mod rollout;
mod score;
mod tasks;
mod train;
mod whet;
