//! The rules of open-r1 and Relax as they are: scores that users' published numbers were made with.
//!
//! Source: open-r1 `rewards.py`, Relax `engine/rewards/openr1mm.py` (2026).

use crate::Gold;
use math_core::Style;

/// open-r1's `^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$`, where the last `$` is any line's end.
pub fn open_r1_is_formed(response: &str) -> bool {
    let Some(rest) = response.strip_prefix("<think>\n") else { return false };
    let Some((_, mut answer)) = rest.split_once("\n</think>\n<answer>\n") else { return false };
    while let Some((_, behind)) = answer.split_once("\n</answer>") {
        if behind.is_empty() || behind.starts_with('\n') {
            return true;
        }
        answer = behind;
    }
    false
}

/// Relax's form: `^<think>…</think>\n<answer>…</answer><`, or `im_end`, or an end in `>`, since the bars of
/// its `<|im_end|>` stand for alternatives.
pub fn relax_is_formed(response: &str) -> bool {
    let response = response.trim();
    let body = response.strip_prefix("<think>").unwrap_or(response);
    // The opening tag is put before what lacks it, and so an empty response ends in `>`.
    if body.is_empty() || body.contains("im_end") || body.ends_with('>') {
        return true;
    }
    let Some((reasoning, behind)) = body.split_once("</think>") else { return false };
    !reasoning.contains("<think>")
        && behind.strip_prefix("\n<answer>").is_some_and(|inside| inside.contains("</answer><"))
}

/// Relax's accuracy: by mathematics of the whole response, else equal texts of the first tags.
pub fn relax_is_right(gold: &Gold, response: &str) -> bool {
    let many = |mark: &str| response.matches(mark).count() > 1;
    if many("</think>") || many("<answer>") || many("</answer>") {
        return false;
    }
    let inside = response.split_once("<answer>").and_then(|(_, rest)| rest.split_once("</answer>"));
    let answer = inside.map(|(inside, _)| inside).filter(|inside| !inside.contains('\n'));
    let same = answer.unwrap_or(response).trim() == gold.text;
    let formula = |text: &str| text.contains(|c: char| c.is_ascii_digit() || c == '\\');
    same || formula(&gold.text) && gold.label.grade(answer.unwrap_or(response), Style::None, false).correct
}
