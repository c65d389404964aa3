//! `whet plugin new`: a project that builds, with tests that pass.

use crate::words::out;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `whet plugin new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The plugin's name: lower-case letters, digits and `-`. A path puts the project elsewhere.
    name: PathBuf,
    /// What the plugin does.
    #[arg(long, value_enum, default_value_t = Kind::Reward)]
    kind: Kind,
    /// What it is written in.
    #[arg(long, value_enum, default_value_t = Lang::Rust)]
    lang: Lang,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Score responses.
    Reward,
    /// Choose rows and groups.
    Filter,
    /// Turn rewards into advantages.
    Advantage,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lang {
    /// Small and fast.
    Rust,
    /// With CPython in the component.
    Python,
    /// JavaScript, with SpiderMonkey in the component.
    Js,
    /// Without a library to speak of.
    C,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Reward => "reward",
            Kind::Filter => "filter",
            Kind::Advantage => "advantage",
        }
    }

    fn summary(self) -> &'static str {
        match self {
            Kind::Reward => "1 when the response contains the label as a word of its own.",
            Kind::Filter => "Drops groups in which most rewards are missing.",
            Kind::Advantage => "The reward less the mean of its group.",
        }
    }

    /// The example's class, where a language needs its name.
    fn class(self) -> &'static str {
        match self {
            Kind::Reward => "Contains",
            Kind::Filter => "Complete",
            Kind::Advantage => "Centred",
        }
    }
}

/// A file of a project: its path and its text.
type ProjectFile = (&'static str, &'static str);

impl Lang {
    /// The project's files, manifest first.
    fn files(self, kind: Kind) -> Vec<ProjectFile> {
        match (self, kind) {
            (Lang::Rust, kind) => {
                let source = match kind {
                    Kind::Reward => include_str!("templates/rust/reward.rs"),
                    Kind::Filter => include_str!("templates/rust/filter.rs"),
                    Kind::Advantage => include_str!("templates/rust/advantage.rs"),
                };
                vec![("Cargo.toml", include_str!("templates/rust/Cargo.toml.txt")), ("src/lib.rs", source)]
            }
            (Lang::Python, kind) => {
                let (source, test) = match kind {
                    Kind::Reward => (
                        include_str!("templates/python/reward.py"),
                        include_str!("templates/python/reward_test.py"),
                    ),
                    Kind::Filter => (
                        include_str!("templates/python/filter.py"),
                        include_str!("templates/python/filter_test.py"),
                    ),
                    Kind::Advantage => (
                        include_str!("templates/python/advantage.py"),
                        include_str!("templates/python/advantage_test.py"),
                    ),
                };
                let manifest = include_str!("templates/python/pyproject.toml");
                vec![("pyproject.toml", manifest), ("plugin.py", source), ("test_plugin.py", test)]
            }
            (Lang::Js, kind) => {
                let (source, test) = match kind {
                    Kind::Reward => (
                        include_str!("templates/javascript/reward.js"),
                        include_str!("templates/javascript/reward.test.js"),
                    ),
                    Kind::Filter => (
                        include_str!("templates/javascript/filter.js"),
                        include_str!("templates/javascript/filter.test.js"),
                    ),
                    Kind::Advantage => (
                        include_str!("templates/javascript/advantage.js"),
                        include_str!("templates/javascript/advantage.test.js"),
                    ),
                };
                let manifest = include_str!("templates/javascript/package.json");
                vec![("package.json", manifest), ("plugin.js", source), ("plugin.test.js", test)]
            }
            (Lang::C, kind) => {
                let [source, logic, test] = match kind {
                    Kind::Reward => [
                        include_str!("templates/c/reward.c"),
                        include_str!("templates/c/reward.h"),
                        include_str!("templates/c/reward_test.c"),
                    ],
                    Kind::Filter => [
                        include_str!("templates/c/filter.c"),
                        include_str!("templates/c/filter.h"),
                        include_str!("templates/c/filter_test.c"),
                    ],
                    Kind::Advantage => [
                        include_str!("templates/c/advantage.c"),
                        include_str!("templates/c/advantage.h"),
                        include_str!("templates/c/advantage_test.c"),
                    ],
                };
                let manifest = include_str!("templates/c/plugin.toml");
                vec![
                    ("plugin.toml", manifest),
                    ("plugin.c", source),
                    ("logic.h", logic),
                    ("logic_test.c", test),
                ]
            }
        }
    }

    /// How the project's own tests are run.
    fn test_command(self) -> &'static str {
        match self {
            Lang::Rust => "cargo test",
            Lang::Python => "pip install -e . && python3 -m unittest",
            Lang::Js => "npm install && npm test",
            Lang::C => "cc -o logic_test logic_test.c && ./logic_test",
        }
    }

    fn ignored(self) -> &'static str {
        match self {
            Lang::Rust => "/target\n/dist\n",
            Lang::Python => "/dist\n__pycache__/\n*.egg-info/\n/build\n",
            Lang::Js => "/dist\n/node_modules\n",
            Lang::C => "/dist\n/logic_test\n",
        }
    }

    /// The SDK as the manifest names it: that of the checkout that this program was built in, else the
    /// published one of this version.
    fn dependency(self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let checkout = |folder: &str| {
            let program = std::env::current_exe().ok()?.canonicalize().ok()?;
            let sdk = |dir: &Path| dir.join("sdk").join(folder);
            program.ancestors().map(sdk).find(|sdk| sdk.is_dir())
        };
        match self {
            // A TOML literal string: backslashes stay as they are.
            Lang::Rust => match checkout("rust") {
                Some(sdk) => format!("{{ path = '{}' }}", sdk.display()),
                None => format!("\"{version}\""),
            },
            Lang::Python => match checkout("python") {
                Some(sdk) => format!("whet-plugin @ file://{}", sdk.display()),
                None => format!("whet-plugin == {version}"),
            },
            Lang::Js => match checkout("js") {
                Some(sdk) => format!("file:{}", sdk.display()),
                None => version.to_owned(),
            },
            Lang::C => String::new(),
        }
    }
}

/// Writes the project.
pub fn run(args: &NewArgs) -> Result<ExitCode> {
    let (dir, lang, kind) = (&args.name, args.lang, args.kind);
    let name = dir.file_name().context("give the plugin a name")?.to_string_lossy();
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ensure!(
        starts_well && name.chars().all(is_name) && !name.ends_with('-'),
        "`{name}` is no plugin name: use lower-case letters, digits and `-`, a letter first"
    );
    if matches!(lang, Lang::Rust) && matches!(&*name, "test" | "core" | "std" | "alloc" | "proc-macro") {
        bail!("`{name}` is the name of one of Rust's own crates: choose another");
    }
    ensure!(name != "whet-plugin", "`{name}` is the name of the SDK: choose another");
    ensure!(!dir.exists(), "{} exists already", dir.display());

    let files = lang.files(kind);
    let dependency = lang.dependency();
    for (index, (path, text)) in files.iter().enumerate() {
        // Only the manifest comes first, and only it has places to fill.
        let text = if index == 0 {
            text.replace("{{name}}", &name)
                .replace("{{summary}}", kind.summary())
                .replace("{{kind}}", kind.name())
                .replace("{{class}}", kind.class())
                .replace("{{dependency}}", &dependency)
        } else {
            (*text).to_owned()
        };
        write(&dir.join(path), &text)?;
    }
    write(&dir.join(".gitignore"), lang.ignored())?;
    let test = lang.test_command();
    let (folder, width) = (dir.display(), test.len().max(38));
    out(format!(
        "{folder} is ready. Next:\n  cd {folder}\n  \
         {test:width$}  # its logic, natively\n  \
         {build:width$}  # dist/{name}.wasm\n  \
         whet plugin inspect dist/{name}.wasm",
        build = "whet plugin build",
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}
