//! The normaliser of the MATH data set's own grader, which verl's `math_reward`, DeepScaleR, slime and
//! Relax share: for modes that repeat their scores. Two answers are equal there when these texts are.
//!
//! Source: Hendrycks et al. 2021 (`math_equivalence`), as verl `reward_score/math_reward.py` has it.

/// The normalised text; none where the original raises an error.
pub fn strip(text: &str) -> Option<String> {
    let mut text = text.replace('\n', "").replace("\\!", "").replace("\\\\", "\\");
    text = text.replace("tfrac", "frac").replace("dfrac", "frac");
    text = text.replace("\\left", "").replace("\\right", "");
    text = text.replace("^{\\circ}", "").replace("^\\circ", "").replace("\\$", "");
    // Units on the right.
    let mut parts = text.split("\\text{ ");
    let (head, unit, more) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    if more.is_some() {
        return None;
    }
    text = if unit.is_some() { head.to_owned() } else { text };
    text = text.replace("\\\\%", "").replace("\\%", "");
    text = text.replace(" .", " 0.").replace("{.", "{0.");
    if text.is_empty() {
        return Some(text);
    }
    if text.starts_with('.') {
        text.insert(0, '0');
    }
    // `k = 5`
    if let Some((name, value)) = text.split_once('=')
        && !value.contains('=')
        && name.chars().count() <= 2
    {
        text = value.to_owned();
    }
    text = roots(&text)?.replace(' ', "");
    text = fractions(&text)?;
    if text == "0.5" {
        text = "\\frac{1}{2}".to_owned();
    }
    Some(slash(&text).unwrap_or(text))
}

/// `\sqrt3` as `\sqrt{3}`.
fn roots(text: &str) -> Option<String> {
    let mut parts = text.split("\\sqrt");
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let first = part.chars().next()?;
        out.push_str("\\sqrt");
        if first == '{' {
            out.push_str(part);
        } else {
            out.extend(['{', first, '}']);
            out.push_str(&part[first.len_utf8()..]);
        }
    }
    Some(out)
}

/// `\frac12` as `\frac{1}{2}`.
fn fractions(text: &str) -> Option<String> {
    let mut parts = text.split("\\frac");
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let mut chars = part.chars();
        let first = chars.next()?;
        out.push_str("\\frac");
        if first == '{' {
            out.push_str(part);
            continue;
        }
        let Some(second) = chars.next() else { return Some(text.to_owned()) };
        out.extend(['{', first, '}']);
        if second == '{' {
            out.push(second)
        } else {
            out.extend(['{', second, '}'])
        }
        out.push_str(chars.as_str());
    }
    Some(out)
}

/// `3/4` as `\frac{3}{4}`.
fn slash(text: &str) -> Option<String> {
    let (above, below) = text.split_once('/')?;
    let integer = |s: &str| {
        let digits = s.strip_prefix('-').unwrap_or(s);
        let plain = digits == "0" && !s.starts_with('-') || !digits.starts_with('0');
        plain && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    (integer(above) && integer(below)).then(|| format!("\\frac{{{above}}}{{{below}}}"))
}

/// Whether two answers are equal there; where the original raises an error, as they are written.
pub fn equal(a: &str, b: &str) -> bool {
    match (strip(a), strip(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// DeepScaleR's way: `\text{…}` around an answer goes first, and an error leaves the text.
pub fn equal_mathd(a: &str, b: &str) -> bool {
    let normal = |text: &str| {
        let text = text.trim();
        let inside = text.strip_prefix("\\text{").and_then(|t| t.strip_suffix('}')).filter(|t| !t.is_empty());
        let text = inside.filter(|t| !t.contains('\n')).map_or(text, str::trim);
        strip(text).unwrap_or_else(|| text.to_owned())
    };
    normal(a) == normal(b)
}

/// verl's last box: `\boxed 7` to the next dollar where there is such a one, else the last `\boxed{…}`
/// or `\fbox{…}`; none without one, or where the original raises an error.
pub fn last_box(text: &str) -> Option<&str> {
    if let Some((_, bare)) = text.rsplit_once("\\boxed ") {
        return Some(bare.split('$').next().unwrap_or(bare));
    }
    let at = text.rfind("\\boxed").or_else(|| text.rfind("\\fbox"))?;
    let mut depth = 0usize;
    for (i, b) in text[at..].bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return text[at..at + i].strip_prefix("\\boxed{");
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that the original function gives.
    #[test]
    fn texts_are_normalised_as_the_original_does() {
        for (text, expected) in [
            ("\\dfrac12", Some("\\frac{1}{2}")),
            ("\\frac1{72}", Some("\\frac{1}{72}")),
            ("0.5", Some("\\frac{1}{2}")),
            ("3/4", Some("\\frac{3}{4}")),
            ("03/4", Some("03/4")),
            ("x=5", Some("5")),
            ("xyz=5", Some("xyz=5")),
            ("5\\text{ cm}", Some("5")),
            ("5\\text{ a}\\text{ b}", None),
            ("90^\\circ", Some("90")),
            ("\\sqrt3", Some("\\sqrt{3}")),
            ("\\sqrt", None),
            (".5", Some("\\frac{1}{2}")),
            ("28\\%", Some("28")),
            ("\\left( 1, 2 \\right)", Some("(1,2)")),
            ("\\$5", Some("5")),
            ("\\frac", None),
            ("", Some("")),
        ] {
            assert_eq!(strip(text).as_deref(), expected, "{text}");
        }
        assert!(equal("\\frac", "\\frac") && !equal("\\frac", "1"));
        assert!(equal_mathd("\\text{Evelyn}", "Evelyn") && !equal("\\text{Evelyn}", "Evelyn"));
    }

    #[test]
    fn the_last_box_is_found_as_verl_finds_it() {
        for (text, expected) in [
            ("\\boxed{1} \\boxed{2}", Some("2")),
            ("\\boxed 7$ is it", Some("7")),
            ("I use \\boxed here: \\boxed{12}", Some("here: \\boxed{12}")),
            ("\\boxed{1} \\boxed{2", None),
            ("\\fbox{3}", None),
            ("none", None),
        ] {
            assert_eq!(last_box(text), expected, "{text}");
        }
    }
}
