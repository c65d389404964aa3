//! Texts as they are compared.

/// The text in lower case, with single spaces, plain quotes and plain dashes.
pub fn normalised(text: &str) -> String {
    let plain = text.chars().flat_map(|c| {
        let c = match c {
            '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{2032}' => '\'',
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{2033}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            c => c,
        };
        c.to_lowercase()
    });
    let plain: String = plain.collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The normalised text as words: runs of letters and digits, and every other sign alone. Scripts that
/// are written without spaces give a word per character.
pub fn words(text: &str) -> Vec<String> {
    let text = normalised(text);
    let mut words: Vec<String> = Vec::new();
    let mut run = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() && !unspaced(c) {
            run.push(c);
            continue;
        }
        if !run.is_empty() {
            words.push(std::mem::take(&mut run));
        }
        if c != ' ' {
            words.push(c.to_string());
        }
    }
    if !run.is_empty() {
        words.push(run);
    }
    words
}

/// Characters of scripts that put no spaces between words: Han, kana, Thai, Lao, Khmer, Burmese.
fn unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}')
        || matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// FNV-1a over the bytes, finished by the mixer of SplitMix64, so that all bits depend on all bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(fnv)
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
pub fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spacing_quotes_and_dashes_do_not_count_and_all_else_does() {
        assert_eq!(normalised("  “It’s”\n 3 − 4 "), "\"it's\" 3 - 4");
        assert_ne!(normalised("3 + 4"), normalised("3 - 4"));
        assert_ne!(normalised("3.5"), normalised("35"));
    }

    #[test]
    fn words_are_runs_signs_and_characters_of_unspaced_scripts() {
        assert_eq!(words("Say x_1 = 4.5!"), ["say", "x", "_", "1", "=", "4", ".", "5", "!"]);
        assert_eq!(words("求解3x"), ["求", "解", "3x"]);
    }
}
