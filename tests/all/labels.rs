//! `whet doctor` grades every label against itself, whatever form of answer a reward reads.

use crate::whet;
use serde_json::{Value, json};
use std::path::Path;

/// What the doctor says about the labels of these rows, and whether it found a problem.
fn examine(dir: &Path, plugin: &str, config: &str, rows: &[Value]) -> (bool, Vec<Value>) {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(dir.join("train.jsonl"), text).unwrap();
    let recipe = format!(
        "model = {:?}\n[data]\ntrain = \"train.jsonl\"\n[reward]\nplugin = {plugin:?}\nconfig = {config}\n",
        whet::tiny_model()
    );
    std::fs::write(dir.join("recipe.toml"), recipe).unwrap();
    let output = whet::run(dir, &["doctor", "recipe.toml", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = format!("`{plugin}`");
    let about = |f: &&Value| {
        f["subject"] == "data.train" && f["message"].as_str().is_some_and(|text| text.contains(&name))
    };
    let findings = said["findings"].as_array().unwrap().iter().filter(about).cloned().collect();
    (output.status.success(), findings)
}

fn labelled(labels: &[&str]) -> Vec<Value> {
    labels
        .iter()
        .enumerate()
        .map(|(i, label)| json!({"prompt": format!("Question {i}?"), "label": label}))
        .collect()
}

#[test]
fn every_standard_reward_reads_its_own_labels() {
    let dir = tempfile::tempdir().unwrap();
    let choices = json!(["iron", "zinc", "gold", "lead"]);
    let cases = [
        ("math-answer", "{}", labelled(&["42", "-7", "1/2"])),
        ("gsm8k", "{}", labelled(&["She sold 48 / 2 = 24.\n#### 72", "#### 1,000", "18"])),
        ("math", "{ answer_style = \"boxed\" }", labelled(&["\\frac{1}{2}", "x^2 + 1", "[0, 1)"])),
        ("math", "{ answer_style = \"answer_line\" }", labelled(&["42", "3.5"])),
        ("math", "{ answer_style = \"gsm8k\" }", labelled(&["42", "3.5"])),
        ("dapo", "{}", labelled(&["34", "-7"])),
        ("deepscaler", "{}", labelled(&["34", "\\sqrt{2}"])),
        ("geo3k", "{}", labelled(&["34", "12.5"])),
        ("openr1-multimodal", "{}", labelled(&["34", "B"])),
        ("f1", "{}", labelled(&["Ada Lovelace", "1843"])),
        ("multiple-choice", "{}", labelled(&["B", "D"])),
        (
            "gpqa",
            "{}",
            ["C", "A"]
                .map(|letter| json!({"prompt": "Which?", "label": letter, "choices": choices, "correct_letter": letter}))
                .to_vec(),
        ),
    ];
    for (plugin, config, rows) in cases {
        let (fine, findings) = examine(dir.path(), plugin, config, &rows);
        assert!(fine && findings.len() == 1, "{plugin} {config}: {findings:?}");
        assert_eq!(findings[0]["severity"], "fine", "{plugin} {config}: {findings:?}");
        let message = findings[0]["message"].as_str().unwrap();
        assert!(message.contains("each earns 1") || plugin == "gpqa", "{plugin} {config}: {message}");
    }
}

#[test]
fn rows_that_cannot_be_graded_are_all_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = labelled(&["1"; 10]);
    for row in &mut rows[3..] {
        row["label"] = json!("nobody knows");
    }
    let (fine, findings) = examine(dir.path(), "math-answer", "{}", &rows);
    assert!(!fine);
    let message = findings[0]["message"].as_str().unwrap();
    assert!(message.contains("cannot grade 7 of 10 rows") && message.contains("and 2 more"), "{message}");
    let lines: Vec<&str> =
        findings[0]["rows"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
    assert_eq!(lines.len(), 7);
    assert!(lines[0].ends_with("train.jsonl:4") && lines[6].ends_with("train.jsonl:10"), "{lines:?}");
}

#[test]
fn a_row_without_a_label_is_graded_too() {
    let dir = tempfile::tempdir().unwrap();
    let rows = ["punctuation:no_comma", "no:such_instruction"]
        .map(|id| json!({"prompt": "Write.", "instruction_id_list": [id], "kwargs": [{}]}));
    let (fine, findings) = examine(dir.path(), "ifeval", "{}", &rows);
    assert!(!fine);
    let message = findings[0]["message"].as_str().unwrap();
    assert!(message.contains("train.jsonl:2") && message.contains("no:such_instruction"), "{message}");
}

#[test]
fn that_no_row_has_a_label_is_told_only_where_no_reward_grades_what_the_rows_carry() {
    let dir = tempfile::tempdir().unwrap();
    let row = json!({"prompt": "Write.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]});
    for (plugin, config, told) in [("ifeval", "{}", false), ("length", "{ target = 5 }", true)] {
        examine(dir.path(), plugin, config, std::slice::from_ref(&row));
        let output = whet::run(dir.path(), &["doctor", "recipe.toml", "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.contains("no row has a label"), told, "{plugin}: {text}");
    }
}

#[test]
fn a_reward_that_reads_no_label_is_not_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let (fine, findings) = examine(dir.path(), "length", "{ target = 5 }", &labelled(&["a b", "c"]));
    assert!(fine);
    assert!(findings[0]["message"].as_str().unwrap().contains("does not look at labels"), "{findings:?}");
}
