//! The compiler's WebAssembly target, which plugins in Rust are built for.

use crate::workspace::{Workspace, output, run, say, succeeds};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// The target of guests: no operating system, so no clock, files or network by construction.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's newest compiler, with the standard library's source, from which the target can be built.
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld"];
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_SOURCE: &str = "/usr/lib/rustlib/src/rust/library/Cargo.lock";

/// Makes sure that plugins can be compiled. Returns false when they already could.
pub fn ensure(workspace: &Workspace) -> Result<bool> {
    if standard_library_is_installed(workspace) || debian_compiler_is_installed() {
        return Ok(false);
    }
    if succeeds(workspace.command("rustup").arg("--version")) {
        say("target", format!("rustup target add {TARGET}"));
        if run(workspace.command("rustup").args(["target", "add", TARGET])).is_ok() {
            return Ok(true);
        }
        say("target", "rustup could not fetch it");
    }
    if is_root(workspace) && succeeds(workspace.command("apt-get").arg("--version")) {
        say("target", format!("apt-get install {}", DEBIAN_PACKAGES.join(" ")));
        // Never at the price of a package that the user has.
        let install = ["install", "--yes", "--no-remove", "--no-install-recommends"];
        let installed = run(apt(workspace).arg("update"))
            .and_then(|()| run(apt(workspace).args(install).args(DEBIAN_PACKAGES)));
        if installed.is_ok() && debian_compiler_is_installed() {
            return Ok(true);
        }
    }
    bail!(
        "plugins in Rust need the {TARGET} target, and it could not be installed here. Either of these does it:\n\
         \x20 rustup target add {TARGET}\n\
         \x20 sudo apt-get install {}    (Debian 12 or later)",
        DEBIAN_PACKAGES.join(" ")
    )
}

/// Has a command that builds plugins use Debian's compiler where the pinned one lacks the target.
/// The plugin builder then builds the standard library from source.
pub fn choose_compiler(workspace: &Workspace, command: &mut Command) {
    if !standard_library_is_installed(workspace) && debian_compiler_is_installed() {
        command.env("CARGO", DEBIAN_CARGO).env("RUSTC", DEBIAN_RUSTC);
    }
}

/// Whether the pinned compiler has the target's standard library, whoever installed it.
fn standard_library_is_installed(workspace: &Workspace) -> bool {
    let printed = output(workspace.command("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    printed.is_ok_and(|folder| {
        std::fs::read_dir(folder.trim()).is_ok_and(|files| {
            files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
        })
    })
}

fn debian_compiler_is_installed() -> bool {
    [DEBIAN_CARGO, DEBIAN_RUSTC, DEBIAN_SOURCE].iter().all(|file| Path::new(file).exists())
}

fn is_root(workspace: &Workspace) -> bool {
    output(workspace.command("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn apt(workspace: &Workspace) -> Command {
    let mut command = workspace.command("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
    command
}
