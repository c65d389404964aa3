//! Tags: the last one of a name, and a small grammar of named tags in order, each once, with nothing
//! left over.

/// What stands between the last `<name>` that is closed and its end; an error when the last one is
/// never closed, none without any.
pub fn last<'t>(text: &'t str, name: &str) -> Option<Result<&'t str, &'static str>> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let from = text.rfind(&open)? + open.len();
    Some(text[from..].find(&close).map(|end| &text[from..from + end]).ok_or("the last tag is never closed"))
}

/// The response as the grammar sees it: with the beginning that the prompt has already given
/// (`<think>` of a template that ends with it), without end tokens.
pub fn whole(prefill: &str, response: &str) -> String {
    let response = crate::without_end_tokens(response);
    let given = prefill.trim();
    if given.is_empty() || response.trim_start().starts_with(given) {
        return response.to_owned();
    }
    format!("{prefill}{response}")
}

/// A tag's name and its two marks.
pub struct Tag {
    name: String,
    open: String,
    close: String,
}

/// `<think>…</think>` then `<answer>…</answer>`.
pub fn think_answer() -> Vec<Tag> {
    ["think", "answer"].map(Tag::named).into()
}

impl Tag {
    fn named(name: &str) -> Tag {
        Tag { name: name.to_owned(), open: format!("<{name}>"), close: format!("</{name}>") }
    }
}

/// Makes the tags; the error says which name is no name.
pub fn all(names: &[String]) -> Result<Vec<Tag>, String> {
    if names.is_empty() {
        return Err("`tags` must name at least one tag".into());
    }
    for (i, name) in names.iter().enumerate() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`{name}` is no tag: use letters, digits, `-` and `_`"));
        }
        if names[..i].contains(name) {
            return Err(format!("the tag `{name}` is named twice"));
        }
    }
    Ok(names.iter().map(|name| Tag::named(name)).collect())
}

/// Whether `text` is the tags in order, with any text inside and white space alone around them.
pub fn check(tags: &[Tag], text: &str) -> Result<(), String> {
    let mut rest = text;
    for (i, tag) in tags.iter().enumerate() {
        let Some(inside) = rest.trim_start().strip_prefix(&tag.open) else {
            return Err(format!("{} is missing or something stands before it", tag.open));
        };
        let Some((content, after)) = inside.split_once(&tag.close) else {
            return Err(format!("{} is never closed", tag.open));
        };
        for other in tags {
            for mark in [&other.open, &other.close] {
                if content.contains(mark.as_str()) {
                    return Err(format!("{mark} stands inside {}", tag.open));
                }
            }
        }
        if i + 1 == tags.len() && content.trim().is_empty() {
            return Err(format!("<{}> is empty", tag.name));
        }
        rest = after;
    }
    if rest.trim().is_empty() { Ok(()) } else { Err("text is left over after the last tag".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_tag_counts_and_must_be_closed() {
        assert_eq!(last("<answer>a</answer> no, <answer>b</answer>", "answer"), Some(Ok("b")));
        assert_eq!(
            last("<answer>a</answer> no, <answer>b", "answer"),
            Some(Err("the last tag is never closed"))
        );
        assert_eq!(last("a</answer>", "answer"), None);
    }

    #[test]
    fn what_the_prompt_has_given_is_not_asked_again() {
        assert_eq!(whole("<think>\n", "a</think>"), "<think>\na</think>");
        assert_eq!(whole("<think>\n", "<think>a</think><|im_end|>"), "<think>a</think>");
        assert_eq!(whole("", "a</s>"), "a");
    }

    #[test]
    fn tags_are_named_by_letters() {
        assert!(all(&["think".to_owned(), "answer".to_owned()]).is_ok());
        assert!(all(&[]).is_err() && all(&["a b".to_owned()]).is_err());
    }

    #[test]
    fn tags_stand_in_order_once_and_alone() {
        let good = [
            "<think>a</think><answer>b</answer>",
            " <think>\n\n</think>\n\n<answer>\nb < c\n</answer>\n",
            "<think>1 < 2 and <b>bold</b></think> <answer>b</answer>",
        ];
        for text in good {
            assert_eq!(check(&think_answer(), text), Ok(()), "{text}");
        }
        let bad = [
            ("", "<think> is missing"),
            ("<answer>b</answer>", "<think> is missing"),
            ("x <think>a</think><answer>b</answer>", "something stands before"),
            ("<think>a</think> x <answer>b</answer>", "<answer> is missing"),
            ("<think>a<answer>b</answer>", "<think> is never closed"),
            ("<think>a</think><answer>b", "<answer> is never closed"),
            ("<think>a</think><answer>b</answer> x", "left over"),
            ("<think>a</think><answer>b</answer></answer>", "left over"),
            ("<think>a</think><answer>b</answer><answer>c</answer>", "left over"),
            ("<think>a</think></think><answer>b</answer>", "<answer> is missing"),
            ("<think>a<think>b</think><answer>b</answer>", "<think> stands inside"),
            ("<think>a</think><answer>b<think></answer>", "<think> stands inside"),
            ("<think>a</think><answer> \n</answer>", "<answer> is empty"),
        ];
        for (text, why) in bad {
            let error = check(&think_answer(), text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn for_every_text_outside_the_tags_the_structure_is_broken(extra in "[a-z<>/]{1,12}") {
            let text = format!("<think>a</think><answer>b</answer>{extra}");
            prop_assert!(check(&think_answer(), &text).is_err());
            let text = format!("{extra}<think>a</think><answer>b</answer>");
            prop_assert!(check(&think_answer(), &text).is_err());
        }
    }
}
