//! The quickstart's data: made here from a fixed seed and committed under `recipes/data`.
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

/// What both splits depend on.
const SEED: u64 = 20_260_101;

/// Four different two-digit numbers; the answer is the largest.
fn largest(random: &mut SplitMix64) -> Row {
    let [a, b, c, d] = four_numbers(random);
    let mut numbers = vec![a, b, c, d];
    numbers.sort_unstable();
    Row { prompt: format!("Largest of {a}, {b}, {c}, {d}"), label: numbers[3].to_string(), numbers }
}

fn four_numbers(random: &mut SplitMix64) -> [u64; 4] {
    loop {
        let numbers = [(); 4].map(|()| 10 + random.below(90));
        if BTreeSet::from(numbers).len() == 4 {
            return numbers;
        }
    }
}

/// The train and the test split.
fn splits() -> (Vec<Row>, Vec<Row>) {
    let mut random = SplitMix64(SEED);
    let mut seen = BTreeSet::new();
    let mut rows = Vec::with_capacity(TRAIN_ROWS + TEST_ROWS);
    while rows.len() < TRAIN_ROWS + TEST_ROWS {
        let row = largest(&mut random);
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

/// Writes `recipes/data/largest.{train,test}.jsonl`.
pub fn write(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root.join("recipes/data");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let (train, test) = splits();
    for (split, rows) in [("train", train), ("test", test)] {
        let path = folder.join(format!("largest.{split}.jsonl"));
        std::fs::write(&path, jsonl(&rows)).with_context(|| format!("writing {}", path.display()))?;
        say("wrote", format!("{} ({} rows)", path.display(), rows.len()));
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
        let (train, test) = splits();
        assert_eq!((train.len(), test.len()), (TRAIN_ROWS, TEST_ROWS));
        let asked: BTreeSet<_> = train.iter().map(|row| &row.numbers).collect();
        assert_eq!(asked.len(), TRAIN_ROWS);
        assert!(test.iter().all(|row| !asked.contains(&row.numbers)));
    }

    #[test]
    fn every_label_is_the_right_answer() {
        for row in splits().0 {
            let asked = row.prompt.trim_start_matches("Largest of ").split(", ");
            let largest = asked.map(|number| number.parse::<u64>().unwrap()).max();
            assert_eq!(largest, row.label.parse().ok(), "{}", row.prompt);
        }
    }

    #[test]
    fn the_committed_files_are_what_the_generator_writes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes/data");
        let (train, test) = splits();
        for (split, rows) in [("train", train), ("test", test)] {
            let path = folder.join(format!("largest.{split}.jsonl"));
            let committed = std::fs::read_to_string(&path).unwrap();
            assert!(committed == jsonl(&rows), "{} is stale: run `cargo xtask data`", path.display());
        }
    }
}
