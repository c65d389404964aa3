//! Models from the Hugging Face hub, through its cache.
//!
//! `HF_TOKEN` (or the file that `hf auth login` writes) opens gated models, `HF_HOME` moves the
//! cache, `HF_ENDPOINT` names a mirror, `HF_HUB_OFFLINE` forbids the network.

use crate::error::ModelError;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long nothing may arrive before a download is given up; the client itself would wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);
const ENDPOINT: &str = "https://huggingface.co";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const REQUIRED: [&str; 2] = ["config.json", "tokenizer.json"];
const OPTIONAL: [&str; 4] =
    ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"];

/// Brings a model into the cache and returns its folder there.
///
/// What the cache holds is not fetched again; with everything there, no network is needed.
///
/// # Errors
/// When the name is malformed, or the hub cannot be reached, refuses, or does not have the model.
pub fn fetch(name: &str) -> Result<PathBuf, ModelError> {
    let (id, revision) = name.split_once('@').unwrap_or((name, "main"));
    let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
    let failed =
        |reason: String| ModelError::Hub { model: name.to_owned(), endpoint: endpoint.clone(), reason };
    let parts: Vec<&str> = id.split('/').collect();
    if parts.len() != 2 || parts.iter().any(|p| p.is_empty() || p.starts_with('.')) || revision.is_empty() {
        return Err(failed("a model is named `hf://org/name` or `hf://org/name@revision`".into()));
    }
    let repo = Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned());
    let cache = Cache::from_env();
    if let Some(folder) = cached(&cache.repo(repo.clone())) {
        return Ok(folder);
    }
    if variable("HF_HUB_OFFLINE").is_some_and(|v| v != "0") {
        return Err(failed(
            "HF_HUB_OFFLINE is set and the model is not complete in the cache; unset it, or name a folder or a `.gguf` file"
                .into(),
        ));
    }
    let arriving = cache.path().join(repo.folder_name()).join("blobs");
    let api = api(cache, &endpoint).map_err(|e| failed(reason(&e)))?.repo(repo);
    watched(api, &arriving, PATIENCE).map_err(failed)
}

/// [`download`] on a thread of its own, given up when nothing has arrived in the folder `arriving` for as long as
/// `patience`. What did arrive stays there, and the next attempt goes on from it.
fn watched(repo: ApiRepo, arriving: &Path, patience: Duration) -> Result<PathBuf, String> {
    let (done, result) = channel();
    let work = move || drop(done.send(download(&repo)));
    let thread = std::thread::Builder::new().name("whet-hub".into()).spawn(work);
    thread.map_err(|e| format!("cannot start a thread: {e}"))?;
    let (mut size, mut since) = (bytes_in(arriving), Instant::now());
    loop {
        match result.recv_timeout(patience.min(Duration::from_secs(1))) {
            Ok(folder) => return folder.map_err(|e| reason(&e)),
            Err(RecvTimeoutError::Disconnected) => return Err("the download ended without a result".into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = bytes_in(arriving);
        if now != size {
            (size, since) = (now, Instant::now());
        } else if since.elapsed() >= patience {
            return Err(format!(
                "nothing has arrived for {} s; try again (it goes on from what is there), or set HF_ENDPOINT to a mirror that answers",
                patience.as_secs()
            ));
        }
    }
}

/// Bytes of the files in a folder; 0 where there is none.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn api(cache: Cache, endpoint: &str) -> Result<Api, ApiError> {
    let mut builder = ApiBuilder::from_cache(cache).with_endpoint(endpoint.to_owned()).with_retries(2);
    if let Some(token) = variable("HF_TOKEN") {
        builder = builder.with_token(Some(token));
    }
    builder.with_progress(std::io::IsTerminal::is_terminal(&std::io::stderr())).build()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// The model's folder in the cache, when it is complete.
fn cached(repo: &CacheRepo) -> Option<PathBuf> {
    let config = repo.get(REQUIRED[0])?;
    let folder = config.parent()?.to_owned();
    let there = |name: &str| repo.get(name).is_some();
    let complete = REQUIRED.iter().all(|name| there(name))
        && match repo.get(INDEX) {
            Some(index) => shards(&index).is_some_and(|shards| shards.iter().all(|s| there(s))),
            None => there(SINGLE),
        };
    complete.then_some(folder)
}

fn shards(index: &Path) -> Option<Vec<String>> {
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(index).ok()?).ok()?;
    let map = index.get("weight_map")?.as_object()?;
    let mut shards: Vec<String> = map.values().filter_map(|v| v.as_str().map(str::to_owned)).collect();
    shards.sort();
    shards.dedup();
    Some(shards)
}

fn download(repo: &ApiRepo) -> Result<PathBuf, ApiError> {
    let listed: Vec<String> = repo.info()?.siblings.into_iter().map(|s| s.rfilename).collect();
    let has = |name: &str| listed.iter().any(|l| l == name);
    // The largest files last, so that a wrong architecture or a missing tokenizer shows early.
    for name in REQUIRED.iter().chain(OPTIONAL.iter().filter(|name| has(name))) {
        repo.get(name)?;
    }
    if has(INDEX) {
        let index = repo.get(INDEX)?;
        for shard in shards(&index).unwrap_or_default() {
            repo.get(&shard)?;
        }
    } else {
        repo.get(SINGLE)?;
    }
    let config = repo.get(REQUIRED[0])?;
    Ok(config.parent().map(Path::to_owned).unwrap_or_default())
}

fn reason(error: &ApiError) -> String {
    let text = error.to_string();
    let ApiError::RequestError(request) = error else { return text };
    match request.as_ref() {
        ureq_error if ureq_error.to_string().contains("status code 401") => {
            "no such model, or it is gated or private; check the name, and set HF_TOKEN if it needs one"
                .into()
        }
        ureq_error if ureq_error.to_string().contains("status code 403") => {
            "access is refused; accept the model's terms on its page and set HF_TOKEN".into()
        }
        ureq_error if ureq_error.to_string().contains("status code 404") => {
            format!("the model, the revision or one of its files does not exist ({text})")
        }
        _ => format!(
            "{text}; without a network, name a folder or a `.gguf` file, or set HF_ENDPOINT to a mirror that can be reached"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// What a hub says that answers and then falls silent, at whichever point.
    fn outcome(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
                open.push(stream);
            }
        });
        let folder = std::env::temp_dir().join(format!("whet-hub-{}-{}", std::process::id(), answer.len()));
        let cache = Cache::new(folder.clone());
        let repo = Repo::new("org/name".into(), RepoType::Model);
        let api = api(cache, &endpoint).expect("a client").repo(repo);
        let outcome = watched(api, &folder, Duration::from_millis(200)).expect_err("a silent hub");
        let _ = std::fs::remove_dir_all(folder);
        outcome
    }

    #[test]
    fn a_hub_that_falls_silent_is_given_up_with_a_remedy() {
        for answer in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"] {
            let outcome = outcome(answer);
            assert!(outcome.contains("nothing has arrived") && outcome.contains("HF_ENDPOINT"), "{outcome}");
        }
    }
}
