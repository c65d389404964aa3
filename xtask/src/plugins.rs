//! `cargo xtask plugins`: every standard plugin, built into `plugins/dist/<name>.wasm`.

use crate::wasm_target::choose_compiler;
use crate::workspace::{Workspace, run as run_command, say};
use anyhow::Result;

/// Sets up, builds `whet` and with it the plugins.
pub fn run(workspace: &Workspace) -> Result<()> {
    crate::setup::run(workspace, &crate::setup::Options::default())?;
    workspace.build_whet()?;
    build_all(workspace)
}

/// Builds the plugins with the `whet` that is already built, as an author would.
pub fn build_all(workspace: &Workspace) -> Result<()> {
    say("plugins", "plugins/dist/*.wasm");
    let mut build = workspace.command(workspace.whet());
    build.args(["plugin", "build", "plugins", "--output", "plugins/dist"]);
    choose_compiler(workspace, &mut build);
    run_command(&mut build)
}
