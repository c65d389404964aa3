//! Texts as people count them: words, terms, lines, markdown bullets.
//!
//! Everything here is one pass over the text and knows nothing of instructions.

/// Whether `c` belongs to a word: letters, digits, `_`, and the marks and joiners inside words of
/// scripts that write them apart from their letters.
pub fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_mark(c)
}

/// Combining marks that [`char::is_alphanumeric`] does not count: accents, viramas, tone marks.
fn is_mark(c: char) -> bool {
    matches!(c as u32,
        0x0300..=0x036F | 0x0483..=0x0487 | 0x0591..=0x05BD | 0x064B..=0x065F | 0x0E47..=0x0E4E
        | 0x0EC8..=0x0ECD | 0x200C..=0x200D | 0x302A..=0x302F | 0x3099..=0x309A)
        // The Indic blocks repeat one layout every 128 characters: nukta, virama, accents.
        || (matches!(c as u32, 0x0900..=0x0DFF) && matches!(c as u32 & 0x7F, 0x3C | 0x4D | 0x51..=0x54))
}

/// Runs of word characters, so that `well-known` is two, as the benchmarks count.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !in_word(c)).filter(|word| !word.is_empty())
}

/// What people call words: separated by white space or dashes, without punctuation around them.
/// `well-known`, `don't` and `3.5` are one each; what holds no letter and no digit is none.
pub fn terms(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '—' | '–'))
        .flat_map(|part| part.split("--"))
        .map(bare)
        .filter(|term| !term.is_empty())
}

/// Without the punctuation, symbols and spaces around it.
pub fn bare(text: &str) -> &str {
    text.trim_matches(|c| !in_word(c) || c == '_')
}

/// In lower case, with curly apostrophes made straight.
pub fn folded(text: &str) -> String {
    text.to_lowercase().replace(['’', 'ʼ'], "'")
}

/// Without anything but letters, digits and marks, in lower case: `Don't` is `dont`.
pub fn letters_and_digits(term: &str) -> String {
    term.chars().filter(|&c| in_word(c) && c != '_').flat_map(char::to_lowercase).collect()
}

/// One line, every run of white space a single space.
pub fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The letter without its accent, where it is a Latin one.
pub fn unaccented(c: char) -> char {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => 'e',
        'ğ' => 'g',
        'ì'..='ï' | 'ī' | 'ı' => 'i',
        'ł' => 'l',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' | 'ș' => 's',
        'ť' | 'ţ' | 'ț' => 't',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

/// In lower case and without accents, for comparing names.
pub fn plain(text: &str) -> String {
    // Marks of their own (a letter followed by U+0301, say) fall away.
    folded(text).chars().filter(|c| !matches!(c, '\u{300}'..='\u{36F}')).map(unaccented).collect()
}

/// How often `phrase` stands in `text` as whole words, without regard to case; occurrences do not
/// overlap. Where the phrase begins or ends with a character that is no part of a word, or of a
/// script without spaces, that end needs no boundary.
pub fn occurrences(text: &str, phrase: &str) -> usize {
    let (text, phrase) = (folded(text), spaced(&folded(phrase)));
    if phrase.is_empty() {
        return 0;
    }
    let bounded = |inside: Option<char>, outside: Option<char>| match (inside, outside) {
        (Some(a), Some(b)) => !in_word(a) || !in_word(b) || is_unspaced(a) || is_unspaced(b),
        _ => true,
    };
    let (mut count, mut from) = (0, 0);
    while let Some(found) = text[from..].find(&phrase) {
        let (start, end) = (from + found, from + found + phrase.len());
        let before = text[..start].chars().next_back();
        let after = text[end..].chars().next();
        if bounded(phrase.chars().next(), before) && bounded(phrase.chars().next_back(), after) {
            count += 1;
            from = end;
        } else {
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        }
    }
    count
}

/// Scripts that put no space between words.
fn is_unspaced(c: char) -> bool {
    matches!(c as u32, 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x9FFF
        | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// The lines that hold more than white space.
pub fn filled_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

/// Blocks of lines, separated by empty ones.
pub fn paragraphs(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() {
            if let Some(start) = start.take() {
                blocks.push(text[start..at].trim());
            }
        } else {
            start.get_or_insert(at);
        }
        at += line.len();
    }
    if let Some(start) = start {
        blocks.push(text[start..].trim());
    }
    blocks
}

/// The item behind a bullet `mark`; `None` when the line is none. A space behind the mark may be
/// missing in front of a letter, a quotation mark or a bracket. A rule (`* * *`, `---`), emphasis
/// (`*so*`) and a negative number (`-4`) are no bullets.
pub fn bullet(line: &str, mark: char) -> Option<&str> {
    let line = line.trim();
    let item = line.strip_prefix(mark)?;
    let is_rule = line.chars().all(|c| c == mark || c.is_whitespace());
    let spaced = item.starts_with([' ', '\t']) && !is_rule;
    let joined = item.starts_with(|c: char| c.is_alphabetic() || "(\"'“[".contains(c))
        && !(mark == '*' && item.contains('*'));
    (spaced || joined).then(|| item.trim())
}

/// Whether `c` is a pictograph, or a part of one.
pub fn is_emoji(c: char) -> bool {
    matches!(c as u32,
        0x1F000..=0x1FAFF | 0x2600..=0x2712 | 0x2714..=0x275A | 0x275F..=0x27BF | 0x231A..=0x231B | 0x2328
        | 0x23CF | 0x23E9..=0x23F3 | 0x23F8..=0x23FA | 0x24C2 | 0x25AA..=0x25AB | 0x25B6 | 0x25C0
        | 0x25FB..=0x25FE | 0x2934..=0x2935 | 0x2B05..=0x2B07 | 0x2B1B..=0x2B1C | 0x2B50 | 0x2B55 | 0x3030
        | 0x303D | 0x3297 | 0x3299 | 0x203C | 0x2049 | 0x20E3 | 0x2122 | 0x2139 | 0x2194..=0x2199
        | 0x21A9..=0x21AA | 0xFE0F | 0x200D | 0xA9 | 0xAE | 0xE0020..=0xE007F)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_terms_count_as_documented() {
        for (text, in_words, in_terms) in [
            ("a well-known fact", 4, 3),
            ("I don't know", 4, 3),
            ("3.5 kg — now", 4, 3),
            ("* - ...", 0, 0),
            ("", 0, 0),
            ("नमस्ते दुनिया", 2, 2),
            ("yes--no", 2, 2),
        ] {
            assert_eq!(words(text).count(), in_words, "words of {text}");
            assert_eq!(terms(text).count(), in_terms, "terms of {text}");
        }
    }

    #[test]
    fn phrases_are_found_as_whole_words_and_literally() {
        for (text, phrase, count) in [
            ("Art is art; we start.", "art", 2),
            ("axb a.b", "a.b", 1),
            ("cat cat-like category", "cat", 2),
            ("It’s here", "it's", 1),
            ("aaaa", "aa", 0),
            ("C++ and C++!", "c++", 2),
            ("#a ##", "#", 3),
            ("今天很热", "天", 1),
            ("", "x", 0),
            ("x", "  ", 0),
        ] {
            assert_eq!(occurrences(text, phrase), count, "{phrase} in {text}");
        }
    }

    #[test]
    fn bullets_are_told_from_rules_emphasis_and_numbers() {
        assert_eq!(bullet("  * one", '*'), Some("one"));
        assert_eq!(bullet("- a-b", '-'), Some("a-b"));
        assert_eq!(bullet("*(so) it is", '*'), Some("(so) it is"));
        assert_eq!(bullet("-I am", '-'), Some("I am"));
        for line in ["* * *", "*so* it is", "**Bold**", "*", "* "] {
            assert_eq!(bullet(line, '*'), None, "{line}");
        }
        assert_eq!(bullet("-4 degrees", '-'), None);
        assert_eq!(bullet("---", '-'), None);
    }

    #[test]
    fn paragraphs_are_what_stands_between_empty_lines() {
        assert_eq!(paragraphs("\n\na\nb\n \n\nc\n"), ["a\nb", "c"]);
        assert_eq!(paragraphs("  "), [""; 0]);
    }
}
