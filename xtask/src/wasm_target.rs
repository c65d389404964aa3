//! The compiler's WebAssembly target, which plugins in Rust are built for.

use crate::workspace::{Workspace, output, run, say, succeeds};
use anyhow::{Result, bail};
use std::path::Path;

/// The target of guests: no operating system, so no clock, files or network by construction.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's compiler with the standard library's source, from which the target can be built.
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld"];

/// Makes sure that plugins can be compiled. Returns false when they already could.
pub fn ensure(workspace: &Workspace) -> Result<bool> {
    if standard_library_is_installed(workspace) || debian_source_is_installed() {
        return Ok(false);
    }
    let has_rustup = succeeds(workspace.command("rustup").arg("--version"));
    if has_rustup {
        say("target", format!("rustup target add {TARGET}"));
        if run(workspace.command("rustup").args(["target", "add", TARGET])).is_ok() {
            return Ok(true);
        }
        say("target", "rustup could not fetch it");
    }
    if is_root(workspace) && succeeds(workspace.command("apt-get").arg("--version")) {
        say("target", format!("apt-get install {}", DEBIAN_PACKAGES.join(" ")));
        let installed = run(apt(workspace).arg("update")).and_then(|()| {
            run(apt(workspace).args(["install", "--yes", "--no-install-recommends"]).args(DEBIAN_PACKAGES))
        });
        if installed.is_ok() && debian_source_is_installed() {
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

/// Whether the pinned compiler has the target's standard library, whoever installed it.
fn standard_library_is_installed(workspace: &Workspace) -> bool {
    let printed = output(workspace.command("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    printed.is_ok_and(|folder| {
        std::fs::read_dir(folder.trim()).is_ok_and(|files| {
            files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
        })
    })
}

/// Whether Debian's packages are there; the plugin builder then builds the standard library itself.
fn debian_source_is_installed() -> bool {
    Path::new("/usr/share/doc/rust-web-src").exists() && Path::new("/usr/share/doc/rustc-web").exists()
}

fn is_root(workspace: &Workspace) -> bool {
    output(workspace.command("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn apt(workspace: &Workspace) -> std::process::Command {
    let mut command = workspace.command("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
    command
}
