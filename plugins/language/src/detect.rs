//! The language of a text, and the codes of languages.

use whatlang::Lang;

/// Two-letter codes (ISO 639-1) of the languages whose three-letter code is not asked for.
const SHORT: [(&str, &str); 67] = [
    ("eo", "epo"),
    ("en", "eng"),
    ("ru", "rus"),
    ("zh", "cmn"),
    ("es", "spa"),
    ("pt", "por"),
    ("it", "ita"),
    ("bn", "ben"),
    ("fr", "fra"),
    ("de", "deu"),
    ("uk", "ukr"),
    ("ka", "kat"),
    ("ar", "ara"),
    ("hi", "hin"),
    ("ja", "jpn"),
    ("he", "heb"),
    ("yi", "yid"),
    ("pl", "pol"),
    ("am", "amh"),
    ("jv", "jav"),
    ("ko", "kor"),
    ("nb", "nob"),
    ("no", "nob"),
    ("da", "dan"),
    ("sv", "swe"),
    ("fi", "fin"),
    ("tr", "tur"),
    ("nl", "nld"),
    ("hu", "hun"),
    ("cs", "ces"),
    ("el", "ell"),
    ("bg", "bul"),
    ("be", "bel"),
    ("mr", "mar"),
    ("kn", "kan"),
    ("ro", "ron"),
    ("sl", "slv"),
    ("hr", "hrv"),
    ("sr", "srp"),
    ("mk", "mkd"),
    ("lt", "lit"),
    ("lv", "lav"),
    ("et", "est"),
    ("ta", "tam"),
    ("vi", "vie"),
    ("ur", "urd"),
    ("th", "tha"),
    ("gu", "guj"),
    ("uz", "uzb"),
    ("pa", "pan"),
    ("az", "aze"),
    ("id", "ind"),
    ("te", "tel"),
    ("fa", "pes"),
    ("ml", "mal"),
    ("or", "ori"),
    ("my", "mya"),
    ("ne", "nep"),
    ("si", "sin"),
    ("km", "khm"),
    ("tk", "tuk"),
    ("ak", "aka"),
    ("zu", "zul"),
    ("sn", "sna"),
    ("af", "afr"),
    ("la", "lat"),
    ("sk", "slk"),
];

/// The language of an ISO 639 code, where it can be detected.
pub fn language(code: &str) -> Option<Lang> {
    let code = code.to_ascii_lowercase();
    let long = SHORT.iter().find(|(short, _)| *short == code).map_or(code.as_str(), |(_, long)| long);
    Lang::from_code(long)
}

/// The three-letter code of a language.
pub fn code(language: Lang) -> &'static str {
    language.code()
}

/// The language of the prose in a text; `None` where it is not told with this confidence.
pub fn detect(text: &str, confidence: f64) -> Option<Lang> {
    let found = whatlang::detect(&prose(text))?;
    (found.confidence() >= confidence).then(|| found.lang())
}

/// The text without fenced code, formulas between dollar signs, and addresses.
fn prose(text: &str) -> String {
    let text = without(text, "```");
    let text = without(&without(&text, "$$"), "$");
    text.split_whitespace().filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" ")
}

/// The text without what stands between pairs of `fence`. A last one without a partner is plain text.
fn without(text: &str, fence: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(fence) {
        kept.push_str(before);
        kept.push(' ');
        match after.split_once(fence) {
            Some((_, behind)) => rest = behind,
            None => {
                rest = after;
                break;
            }
        }
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_code_is_that_of_a_language() {
        for (short, long) in SHORT {
            assert_eq!(language(short).map(code), Some(long));
        }
        assert_eq!(language("EN"), Some(Lang::Eng));
        assert_eq!(language("q"), None);
    }

    #[test]
    fn a_fence_without_a_partner_is_plain_text() {
        assert_eq!(prose("It costs $5 and more"), "It costs 5 and more");
        assert_eq!(prose("a $x$ b $$y$$ c ```d``` e http://f.g h"), "a b c e h");
    }
}
