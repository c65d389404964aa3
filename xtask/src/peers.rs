//! Other frameworks, to be measured beside Whet: a Python environment in `.venv-peers`, and a
//! conversation of JSON lines with a program in `xtask/peers`.

use crate::workspace::{Workspace, output, run, say, succeeds, words};
use crate::{libtorch, model};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Packages with all they depend on; none of these asks for torch.
const WITH_DEPENDENCIES: [&str; 15] = [
    "transformers==5.19.0",
    "datasets==5.2.0",
    "gguf==0.19.0",
    "math-verify==0.9.0",
    "numpy",
    "psutil",
    "pyyaml",
    "safetensors",
    "packaging",
    "filelock",
    "typing-extensions",
    "sympy",
    "networkx",
    "jinja2",
    "setuptools<82",
];

/// Packages whose dependencies would pull in gigabytes of CUDA libraries.
const ALONE: [&str; 5] = [
    "torch==2.11.0",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cupti==13.0.85",
    "accelerate==1.15.0",
    "trl==1.16.0",
];

/// The environment, and the model as a folder that every program reads.
pub struct Peers {
    python: PathBuf,
    scripts: PathBuf,
    /// The benchmark's model in Hugging Face layout, bf16.
    pub model: PathBuf,
}

/// Installs the peers where they are not installed yet (about 800 MB to fetch).
pub fn ensure(workspace: &Workspace) -> Result<Peers> {
    let venv = workspace.root.join(".venv-peers");
    let python = venv.join("bin/python");
    let scripts = workspace.root.join("xtask/peers");
    let peers = Peers { python, scripts, model: venv.join("model") };
    let finished = venv.join("installed");
    let versions = [WITH_DEPENDENCIES.join("\n"), ALONE.join("\n"), libtorch::VERSION.into()].join("\n");
    if std::fs::read_to_string(&finished).is_ok_and(|text| text == versions) {
        return Ok(peers);
    }
    say("peers", format!("transformers, TRL and math-verify into {}", venv.display()));
    if !peers.python.exists() {
        run(workspace.command("python3").args(["-m", "venv"]).arg(&venv)).with_context(
            || "creating a Python environment (Debian and Ubuntu: `apt-get install python3-venv`)",
        )?;
    }
    let pip = |more: &[&str]| {
        let mut pip = workspace.command(&peers.python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]).args(more);
        run(&mut pip)
    };
    pip(&WITH_DEPENDENCIES)?;
    pip(&[&["--no-deps"], ALONE.as_slice()].concat())?;
    let site = output(
        workspace
            .command(&peers.python)
            .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]),
    )?;
    run(workspace.command(&peers.python).arg(peers.scripts.join("stub_cuda.py")).arg(site.trim())).context(
        "a C compiler and readelf are needed (Debian and Ubuntu: `apt-get install build-essential`)",
    )?;
    if !succeeds(
        workspace.command(&peers.python).args(["-c", "import torch, transformers, trl, math_verify"]),
    ) {
        bail!(
            "the peers were installed into {}, but `import torch, transformers, trl, math_verify` fails there",
            venv.display()
        );
    }
    let gguf = model::gguf(workspace)?;
    run(workspace
        .command(&peers.python)
        .arg(peers.scripts.join("prepare_model.py"))
        .arg(gguf)
        .arg(&peers.model))?;
    std::fs::write(&finished, versions).with_context(|| format!("writing {}", finished.display()))?;
    Ok(peers)
}

/// A running peer that does one repetition per request.
pub struct Peer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    name: String,
}

impl Peers {
    /// Starts a program of `xtask/peers` and waits until it has loaded what it needs.
    pub fn start(&self, workspace: &Workspace, script: &str, args: &[&Path]) -> Result<Peer> {
        let mut command = workspace.command(&self.python);
        command.arg(self.scripts.join(script)).args(args);
        // Their default spins in libgomp, which slows whoever has the turn on a small machine.
        command
            .env("OMP_WAIT_POLICY", "PASSIVE")
            .env("HF_HUB_OFFLINE", "1")
            .env("TOKENIZERS_PARALLELISM", "false");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", words(&command)))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("standard output was asked for")?);
        let mut peer = Peer { child, requests, answers, name: script.into() };
        peer.answer()?;
        Ok(peer)
    }
}

impl Peer {
    /// One repetition.
    pub fn ask(&mut self, request: &Value) -> Result<Value> {
        let requests = self.requests.as_mut().context("the peer takes requests until it is dropped")?;
        writeln!(requests, "{request}").with_context(|| format!("asking {}", self.name))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).with_context(|| format!("reading from {}", self.name))?;
        if line.is_empty() {
            bail!("{} ended without an answer; its error stands above", self.name);
        }
        serde_json::from_str(&line).with_context(|| format!("{} answered {line:?}", self.name))
    }
}

impl Drop for Peer {
    /// Closing its input ends the program; it is stopped should it not listen.
    fn drop(&mut self) {
        drop(self.requests.take());
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
