//! What Python's Jinja reads and minijinja does not, written another way.

use super::GENERATION;

/// Rewrites a template; line numbers stay as they were.
///
/// * `{% generation %} … {% endgeneration %}` becomes a call block, with its white space control
/// * `'…' % (…)` becomes the `format` filter, where the left side is a literal
pub(super) fn for_minijinja(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (open, close) = match rest.get(..2) {
            Some("{#") => ("{#", "#}"),
            Some("{{") => ("{{", "}}"),
            Some("{%") => ("{%", "%}"),
            _ => {
                out.push('{');
                rest = &rest[1..];
                continue;
            }
        };
        let length = if open == "{#" { rest.find(close) } else { tag_end(rest, close) };
        let Some(length) = length else { break };
        let tag = &rest[..length];
        match open {
            "{#" => out.push_str(tag),
            "{%" if word(tag) == "raw" => {
                // Nothing inside is a tag.
                let end = raw_end(&rest[length..]).map_or(rest.len(), |n| length + n);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            "{%" if word(tag) == "generation" => {
                out.push_str(&tag.replacen("generation", &format!("call {GENERATION}()"), 1));
            }
            "{%" if word(tag) == "endgeneration" => {
                out.push_str(&tag.replacen("endgeneration", "endcall", 1));
            }
            _ => out.push_str(&format_operators(tag)),
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// The first word of a `{% … %}` tag.
fn word(tag: &str) -> &str {
    let inner = tag[2..].trim_start_matches(['-', '+']).trim_start();
    &inner[..inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len())]
}

/// Where the tag at the start of `rest` ends, before its closing mark; texts may contain the mark.
fn tag_end(rest: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if rest[i..].starts_with(close) => return Some(i),
            None => {}
        }
    }
    None
}

/// Where the text after a `raw` tag is over: before its `endraw` tag.
fn raw_end(rest: &str) -> Option<usize> {
    rest.match_indices("{%").map(|(at, _)| at).find(|&at| word(&rest[at..]) == "endraw")
}

/// `'…' % (…)` and `'…' % name` as filters, inside one tag.
fn format_operators(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    let mut rest = tag;
    while let Some(at) = rest.find(['\'', '"']) {
        let Some(length) = literal(&rest[at..]) else { break };
        let (before, after) = rest.split_at(at + length);
        out.push_str(before);
        rest = after;
        let Some(operand) = after.trim_start().strip_prefix('%').map(str::trim_start) else { continue };
        if operand.starts_with('(') {
            out.push_str(" | format");
            rest = operand;
        } else {
            let end = operand.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
            let (name, after) = operand.split_at(end.unwrap_or(operand.len()));
            if !name.is_empty() {
                out.push_str(&format!(" | format({name})"));
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Length of the text literal at the start, quotes included.
fn literal(rest: &str) -> Option<usize> {
    let quote = rest.chars().next()?;
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(i + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::for_minijinja;

    #[test]
    fn only_what_minijinja_cannot_read_changes() {
        for (source, expected) in [
            ("{%- generation -%}a{%+ endgeneration %}", "{%- call __generation__() -%}a{%+ endcall %}"),
            ("{{ '%d' % (n + 1) }}", "{{ '%d' | format(n + 1) }}"),
            ("{{ '%s' % m.role ~ '%' }}", "{{ '%s' | format(m.role) ~ '%' }}"),
            ("{{ a % (2) }} 50% { {# {{ '' % (1) }} #}", "{{ a % (2) }} 50% { {# {{ '' % (1) }} #}"),
            ("{% raw %}{% generation %}{% endraw %}", "{% raw %}{% generation %}{% endraw %}"),
            ("{{ '}}' }}{% if x == 'a' %}{{", "{{ '}}' }}{% if x == 'a' %}{{"),
        ] {
            assert_eq!(for_minijinja(source), expected);
        }
    }
}
