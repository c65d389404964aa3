//! The metrics of Relax, slime and verl as they are: scores that users' published numbers were made
//! with.
//!
//! Source: Relax `engine/rewards/f1.py` (slime's is the same), verl
//! `reward_score/search_r1_like_qa_em.py` (2026). All ASCII punctuation goes, also a number's point
//! and sign; articles go even where nothing else is left.

use std::collections::HashMap;

/// Lower case, no ASCII punctuation, no articles, one blank between words.
fn normalised(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let bare: String = lower.chars().filter(|c| !c.is_ascii_punctuation()).collect();
    // Articles are taken out between word boundaries, which are not always blanks.
    let mut spaced = String::with_capacity(bare.len());
    let mut word = String::new();
    for c in bare.chars().chain([' ']) {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        spaced.push_str(if matches!(word.as_str(), "a" | "an" | "the") { " " } else { &word });
        word.clear();
        spaced.push(c);
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Relax's and slime's F1 of a whole response.
pub fn f1(response: &str, gold: &str) -> f64 {
    let (said, wanted) = (normalised(response), normalised(gold));
    let alone =
        |words: &[String]| matches!(words, [one] if matches!(one.as_str(), "yes" | "no" | "noanswer"));
    if (alone(&said) || alone(&wanted)) && said != wanted {
        return 0.0;
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in &wanted {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0.0;
    for word in &said {
        if let Some(n) = left.get_mut(word.as_str()).filter(|n| **n > 0) {
            *n -= 1;
            common += 1.0;
        }
    }
    if common == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (common / said.len() as f64, common / wanted.len() as f64);
    2.0 * precision * recall / (precision + recall)
}

/// verl's exact match of the last `<answer>`; a quarter of it for more than ten tags.
pub fn exact_match(response: &str, golds: &[String]) -> f64 {
    let Some(answer) = last_pair(response) else { return 0.0 };
    let said = normalised(answer);
    if !golds.iter().any(|gold| normalised(gold) == said) {
        return 0.0;
    }
    let crowded = response.matches("<answer>").count() > 10 || response.matches("</answer>").count() > 10;
    if crowded { 0.25 } else { 1.0 }
}

/// The last of the pairs that follow each other without overlap, each ending at the next `</answer>`.
fn last_pair(text: &str) -> Option<&str> {
    let (mut rest, mut found) = (text, None);
    while let Some((_, behind)) = rest.split_once("<answer>") {
        let Some((inside, after)) = behind.split_once("</answer>") else { break };
        found = Some(inside);
        rest = after;
    }
    found
}
