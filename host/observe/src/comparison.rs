//! The table at the end of a run: the same prompts, answered before and after.

use crate::step_line::short;

/// One answer and its score.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Answer {
    /// The decoded response.
    pub text: String,
    /// Its reward, if it has one.
    pub reward: Option<f64>,
}

/// A prompt and its two answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// The last thing that the user said.
    pub prompt: String,
    /// The reference answer, if the row has one.
    pub label: Option<String>,
    /// Before training.
    pub before: Answer,
    /// After training.
    pub after: Answer,
}

/// Renders the comparisons as an aligned table of at most `width` columns. Line breaks within texts become
/// `⏎`, long texts keep their end for prompts (the question stands there) and their start for answers.
pub fn comparison_table(rows: &[Comparison], width: usize) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let label_width = rows
        .iter()
        .map(|r| r.label.as_deref().map_or(0, |l| flat(l).chars().count()))
        .max()
        .unwrap_or(0)
        .clamp(5, 14);
    let free = width.max(60).saturating_sub(label_width + 24);
    let (prompt_width, answer_width) = (free / 3, free / 3);
    let mut out = format!(
        "  {:<prompt_width$}  {:<label_width$}  {:<answer_width$}        {:<answer_width$}\n",
        "prompt", "label", "before", "after"
    );
    for row in rows {
        out.push_str(&format!(
            "  {}  {}  {} {}  {} {}\n",
            pad(&keep_end(&flat(&row.prompt), prompt_width), prompt_width),
            pad(&keep_start(&flat(row.label.as_deref().unwrap_or("")), label_width), label_width),
            pad(&keep_start(&flat(&row.before.text), answer_width), answer_width),
            score(row.before.reward),
            pad(&keep_start(&flat(&row.after.text), answer_width), answer_width),
            score(row.after.reward),
        ));
    }
    out
}

fn score(reward: Option<f64>) -> String {
    reward.map_or_else(|| "    -".into(), |r| format!("{:>5}", short(r, 2)))
}

fn flat(text: &str) -> String {
    text.trim().replace('\n', "⏎").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.chars().count())))
}

fn keep_start(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn keep_end(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(count + 1 - width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(before: &str, after: &str) -> Comparison {
        Comparison {
            prompt: "A long preamble that nobody needs to see again.\nLargest of 12, 45, 31, 7?".into(),
            label: Some("45".into()),
            before: Answer { text: before.into(), reward: Some(0.0) },
            after: Answer { text: after.into(), reward: Some(1.0) },
        }
    }

    #[test]
    fn each_prompt_is_one_line_with_both_answers_and_scores() {
        let table = comparison_table(&[row("I think\nit is 12", "45")], 110);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("I think⏎it is 12"), "{table}");
        assert!(lines[1].contains(" 0.00 ") && lines[1].trim_end().ends_with("1.00"), "{table}");
        assert!(lines[1].contains("31, 7?"), "the end of the prompt holds the question: {table}");
    }

    #[test]
    fn a_long_answer_is_cut_and_columns_stay_aligned() {
        let long = "x".repeat(500);
        let table = comparison_table(&[row(&long, "45"), row("1", &long)], 100);
        let widths: Vec<usize> = table.lines().skip(1).map(|l| l.chars().count()).collect();
        assert_eq!(widths[0], widths[1]);
        assert!(widths[0] <= 100, "{widths:?}");
    }
}
