//! How several rewards make one: sums, products, and conditions on components.

use crate::quantity::as_text;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// How a plugin's reward enters the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Added to the others.
    #[default]
    Sum,
    /// A factor of the sum; of 1 where nothing is added.
    Product,
}

/// A condition on one component of a sample's rewards, as in `format/ok >= 1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// `plugin/component`, or the component alone where one plugin has it.
    pub component: String,
    /// How the component compares with `value` where the condition holds.
    pub comparison: Comparison,
    /// A finite number.
    pub value: f64,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `>`
    Above,
    /// `<`
    Below,
}

impl Comparison {
    /// Longer ones first, so that `>=` is not read as `>`.
    const ALL: [(&str, Comparison); 6] = [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        (">", Comparison::Above),
        ("<", Comparison::Below),
    ];

    /// Whether `left` compares so with `right`.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Comparison::AtLeast => left >= right,
            Comparison::AtMost => left <= right,
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
            Comparison::Above => left > right,
            Comparison::Below => left < right,
        }
    }
}

/// Whether a text can name a plugin or a component in a condition.
pub(crate) fn is_name(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
}

impl FromStr for Gate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!(
                "`{text}` is not a condition; write a component, one of >=, <=, >, <, == or !=, and a number, as \
                 in \"format/ok >= 1\""
            )
        };
        let found = Comparison::ALL.iter().filter_map(|(sign, c)| Some((text.find(sign)?, *sign, *c)));
        let (at, sign, comparison) =
            found.min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len())).ok_or_else(malformed)?;
        let component = text[..at].trim();
        let value = text[at + sign.len()..].trim().parse().ok().filter(|v: &f64| v.is_finite());
        match value {
            Some(value) if component.split('/').count() <= 2 && component.split('/').all(is_name) => {
                Ok(Gate { component: component.to_owned(), comparison, value })
            }
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = Comparison::ALL.iter().find(|(_, c)| *c == self.comparison).map_or("", |(sign, _)| sign);
        write!(f, "{} {sign} {}", self.component, self.value)
    }
}

as_text!(Gate, "Gate", "gate", "format/ok >= 1", "A condition on a component: `plugin/component >= number`.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_reads_back_what_it_wrote() {
        for text in ["format/ok >= 1", "ok <= -0.5", "a.b/c_d > 2", "x < 3", "x == 1", "x != 0"] {
            assert_eq!(text.parse::<Gate>().map(|g| g.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("ok>=1".parse::<Gate>().map(|g| g.to_string()), Ok("ok >= 1".into()));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in [
            "",
            "ok",
            "ok >= ",
            ">= 1",
            "ok >= nan",
            "ok >= inf",
            "ok => 1",
            "a/b/c > 1",
            "ok = 1",
            "a b > 1",
            "/a > 1",
        ] {
            assert!(text.parse::<Gate>().is_err(), "{text}");
        }
    }

    #[test]
    fn comparisons_hold_as_their_signs_say() {
        let holds = |text: &str, left: f64| {
            let gate: Gate = text.parse().unwrap_or_else(|e| panic!("{e}"));
            gate.comparison.holds(left, gate.value)
        };
        assert!(holds("x >= 1", 1.0) && holds("x <= 1", 1.0) && holds("x == 1", 1.0) && holds("x != 1", 2.0));
        assert!(!holds("x > 1", 1.0) && !holds("x < 1", 1.0) && !holds("x != 1", 1.0));
    }
}
