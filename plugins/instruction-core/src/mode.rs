//! Strict and loose reading of a response.

/// How a response is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As it is.
    #[default]
    Strict,
    /// Also without its first line, its last line, both, and each of these without asterisks: one
    /// reading that follows the instruction is enough.
    Loose,
}

impl Mode {
    /// The readings of a response, the response itself first.
    pub fn readings(self, response: &str) -> Vec<String> {
        let mut readings = vec![response.to_owned()];
        if self == Mode::Loose {
            let without_first = response.split_once('\n').map_or("", |(_, rest)| rest).trim();
            let without_last = response.rsplit_once('\n').map_or("", |(rest, _)| rest).trim();
            let without_both = response
                .split_once('\n')
                .and_then(|(_, rest)| rest.rsplit_once('\n'))
                .map_or("", |(middle, _)| middle)
                .trim();
            readings.extend([without_first, without_last, without_both].map(str::to_owned));
            for at in 0..4 {
                readings.push(readings[at].replace('*', ""));
            }
        }
        readings.retain(|reading| !reading.trim().is_empty());
        readings
    }
}

/// What the model said to the user: behind its reasoning, without end tokens, with one kind of line
/// end. Reasoning that never ends leaves nothing.
pub fn answer(response: &str) -> String {
    let text = response.replace("\r\n", "\n").replace('\r', "\n");
    let Ok(answer) = answer_text::behind_reasoning(&text) else { return String::new() };
    // The line ends behind the reasoning belong to it.
    let all = text.starts_with(answer);
    if all { answer.to_owned() } else { answer.trim_start_matches('\n').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_stands_behind_the_reasoning_and_before_end_tokens() {
        for (response, expected) in [
            ("Hi.<|im_end|>", "Hi."),
            ("Hi.<|im_end|>\n<|endoftext|>\n", "Hi."),
            ("<think>a, b</think>\n\nHi", "Hi"),
            ("a, b</think>Hi", "Hi"),
            ("<think>a, b", ""),
            ("  a\r\n b \n", "  a\n b \n"),
        ] {
            assert_eq!(answer(response), expected, "{response}");
        }
    }

    #[test]
    fn loose_readings_leave_out_lines_and_asterisks() {
        let readings = Mode::Loose.readings("Sure:\n**a**\nb");
        assert_eq!(readings[0], "Sure:\n**a**\nb");
        for expected in ["**a**\nb", "Sure:\n**a**", "**a**", "a"] {
            assert!(readings.iter().any(|r| r == expected), "{expected}: {readings:?}");
        }
        assert_eq!(Mode::Strict.readings("a\nb"), ["a\nb"]);
        assert_eq!(Mode::Loose.readings("**").len(), 1);
    }
}
