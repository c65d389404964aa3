//! Labels that are no answers.

/// What data sets write where they have no answer.
const NO_ANSWER: [&str; 18] = [
    "proof",
    "notfound",
    "not found",
    "not provided",
    "not given",
    "not available",
    "no answer provided",
    "omitted",
    "n/a",
    "none given",
    "see solution",
    "see proof",
    "see above",
    "see text",
    "see explanation",
    "answers may vary",
    "answers vary",
    "problem not solved",
];

/// Whether a label is a remark about the answer rather than an answer: `(see the proof above)`,
/// `Proof.`, `not found`. Nothing can be right or wrong beside it.
pub fn is_remark(label: &str) -> bool {
    let bare = label.trim().trim_matches(['$', '*', '_', '"', '.', ':']).trim();
    let bracketed = [('(', ')'), ('[', ']'), ('<', '>')]
        .iter()
        .find_map(|&(open, close)| bare.strip_prefix(open).and_then(|t| t.strip_suffix(close)));
    let inside = bracketed.unwrap_or(bare).trim().trim_matches(['.', ':']).trim();
    let lower = inside.to_lowercase();
    if NO_ANSWER.contains(&lower.as_str()) {
        return true;
    }
    let points_elsewhere =
        ["see the ", "see above", "see below", "refer to ", "as shown in ", "proof omitted"];
    if points_elsewhere.iter().any(|start| lower.starts_with(start)) {
        return true;
    }
    // A sentence in brackets.
    bracketed.is_some()
        && inside.split_whitespace().count() >= 3
        && inside.chars().all(|c| c.is_alphabetic() || c.is_whitespace() || matches!(c, '.' | '\'' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_told_from_an_answer() {
        for label in [
            "(see the proof above)",
            "Proof.",
            "not found",
            "[answer omitted in source]",
            "See the figure",
            "N/A",
        ] {
            assert!(is_remark(label), "{label}");
        }
        for label in [
            "(A)",
            "(1, 2)",
            "(x, y)",
            "a red cube",
            "the proof is trivial",
            "yes",
            "(C) red",
            "\\text{see}",
            "",
            "None",
            "(0, \\infty)",
        ] {
            assert!(!is_remark(label), "{label}");
        }
    }
}
