//! The families of instructions: each file has a table of ids and what builds their checks.

mod case;
mod combination;
mod content;
mod count;
mod custom;
mod format;
mod keywords;
mod layout;
mod length;
mod nesting;
mod ratio;
mod repeat;
mod word_sequence;
mod words;

use crate::{Args, Check};

/// Builds the check of an instruction from its arguments; the error names what is wrong with them.
pub type Build = fn(&Args) -> Result<Check, String>;

const FAMILIES: &[&[(&str, Build)]] = &[
    keywords::CHECKS,
    length::CHECKS,
    content::CHECKS,
    layout::CHECKS,
    combination::CHECKS,
    case::CHECKS,
    count::CHECKS,
    ratio::CHECKS,
    words::CHECKS,
    word_sequence::CHECKS,
    format::CHECKS,
    nesting::CHECKS,
    custom::CHECKS,
    repeat::CHECKS,
];

/// What builds the check of `id`.
pub fn builder(id: &str) -> Option<Build> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|(known, _)| *known == id).map(|(_, build)| *build)
}

/// Every id that is known.
pub fn ids() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|family| family.iter()).map(|(id, _)| *id)
}
