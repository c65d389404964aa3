//! Running the built `whet` as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use whet_observe::SampleRecord;

/// The program that `cargo build --release -p whet-cli` made.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("whet");
    assert!(program.exists(), "{} is missing: cargo build --release -p whet-cli", program.display());
    program
}

/// The model with 3 layers and random weights that small runs train.
pub fn tiny_model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/llama")
}

/// `whet` with arguments, in a folder, in an environment that no user setting disturbs.
pub fn whet(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(dir).env("OMP_NUM_THREADS", "1").env_remove("WHET_PLUGINS_DIR");
    command
}

/// Runs `whet` to its end.
pub fn run(dir: &Path, arguments: &[&str]) -> Output {
    whet(dir, arguments).output().unwrap()
}

/// Runs `whet`, which must succeed, and returns what it printed.
pub fn succeed(dir: &Path, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "whet {arguments:?}: {}\n{error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Builds `<name>.wasm` in `dir` from a plugin's source.
pub fn guest(dir: &Path, name: &str, source: &str) {
    let folder = dir.join(name);
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/rust").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\nwhet-plugin = {{ path = {sdk:?} }}\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/lib.rs"), source).unwrap();
    succeed(dir, &["plugin", "build", name, "--output", &format!("{name}.wasm")]);
}

/// A folder with data files, and a recipe for the tiny model whose reward can be learnt in a few steps:
/// twelve tokens of at most 20 characters together.
pub fn tiny_run(changes: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let rows = |range: std::ops::Range<u32>| {
        range.map(|i| format!("{{\"prompt\": \"Say {i}:\", \"label\": \"{i}\"}}\n")).collect::<String>()
    };
    std::fs::write(dir.path().join("train.jsonl"), rows(0..24)).unwrap();
    std::fs::write(dir.path().join("test.jsonl"), rows(100..106)).unwrap();
    let mut recipe = format!(
        r#"seed = 3
model = "{}"
[data]
train = "train.jsonl"
test = "test.jsonl"
prompt-format = "raw"
[reward]
plugin = "length"
config = {{ target = 20, unit = "characters", mode = "at-most" }}
[rollout]
prompts-per-step = 4
samples-per-prompt = 8
max-tokens = 12
[train]
steps = 8
learning-rate = 0.01
[eval]
temperature = 1.0
[run]
dir = "run"
checkpoint-every = 2
"#,
        tiny_model().display()
    );
    for (from, to) in changes {
        assert!(recipe.contains(from), "{from}");
        recipe = recipe.replace(from, to);
    }
    std::fs::write(dir.path().join("recipe.toml"), recipe).unwrap();
    dir
}

/// The samples of all steps of a run, in order.
pub fn trajectories(run: &Path) -> Vec<SampleRecord> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(run.join("trajectories")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let text: String = files.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
