//! What Python's Jinja reads and minijinja does not, written another way.

use super::lexis::{Part, Tag, parts};
use super::{GENERATION, macros, percent};
use std::fmt::Write;

/// Rewrites a template; line numbers stay as they were.
///
/// * `{% generation %} … {% endgeneration %}` becomes a call block, with its white space control
/// * `a % b` becomes a call (`percent`)
/// * macros and call blocks that take any arguments, or have defaults, sort them first (`macros`)
pub(super) fn for_minijinja(source: &str) -> String {
    let operators = each_tag(source, |tag| match tag.word() {
        "generation" => tag.inner.replacen("generation", &format!("call {GENERATION}()"), 1),
        "endgeneration" => tag.inner.replacen("endgeneration", "endcall", 1),
        _ => percent::rewrite(tag.inner, tag.is_statement()),
    });
    let parts = parts(&operators);
    let mut out = String::with_capacity(operators.len());
    for (part, rewritten) in parts.iter().zip(macros::rewrite(&parts)) {
        match (part, rewritten) {
            (_, Some(rewritten)) => out.push_str(&rewritten),
            (Part::Text(text), None) => out.push_str(text),
            (Part::Tag(tag), None) => push(&mut out, tag, tag.inner),
        }
    }
    out
}

/// Replaces the inside of every tag.
fn each_tag(source: &str, inner: impl Fn(&Tag<'_>) -> String) -> String {
    let mut out = String::with_capacity(source.len());
    for part in parts(source) {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Tag(tag) => push(&mut out, &tag, &inner(&tag)),
        }
    }
    out
}

fn push(out: &mut String, tag: &Tag<'_>, inner: &str) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{}{inner}{}", tag.open, tag.close);
}

#[cfg(test)]
mod tests {
    use super::for_minijinja;

    #[test]
    fn only_what_minijinja_cannot_read_changes() {
        for (source, expected) in [
            ("{%- generation -%}a{%+ endgeneration %}", "{%- call __generation__() -%}a{%+ endcall %}"),
            ("{{ '%s' % m.role ~ '%' }}", "{{ __percent__('%s' , m.role) ~ '%' }}"),
            ("50% { {# {{ '' % (1) }} #}", "50% { {# {{ '' % (1) }} #}"),
            ("{% raw %}{% generation %}{% endraw %}", "{% raw %}{% generation %}{% endraw %}"),
            ("{{ '}}' }}{% if x == 'a' %}{{", "{{ '}}' }}{% if x == 'a' %}{{"),
            ("{% macro m(a) %}{{ a.kwargs }}{% endmacro %}", "{% macro m(a) %}{{ a.kwargs }}{% endmacro %}"),
        ] {
            assert_eq!(for_minijinja(source), expected);
        }
    }

    #[test]
    fn macros_keep_their_lines_and_the_control_of_white_space() {
        for (source, expected) in [
            (
                "{%- macro m(a) -%}\n{{ varargs }}{%- endmacro -%}\n",
                "{%- macro m(a, varargs)-%}\n{{ varargs }}{%- endmacro %}{% set m = __macro__(m, 1, 0) -%}\n",
            ),
            (
                "{% macro m(a,\n b=[1,\n 2]) %}{% endmacro %}",
                "{% macro m(a, b)%}{% set b = ([1,\n 2]) if b is __missing__ else b \n%}{% endmacro %}{% set m = __macro__(m, 2, 1) %}",
            ),
            (
                "{% call(x) m(1) %}{{ kwargs }}{% endcall -%}",
                "{% macro __caller_1__(x, kwargs)%}{{ kwargs }}{% endmacro %}{% set __caller_1__ = __macro__(__caller_1__, 1, 0) %}\
                 {{ m(1, caller=__caller_1__) }}{% set __caller_1__ = none -%}",
            ),
        ] {
            assert_eq!(for_minijinja(source), expected);
        }
    }
}
