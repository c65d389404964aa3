//! Peers' own numbers: every formula of theirs that Whet has, values and gradients.
//!
//! A file under `fixtures/golden` (or the directory that `WHET_GOLDEN_DIR` names) holds cases that a
//! peer's code computed. A file is understood by its name; a name that is not known fails the test.

// `x *= y` would change tensors in place that a gradient may still need.
#![allow(clippy::assign_op_pattern)]

mod advantages;
mod areal_losses;
mod corrections;
mod distillation;
mod divergences;
mod format;
mod losses;
mod nemo_losses;
mod policy_losses;
mod token_advantages;
mod value_losses;

use format::{Case, Check};
use std::path::PathBuf;

/// How a file's cases are computed here.
fn check(name: &str) -> Option<Check> {
    advantages::check(name)
        .or_else(|| token_advantages::check(name))
        .or_else(|| losses::check(name))
        .or_else(|| policy_losses::check(name))
        .or_else(|| areal_losses::check(name))
        .or_else(|| nemo_losses::check(name))
        .or_else(|| value_losses::check(name))
        .or_else(|| divergences::check(name))
        .or_else(|| distillation::check(name))
        .or_else(|| corrections::check(name))
}

/// Formulas that have no counterpart yet.
fn waits(name: &str) -> bool {
    // Diffusion models are not trained yet.
    name.starts_with("flow_") || WAITING.contains(&name)
}

const WAITING: &[&str] = &[];

fn directory() -> PathBuf {
    std::env::var_os("WHET_GOLDEN_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/golden")), PathBuf::from)
}

#[test]
fn every_formula_gives_the_peers_numbers() {
    tch::set_num_threads(1);
    let directory = directory();
    let mut names: Vec<String> = std::fs::read_dir(&directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{} has no golden files", directory.display());
    let (mut failures, mut cases, mut waiting) = (Vec::new(), 0, 0);
    for name in &names {
        if waits(name) {
            waiting += 1;
            continue;
        }
        let Some(check) = check(name) else {
            failures.push(format!("{name}: no formula of this name is known"));
            continue;
        };
        for case in format::read(&directory.join(format!("{name}.json"))) {
            cases += 1;
            let compared = std::panic::catch_unwind(|| case.compare(name, check));
            match compared {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => failures.push(format!("{name} {}: {reason}", case.id)),
                Err(_) => failures.push(format!("{name} {}: panicked", case.id)),
            }
        }
    }
    eprintln!("{cases} cases of {} files, {waiting} files wait", names.len() - waiting);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_wrong_number_is_noticed() {
    let case = Case::example();
    assert!(
        case.compare("example", |_| Ok(vec![("loss".into(), vec![1.0]), ("grad".into(), vec![0.5, 0.0])]))
            .is_ok()
    );
    for wrong in [vec![0.5, 1e-5], vec![0.5001, 0.0], vec![0.5], vec![f64::NAN, 0.0]] {
        let compared =
            case.compare("example", |_| Ok(vec![("loss".into(), vec![1.0]), ("grad".into(), wrong.clone())]));
        assert!(compared.is_err(), "{wrong:?} passed for [0.5, 0.0]");
    }
    let missing = case.compare("example", |_| Ok(vec![("loss".into(), vec![1.0])]));
    assert!(missing.expect_err("`grad` was not computed").contains("grad"));
}
