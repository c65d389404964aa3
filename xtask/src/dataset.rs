//! The quickstart's data: made here from fixed seeds and committed under `recipes/data`.
//!
//! Train and test share no set of numbers, in whatever order they are asked, so what a model
//! answers on the test split it cannot have memorised.

use crate::workspace::{Workspace, say};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Rows of the train split.
const TRAIN_ROWS: usize = 2400;
/// Rows of the test split.
const TEST_ROWS: usize = 300;

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    prompt: String,
    label: String,
    /// The numbers in it, sorted: rows with equal numbers count as the same question.
    numbers: Vec<u64>,
}

/// A kind of question.
struct Task {
    name: &'static str,
    seed: u64,
    row: fn(&mut SplitMix64) -> Row,
}

const TASKS: [Task; 2] = [
    Task { name: "largest", seed: 20_260_101, row: largest },
    Task { name: "last", seed: 20_260_102, row: last },
];

/// Four different two-digit numbers; the answer is the largest.
fn largest(random: &mut SplitMix64) -> Row {
    let numbers = four_numbers(random);
    let label = numbers.iter().copied().max().unwrap_or_default();
    row("Largest of", numbers, label)
}

/// Four different two-digit numbers; the answer is the last.
fn last(random: &mut SplitMix64) -> Row {
    let numbers = four_numbers(random);
    let label = numbers[3];
    row("Last of", numbers, label)
}

fn four_numbers(random: &mut SplitMix64) -> [u64; 4] {
    loop {
        let numbers = [(); 4].map(|()| 10 + random.below(90));
        if BTreeSet::from(numbers).len() == 4 {
            return numbers;
        }
    }
}

fn row(verb: &str, numbers: [u64; 4], label: u64) -> Row {
    let [a, b, c, d] = numbers;
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    Row { prompt: format!("{verb} {a}, {b}, {c}, {d}"), label: label.to_string(), numbers: sorted }
}

/// Both splits of a task, which depend on nothing but its seed.
fn splits(task: &Task) -> (Vec<Row>, Vec<Row>) {
    let mut random = SplitMix64(task.seed);
    let mut seen = BTreeSet::new();
    let mut rows = Vec::with_capacity(TRAIN_ROWS + TEST_ROWS);
    while rows.len() < TRAIN_ROWS + TEST_ROWS {
        let row = (task.row)(&mut random);
        if seen.insert(row.numbers.clone()) {
            rows.push(row);
        }
    }
    let test = rows.split_off(TRAIN_ROWS);
    (rows, test)
}

/// One JSON object a line, as recipes read it. The texts hold nothing that JSON would escape.
fn jsonl(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let _ = writeln!(text, "{{\"prompt\": \"{}\", \"label\": \"{}\"}}", row.prompt, row.label);
    }
    text
}

/// Writes `recipes/data/<task>.{train,test}.jsonl`.
pub fn write(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root.join("recipes/data");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for task in &TASKS {
        let (train, test) = splits(task);
        for (split, rows) in [("train", train), ("test", test)] {
            let path = folder.join(format!("{}.{split}.jsonl", task.name));
            std::fs::write(&path, jsonl(&rows)).with_context(|| format!("writing {}", path.display()))?;
            say("wrote", format!("{} ({} rows)", path.display(), rows.len()));
        }
    }
    Ok(())
}

/// Steele, Lea and Flood's generator (OOPSLA 2014): a few lines, and the same numbers for ever.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; for such small `n` the bias is below 1e-17.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn train_and_test_share_no_set_of_numbers() {
        for task in &TASKS {
            let (train, test) = splits(task);
            assert_eq!((train.len(), test.len()), (TRAIN_ROWS, TEST_ROWS));
            let asked: BTreeSet<_> = train.iter().map(|row| &row.numbers).collect();
            assert_eq!(asked.len(), TRAIN_ROWS);
            assert!(test.iter().all(|row| !asked.contains(&row.numbers)), "{}", task.name);
        }
    }

    #[test]
    fn every_label_is_the_right_answer() {
        for row in splits(&TASKS[0]).0 {
            assert_eq!(row.label, row.numbers[3].to_string(), "{}", row.prompt);
        }
        for row in splits(&TASKS[1]).0 {
            assert!(row.prompt.ends_with(&format!(", {}", row.label)), "{}", row.prompt);
        }
    }

    #[test]
    fn the_committed_files_are_what_the_generator_writes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes/data");
        for task in &TASKS {
            let (train, test) = splits(task);
            for (split, rows) in [("train", train), ("test", test)] {
                let path = folder.join(format!("{}.{split}.jsonl", task.name));
                let committed = std::fs::read_to_string(&path).unwrap();
                assert!(committed == jsonl(&rows), "{} is stale: run `cargo xtask data`", path.display());
            }
        }
    }
}
