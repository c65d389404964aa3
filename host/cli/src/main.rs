//! The `whet` command line: arguments in, one call on the crates below, words out.
//!
//! Exit codes: 0 done; 1 an error, or problems that `doctor` found; 2 wrong arguments; 130 interrupted
//! (training then has written a checkpoint and says how to go on).

mod doctor;
mod eval;
mod export;
mod generate;
mod plot;
mod plugin;
mod recipe;
mod score;
mod train;
mod words;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Sharpen language models with reinforcement learning, rewarded by sandboxed WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(
    name = "whet",
    version,
    after_help = "Start with:\n  whet recipe new first.toml   write a recipe to begin with\n  whet doctor first.toml       check it without training\n  whet train first.toml        train\n\nExit codes: 0 done, 1 error, 2 wrong arguments, 130 interrupted."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a model as a recipe says
    Train(train::Train),
    /// Measure a model on a recipe's test data
    Eval(eval::Eval),
    /// Let a model answer
    Generate(generate::Generate),
    /// Write a trained model in Hugging Face layout
    Export(export::Export),
    /// Draw curves of runs
    Plot(plot::Plot),
    /// Score stored samples again and compare
    Score(score::ScoreArguments),
    /// Check everything about a recipe without training
    Doctor(doctor::Doctor),
    /// Write, describe and explain recipes
    Recipe(recipe::RecipeArguments),
    /// Make, check, measure and run plugins
    Plugin(plugin::PluginArguments),
}

fn main() -> ExitCode {
    // Before libtorch's threads exist. Where it does not work, decoding is slower and nothing else.
    let _ = whet_native::environment::wait_passively();
    whet_native::heap::keep_freed_memory();
    let done = match Arguments::parse().command {
        Command::Train(command) => train::run(command),
        Command::Eval(command) => eval::run(command),
        Command::Generate(command) => generate::run(command),
        Command::Export(command) => export::run(command),
        Command::Plot(command) => plot::run(command),
        Command::Score(command) => score::run(command),
        Command::Doctor(command) => doctor::run(command),
        Command::Recipe(command) => recipe::run(command),
        Command::Plugin(command) => plugin::run(command),
    };
    done.unwrap_or_else(|error| {
        if words::reader_left(&error) {
            return ExitCode::SUCCESS;
        }
        words::note(words::render(&error));
        ExitCode::FAILURE
    })
}
