//! What a response says when it has finished thinking.

/// Marks that end and begin a block of reasoning, as models write them.
const MARKS: [(&str, &str); 6] = [
    ("</think>", "<think>"),
    ("</thinking>", "<thinking>"),
    ("</thought>", "<thought>"),
    ("</reasoning>", "<reasoning>"),
    ("[/THINK]", "[THINK]"),
    ("◁/think▷", "◁think▷"),
];

/// Tokens that end a turn, where a decoded text still shows them.
const END_TOKENS: [&str; 13] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|assistant_end|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<｜end▁of▁sentence｜>",
    "[EOS]",
];

/// The text behind the last block of reasoning, without end tokens.
///
/// A text without such a block is all answer. A block that is opened and never closed holds no
/// answer: what stands before it counts, and it is an error when nothing does.
pub fn behind_reasoning(text: &str) -> Result<&str, &'static str> {
    let ends = MARKS.iter().filter_map(|(close, _)| text.rfind(close).map(|at| at + close.len()));
    let behind = ends.max().map_or(text, |from| &text[from..]);
    let opens = MARKS.iter().filter_map(|(_, open)| opening(behind, open)).min();
    let answer = opens.map_or(behind, |at| &behind[..at]);
    if opens.is_some() && answer.trim().is_empty() {
        return Err("the reasoning never ends");
    }
    Ok(without_end_tokens(answer))
}

/// Where a block opens: at the start of the text or of a line, not where prose names the tag.
fn opening(text: &str, open: &str) -> Option<usize> {
    text.match_indices(open).map(|(at, _)| at).find(|&at| {
        let before = text[..at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    })
}

/// The text without the tokens that end a turn and the blanks around them.
pub fn without_end_tokens(text: &str) -> &str {
    let mut text = text;
    loop {
        let trimmed = text.trim_end();
        match END_TOKENS.iter().find_map(|token| trimmed.strip_suffix(token)) {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_stands_behind_the_last_block_of_reasoning() {
        for (text, answer) in [
            ("<think>a</think>b", Ok("b")),
            ("a</think>b</think>c", Ok("c")),
            ("no reasoning", Ok("no reasoning")),
            ("<think>a", Err("the reasoning never ends")),
            ("\n <think>a", Err("the reasoning never ends")),
            ("<think>a</think>\n<think>b", Err("the reasoning never ends")),
            ("4\n<think>or 5", Ok("4\n")),
            ("The <think> tag is missing", Ok("The <think> tag is missing")),
            ("<reasoning>a</reasoning>b<|im_end|>\n<|endoftext|>", Ok("b")),
            ("[THINK]a[/THINK]b</s>", Ok("b")),
        ] {
            assert_eq!(behind_reasoning(text), answer, "{text}");
        }
    }
}
