//! Which cargo builds guests, and how: with an installed target, or with std built from source.

use crate::BuildError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What guests are built for: no WASI, hence no clock, files or sockets by construction.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Where a distribution puts its toolchain; rustup's is elsewhere.
const SYSTEM_CARGO: &str = "/usr/bin/cargo";
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// How to call cargo for guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The program.
    pub cargo: OsString,
    /// Arguments beyond `build --release --target …`.
    pub arguments: Vec<String>,
    /// Variables that the build needs.
    pub environment: Vec<(String, OsString)>,
}

impl Toolchain {
    /// The toolchain that is in force in `dir`; where that one cannot build for the target, the
    /// operating system's (Debian's `rustc-web`, `cargo-web`, `rust-web-src`).
    pub fn find(dir: &Path) -> Result<Self, BuildError> {
        let program = |name: &str, default: &str| std::env::var_os(name).unwrap_or_else(|| default.into());
        let in_force = Toolchain::of(dir, program("CARGO", "cargo"), program("RUSTC", "rustc"));
        let Err(error) = in_force else { return in_force };
        if !Path::new(SYSTEM_RUSTC).is_file() {
            return Err(error);
        }
        Toolchain::of(dir, SYSTEM_CARGO.into(), SYSTEM_RUSTC.into())
    }

    /// How one cargo and one rustc build for the target, if they can.
    fn of(dir: &Path, cargo: OsString, rustc: OsString) -> Result<Self, BuildError> {
        let ask = |arguments: &[&str]| -> Result<PathBuf, BuildError> {
            let output = Command::new(&rustc)
                .current_dir(dir)
                .args(arguments)
                .output()
                .map_err(|source| BuildError::Run { program: rustc.clone(), source })?;
            Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
        };
        if has_core(&ask(&["--print", "target-libdir", "--target", TARGET])?) {
            let environment = vec![("RUSTC".to_owned(), rustc)];
            return Ok(Toolchain { cargo, arguments: Vec::new(), environment });
        }
        let sysroot = ask(&["--print", "sysroot"])?;
        if !sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").is_file() {
            return Err(BuildError::NoTarget(TARGET));
        }
        let linker = linker(&sysroot)?;
        Ok(from_source(cargo, rustc, linker))
    }
}

/// Builds std with the guest. `RUSTC_BOOTSTRAP` lets a stable compiler do so.
fn from_source(cargo: OsString, rustc: OsString, linker: Option<OsString>) -> Toolchain {
    let mut environment =
        vec![("RUSTC".to_owned(), rustc), ("RUSTC_BOOTSTRAP".to_owned(), OsString::from("1"))];
    if let Some(linker) = linker {
        environment.push(("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER".to_owned(), linker));
    }
    Toolchain { cargo, arguments: vec!["-Zbuild-std=std,panic_abort".to_owned()], environment }
}

fn has_core(libdir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(libdir) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
}

/// The linker to name, or none where the toolchain brings its own (`rust-lld`).
fn linker(sysroot: &Path) -> Result<Option<OsString>, BuildError> {
    let brings_own = std::fs::read_dir(sysroot.join("lib/rustlib"))
        .is_ok_and(|hosts| hosts.flatten().any(|h| h.path().join("bin/rust-lld").is_file()));
    if brings_own {
        return Ok(None);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Distributions install `wasm-ld` with or without LLVM's version behind it.
    let found = std::env::split_paths(&path).find_map(|folder| {
        let plain = folder.join("wasm-ld");
        if plain.is_file() {
            return Some(plain);
        }
        let mut versioned: Vec<PathBuf> = std::fs::read_dir(&folder)
            .ok()?
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().starts_with("wasm-ld-"))
            .map(|e| e.path())
            .collect();
        versioned.sort();
        versioned.pop()
    });
    found.map(|l| Some(l.into_os_string())).ok_or(BuildError::NoLinker(TARGET))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_target_std_is_built_and_the_linker_named() {
        let toolchain = from_source("cargo".into(), "rustc".into(), Some("wasm-ld-19".into()));
        assert_eq!(toolchain.arguments, ["-Zbuild-std=std,panic_abort"]);
        let names: Vec<&str> = toolchain.environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["RUSTC", "RUSTC_BOOTSTRAP", "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER"]);
    }

    #[test]
    fn an_empty_folder_holds_no_target() {
        assert!(!has_core(Path::new("/nonexistent")));
    }
}
