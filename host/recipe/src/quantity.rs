//! Sizes and times as people write them: `"32MiB"`, `"200ms"`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, written with a unit: `"32MiB"`, `"4GB"`, `"512B"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A length of time, written with a unit: `"200ms"`, `"2s"`, `"5min"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number followed by a unit.
    #[error("`{text}` is not {what}; write {example}")]
    Malformed {
        /// What was found.
        text: String,
        /// What was expected, as in "a size".
        what: &'static str,
        /// How to write one.
        example: &'static str,
    },
    /// The quantity is zero, or does not fit in 64 bits.
    #[error("`{text}` is out of range; {what} is above zero and below 2^63")]
    OutOfRange {
        /// What was found.
        text: String,
        /// What was expected, as in "a size".
        what: &'static str,
    },
}

/// Units of size in bytes; the last one that divides a size is used to write it.
const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// Units of time in nanoseconds; the last one that divides a time is used to write it.
const TIMES: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const SIZE: (&str, &str) =
    ("a size", "a number and a unit of B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, as in \"32MiB\"");
const TIME: (&str, &str) =
    ("a length of time", "a number and a unit of ns, us, ms, s, min or h, as in \"200ms\"");

impl FromStr for ByteSize {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text, &SIZES, SIZE).map(ByteSize)
    }
}

impl FromStr for Time {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text, &TIMES, TIME).map(|ns| Time(Duration::from_nanos(ns)))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &SIZES)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX), &TIMES)
    }
}

/// A decimal number and a unit; the product is exact (fractions that leave a rest are cut off).
fn parse(
    text: &str,
    units: &[(&str, u64)],
    (what, example): (&'static str, &'static str),
) -> Result<u64, QuantityError> {
    let malformed = || QuantityError::Malformed { text: text.to_owned(), what, example };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').ok_or_else(malformed)?;
    let (number, unit) = trimmed.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(malformed)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.replace('_', "").parse().map_err(|_| malformed())?;
    let mut total = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        let digits: u64 = fraction.parse().map_err(|_| malformed())?;
        let scale = 10u128.checked_pow(fraction.len() as u32).ok_or_else(malformed)?;
        total += u128::from(digits) * u128::from(factor) / scale;
    } else if number.ends_with('.') {
        return Err(malformed());
    }
    match i64::try_from(total) {
        Ok(total) if total > 0 => Ok(total as u64),
        _ => Err(QuantityError::OutOfRange { text: text.to_owned(), what }),
    }
}

fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    // A value of zero never comes from a text, but must still print.
    let fitting = units.iter().rev().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    let (unit, factor) = fitting.copied().unwrap_or(units[0]);
    write!(f, "{}{unit}", value / factor)
}

macro_rules! as_text {
    ($type:ident, $name:literal, $format:literal, $example:literal, $doc:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "format": $format, "description": $doc, "examples": [$example]})
            }
        }
    };
}
pub(crate) use as_text;

as_text!(
    ByteSize,
    "ByteSize",
    "byte-size",
    "32MiB",
    "A number of bytes with a unit of B, kB, KiB, MB, MiB, GB, GiB, TB or TiB."
);
as_text!(Time, "Time", "duration-text", "200ms", "A length of time with a unit of ns, us, ms, s, min or h.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_back_what_they_wrote() {
        for text in ["32MiB", "4GB", "1536KiB", "7B"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        for text in ["200ms", "90s", "5min", "1h", "15us"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!("1.5GiB".parse::<ByteSize>().unwrap(), ByteSize(3 << 29));
        assert_eq!("0.25 s".parse::<Time>().unwrap().to_string(), "250ms");
    }

    #[test]
    fn a_quantity_without_a_unit_is_refused_with_an_example() {
        for text in ["32", "", "MiB", "-1s", "1 week", "1..5s", "1.s", "32mib"] {
            let size = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(size.contains("32MiB"), "{text}: {size}");
            assert!(text.parse::<Time>().unwrap_err().to_string().contains("200ms"), "{text}");
        }
        assert!(matches!("0s".parse::<Time>(), Err(QuantityError::OutOfRange { .. })));
        assert!(matches!("99999999TiB".parse::<ByteSize>(), Err(QuantityError::OutOfRange { .. })));
    }
}
