//! The hub, played by a small server: what is fetched once is there without a network.
//!
//! Its address comes from the environment, so loading runs in processes of their own.

use super::{errors::says, fixtures, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use tch::{Device, Kind};
use whet_model::load;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret";

/// Serves the files of `folder` as the model `acme/tiny`, to those who show the token.
fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            std::thread::spawn(move || answer(stream, &folder));
        }
    });
    address
}

fn answer(mut stream: TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    loop {
        let request = lines.next()?.ok()?;
        let (mut range, mut allowed) = (None, false);
        for line in lines.by_ref() {
            let line = line.ok()?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("range", value)) => range = value.strip_prefix("bytes=").map(str::to_owned),
                Some(("authorization", value)) => allowed = value == format!("bearer {TOKEN}"),
                Some(_) => {}
                None => break,
            }
        }
        let path = request.split(' ').nth(1)?;
        let (status, body) = if !allowed {
            ("401 Unauthorized", Vec::new())
        } else if path == "/api/models/acme/tiny/revision/main" {
            let names: Vec<_> = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.file_name()).collect();
            let names = names.iter().map(|n| serde_json::json!({"rfilename": n.to_string_lossy()}));
            let about = serde_json::json!({"siblings": names.collect::<Vec<_>>(), "sha": COMMIT});
            ("200 OK", about.to_string().into_bytes())
        } else {
            let name = path.strip_prefix("/acme/tiny/resolve/main/");
            match name.and_then(|name| std::fs::read(folder.join(name)).ok()) {
                Some(bytes) => ("206 Partial Content", bytes),
                None => ("404 Not Found", Vec::new()),
            }
        };
        let total = body.len();
        let (from, to) = range.as_deref().and_then(|r| r.split_once('-')).unwrap_or(("0", ""));
        let from: usize = from.parse().ok()?;
        let to = to.parse::<usize>().map_or(total, |to| to + 1).min(total);
        let part = if status.starts_with("206") { &body[from.min(to)..to] } else { &body[..] };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{}/{total}\r\n\
             etag: \"{}\"\r\nx-repo-commit: {COMMIT}\r\n\r\n",
            part.len(),
            to.saturating_sub(1),
            path.replace('/', "-"),
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(part).ok()?;
    }
}

#[test]
fn a_model_is_fetched_once_and_then_loads_without_a_network() {
    if std::env::var_os("WHET_TEST_HUB").is_some() {
        match load("hf://acme/tiny", Kind::Float, Device::Cpu) {
            Ok(model) => println!("said: {} tensors, {:?}", model.weights.len(), model.template.is_some()),
            Err(error) => println!("said: {error}"),
        }
        return;
    }
    let folder = fixtures().join("qwen3_untied");
    let address = serve(&folder);
    let cache = tempfile::tempdir().unwrap();
    let this = std::thread::current().name().unwrap().to_owned();
    let run = |environment: &[(&str, &str)]| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &this, "--nocapture"])
            .env("WHET_TEST_HUB", "1")
            .env("HF_HOME", cache.path())
            .env_remove("HF_TOKEN")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = output.split("said: ").nth(1).unwrap_or_else(|| panic!("{output}"));
        said.lines().next().unwrap().to_owned()
    };
    says(&run(&[("HF_ENDPOINT", &address)]), &["acme/tiny", "gated", "HF_TOKEN"]);
    let parameters = &json(&folder.join("expected.json"))["grads_of_mean_loss"]["parameters"];
    let loaded = format!("{} tensors, true", parameters.as_object().unwrap().len());
    assert_eq!(run(&[("HF_ENDPOINT", &address), ("HF_TOKEN", TOKEN)]), loaded);
    assert_eq!(run(&[("HF_ENDPOINT", "http://127.0.0.1:9"), ("HF_HUB_OFFLINE", "1")]), loaded);
}
