//! Units of measurement behind a number: which are the same, and by what factor they differ.

use crate::syntax::Rational;
use num_bigint::BigInt;

/// Names of one unit, its dimension, and its size as a fraction of the dimension's base unit.
type Row = (&'static [&'static str], &'static str, i64, i64);

const UNITS: &[Row] = &[
    (&["mm", "millimeter", "millimetre"], "length", 1, 1000),
    (&["cm", "centimeter", "centimetre"], "length", 1, 100),
    (&["m", "meter", "metre"], "length", 1, 1),
    (&["km", "kilometer", "kilometre"], "length", 1000, 1),
    (&["in", "inch", "inche"], "length", 254, 10000),
    (&["ft", "foot", "feet"], "length", 3048, 10000),
    (&["yd", "yard"], "length", 9144, 10000),
    (&["mi", "mile"], "length", 1609344, 1000),
    (&["ms", "millisecond"], "time", 1, 1000),
    (&["s", "sec", "second"], "time", 1, 1),
    (&["min", "minute"], "time", 60, 1),
    (&["h", "hr", "hour"], "time", 3600, 1),
    (&["day"], "time", 86400, 1),
    (&["week", "wk"], "time", 604800, 1),
    (&["year", "yr"], "year", 1, 1),
    (&["month"], "month", 1, 1),
    (&["mg", "milligram"], "mass", 1, 1000),
    (&["g", "gram"], "mass", 1, 1),
    (&["kg", "kilogram"], "mass", 1000, 1),
    (&["lb", "pound"], "pound", 1, 1),
    (&["oz", "ounce"], "ounce", 1, 1),
    (&["ml", "milliliter", "millilitre"], "volume", 1, 1000),
    (&["l", "liter", "litre"], "volume", 1, 1),
    (&["cup"], "cup", 1, 1),
    (&["ton"], "ton", 1, 1),
    (&["hz", "hertz"], "frequency", 1, 1),
    (&["khz", "kilohertz"], "frequency", 1000, 1),
    (&["cent", "¢"], "dollar", 1, 100),
    (&["dollar", "usd", "$"], "dollar", 1, 1),
    (&["euro", "eur", "€"], "euro", 1, 1),
    (&["£", "gbp"], "sterling", 1, 1),
    (&["¥", "yen"], "yen", 1, 1),
    (&["₹", "rupee"], "rupee", 1, 1),
    (&["degree", "deg", "°"], "degree", 1, 1),
    (&["rad", "radian"], "radian", 1, 1),
    (&["n", "newton"], "newton", 1, 1),
    (&["j", "joule"], "joule", 1, 1),
    (&["w", "watt"], "watt", 1, 1),
    (&["v", "volt"], "volt", 1, 1),
    (&["k", "kelvin"], "kelvin", 1, 1),
    (&["hundred"], "", 100, 1),
    (&["thousand"], "", 1000, 1),
    (&["million"], "", 1_000_000, 1),
    (&["billion"], "", 1_000_000_000, 1),
    (&["trillion"], "", 1_000_000_000_000, 1),
    (&["dozen"], "", 12, 1),
];

fn row(word: &str) -> Option<&'static Row> {
    let word = word.trim_end_matches('.').to_lowercase();
    let singular = word.strip_suffix('s').filter(|w| w.len() > 1);
    let find = |w: &str| UNITS.iter().find(|row| row.0.contains(&w));
    find(&word).or_else(|| singular.and_then(find))
}

/// Whether a word is a unit of the table; a lone letter only where it is one without doubt.
pub fn is_known(word: &str) -> bool {
    match word.len() {
        1 => matches!(word, "m" | "g" | "s" | "h" | "L"),
        _ => matches!(word, "mph" | "kph" | "kmph") || row(word).is_some(),
    }
}

/// Words that hedge, negate or connect are no unit.
pub fn is_unit_phrase(words: &str) -> bool {
    const NO_UNIT: &[&str] = &[
        "or", "and", "to", "not", "if", "but", "because", "since", "plus", "minus", "times", "than", "no",
        "maybe", "more", "less", "least", "most", "half", "score", "mod", "modulo",
    ];
    let count = words.split([' ', '/', '^']).filter(|w| !w.is_empty()).count();
    count <= 5 && !words.split([' ', ',', '(', ')']).any(|w| NO_UNIT.contains(&w.to_lowercase().as_str()))
}

/// A unit in base units: its dimensions with their exponents, and its size.
#[derive(Debug, PartialEq)]
pub struct Unit {
    /// Dimension (or the unknown unit's own name) and exponent, sorted.
    pub dimensions: Vec<(String, i32)>,
    /// Size in base units.
    pub size: Rational,
    /// What number words multiply by: `million`.
    pub multiplier: Rational,
}

/// Reads `cm`, `square feet`, `km/h`, `m/s^2`, `miles per hour`, `million dollars`.
pub fn read(words: &str) -> Unit {
    let words = words.replace("mph", "mile / hour").replace("kmph", "km / h").replace("kph", "km / h");
    let spaced = words.replace('/', " / ").replace("per ", "/ ").replace(['·', '*'], " ");
    let mut dimensions: Vec<(String, i32)> = Vec::new();
    let mut size = Rational::from_integer(BigInt::from(1));
    let mut multiplier = size.clone();
    let (mut sign, mut power) = (1, 1);
    for word in spaced.split_whitespace() {
        match word {
            "/" => {
                sign = -1;
                continue;
            }
            "square" | "sq" | "sq." => {
                power = 2;
                continue;
            }
            "cubic" | "cu" | "cu." => {
                power = 3;
                continue;
            }
            "squared" | "cubed" => {
                let by = if word == "squared" { 2 } else { 3 };
                if let Some(last) = dimensions.last_mut() {
                    last.1 *= by;
                }
                continue;
            }
            "of" | "the" | "a" | "an" => continue,
            _ => {}
        }
        let (name, exponent) = match word.split_once('^') {
            Some((name, e)) => (name, e.trim_matches(['{', '}']).parse().unwrap_or(1)),
            None => (word, power),
        };
        let exponent: i32 = exponent * sign;
        power = 1;
        let (dimension, scale) = match row(name) {
            Some(&(_, dimension, above, below)) => {
                (dimension.to_owned(), Rational::new(BigInt::from(above), BigInt::from(below)))
            }
            None => {
                let lower = name.trim_matches(['.', ',']).to_lowercase();
                let bare = lower.strip_suffix('s').filter(|w| w.len() > 1).unwrap_or(&lower).to_owned();
                (bare, Rational::from_integer(BigInt::from(1)))
            }
        };
        if dimension.is_empty() {
            multiplier *= scale;
            continue;
        }
        size *= scale.pow(exponent.clamp(-9, 9));
        match dimensions.iter_mut().find(|d| d.0 == dimension) {
            Some(known) => known.1 += exponent,
            None => dimensions.push((dimension, exponent)),
        }
    }
    dimensions.retain(|d| d.1 != 0);
    dimensions.sort();
    Unit { dimensions, size, multiplier }
}
