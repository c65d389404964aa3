//! The arguments of an instruction: typed, and an error that names what is wrong.
//!
//! Data sets pad arguments with nulls and turn whole numbers into floats; both are read. Nothing is
//! made up: an argument that is missing or out of range makes the row invalid.

use serde_json::{Map, Value};

/// The arguments of one instruction.
pub struct Args<'a> {
    id: &'a str,
    values: &'a Map<String, Value>,
}

/// How a count is compared with its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// `less than`
    LessThan,
    /// `at least`
    AtLeast,
}

impl Relation {
    /// Whether `count` stands in this relation to `limit`.
    pub fn holds(self, count: usize, limit: usize) -> bool {
        match self {
            Relation::LessThan => count < limit,
            Relation::AtLeast => count >= limit,
        }
    }
}

impl<'a> Args<'a> {
    /// Of the instruction `id`.
    pub fn new(id: &'a str, values: &'a Map<String, Value>) -> Self {
        Args { id, values }
    }

    fn value(&self, name: &str) -> Result<&'a Value, String> {
        match self.values.get(name) {
            Some(value) if !value.is_null() => Ok(value),
            _ => Err(format!("`{}` needs `{name}` in its kwargs", self.id)),
        }
    }

    fn wrong(&self, name: &str, wanted: &str) -> String {
        let given = self.values.get(name).unwrap_or(&Value::Null).to_string();
        let given: String = given.chars().take(60).collect();
        format!("`{}`: `{name}` must be {wanted}, not {given}", self.id)
    }

    /// A text that is not blank, without white space around it.
    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        match self.value(name)?.as_str().map(str::trim) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.wrong(name, "a text")),
        }
    }

    /// One or more texts that are not blank.
    pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, String> {
        let texts: Option<Vec<&str>> = self
            .value(name)?
            .as_array()
            .and_then(|list| list.iter().map(|v| v.as_str().map(str::trim)).collect());
        match texts {
            Some(texts) if !texts.is_empty() && texts.iter().all(|t| !t.is_empty()) => Ok(texts),
            _ => Err(self.wrong(name, "a list of texts")),
        }
    }

    /// A whole number from 0; `2.0` is one.
    pub fn count(&self, name: &str) -> Result<usize, String> {
        let value = self.value(name)?;
        let whole = value.as_u64().or_else(|| {
            let float = value.as_f64()?;
            ((0.0..=1e15).contains(&float) && float.fract() == 0.0).then_some(float as u64)
        });
        whole.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| self.wrong(name, "a whole number from 0"))
    }

    /// A whole number from 1.
    pub fn positive(&self, name: &str) -> Result<usize, String> {
        match self.count(name)? {
            0 => Err(self.wrong(name, "a whole number from 1")),
            n => Ok(n),
        }
    }

    /// A percentage, 0 to 100.
    pub fn percentage(&self, name: &str) -> Result<f64, String> {
        match self.value(name)?.as_f64() {
            Some(p) if (0.0..=100.0).contains(&p) => Ok(p),
            _ => Err(self.wrong(name, "a percentage from 0 to 100")),
        }
    }

    /// `less than` or `at least`.
    pub fn relation(&self, name: &str) -> Result<Relation, String> {
        match self.text(name)? {
            "less than" => Ok(Relation::LessThan),
            "at least" => Ok(Relation::AtLeast),
            _ => Err(self.wrong(name, "\"less than\" or \"at least\"")),
        }
    }

    /// The error of an argument that contradicts another.
    pub fn contradiction(&self, name: &str, wanted: &str) -> String {
        self.wrong(name, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_data_sets_write_them_and_faults_are_named() {
        let values =
            serde_json::json!({"a": 2.0, "b": 2.5, "c": -1, "d": "x", "e": null, "f": 0, "g": ["x", ""]});
        let values = values.as_object().unwrap();
        let args = Args::new("id", values);
        assert_eq!(args.count("a"), Ok(2));
        assert_eq!(args.count("f"), Ok(0));
        assert_eq!(args.count("b"), Err("`id`: `b` must be a whole number from 0, not 2.5".into()));
        assert!(args.count("c").is_err() && args.positive("f").is_err());
        assert_eq!(args.text("e"), Err("`id` needs `e` in its kwargs".into()));
        assert!(args.relation("d").unwrap_err().contains("less than"));
        assert!(args.texts("g").is_err() && args.texts("d").is_err() && args.percentage("c").is_err());
    }
}
