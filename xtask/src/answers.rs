//! Mathematical answers for the benchmark of graders: those of public bug reports, and made ones of
//! every form that a formula's answer takes.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;

/// Rows with `label` and a response that ends in a box, each a group of its own; every other made
/// answer is right.
///
/// Left out of the bug reports' cases are those that no grader finishes in time without a bound on
/// its work, so that a peer's figure is not that of its time-outs.
pub fn rows(cases: &Path, made: usize) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(cases).with_context(|| format!("reading {}", cases.display()))?;
    let mut rows = Vec::new();
    for line in text.lines() {
        let case: Value =
            serde_json::from_str(line).with_context(|| format!("reading {}", cases.display()))?;
        let input = &case["input"];
        if input["answer_style"] == "boxed" && input["max_seconds"].is_null() {
            rows.push(json!({ "id": case["id"], "label": input["gold"], "response": input["response"] }));
        }
    }
    for i in 0..made {
        let (label, answer) = pair(i / 2, i % 2 == 0);
        let response = format!(
            "Let us work it out step by step. Writing down what is given and simplifying both sides, we see that the \
             value that was asked for follows at once. Therefore the final answer is $\\boxed{{{answer}}}$."
        );
        rows.push(json!({ "id": format!("made-{i}"), "label": label, "response": response }));
    }
    Ok(rows)
}

/// A label and an answer that is equal to it, or is not.
fn pair(i: usize, right: bool) -> (String, String) {
    let (a, b, c) = (i % 17 + 2, i / 3 % 13 + 3, i / 7 % 11 + 2);
    let off = usize::from(!right);
    match i % 12 {
        0 => (format!("{}", a * b * 1000 + c), format!("{},{:03}", a * b + off, c)),
        1 => (format!("\\frac{{{a}}}{{{b}}}"), format!("\\frac{{{}}}{{{}}}", a * c + off, b * c)),
        2 => (format!("{}.5", a), format!("\\frac{{{}}}{{2}}", 2 * a + 1 + off)),
        3 => (format!("{c}\\sqrt{{{b}}}"), format!("\\sqrt{{{}}}", c * c * b + off)),
        4 => (format!("({a}, {b})"), format!("\\left({}, {b}\\right)", a + off)),
        5 => (format!("\\{{{a}, {}\\}}", a + b), format!("\\{{{}, {a}\\}}", a + b + off)),
        6 => (format!("x^2+{}x+{}", a + b, a * b), format!("(x+{a})(x+{})", b + off)),
        7 => (format!("[{a}, {})", a + b), format!("{} \\le x < {}", a, a + b + off)),
        8 => (format!("\\frac{{{a}\\pi}}{{{b}}}"), format!("\\frac{{{}}}{{{b}}}\\pi", a + off)),
        9 => (format!("{a}^{{{c}}}"), format!("{}", a.pow(c as u32) + off)),
        10 => (
            format!("\\begin{{pmatrix}} {a} & {b} \\\\ 0 & {c} \\end{{pmatrix}}"),
            format!("\\begin{{pmatrix}}{a}&{}\\\\0&{c}\\end{{pmatrix}}", b + off),
        ),
        _ => (
            format!("\\frac{{1}}{{{a}+\\sqrt{{2}}}}"),
            format!("\\frac{{{a}-\\sqrt{{2}}}}{{{}}}", a * a - 2 + off),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_cases_and_as_many_made_ones_as_asked_for() {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases/math.jsonl");
        let rows = rows(&cases, 24).unwrap();
        let made: Vec<&Value> =
            rows.iter().filter(|r| r["id"].as_str().unwrap().starts_with("made-")).collect();
        assert_eq!(made.len(), 24);
        assert!(rows.len() > 80);
        assert_eq!(pair(1, true), ("\\frac{3}{3}".into(), "\\frac{6}{6}".into()));
        assert_ne!(pair(9, true).1, pair(9, false).1);
    }
}
