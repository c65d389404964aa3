//! A secret that a request carries and nothing else shows.

use std::fmt;

/// The value of an environment variable that a recipe names. It has no `Display`, its `Debug` is the
/// variable's name, and nothing serialises it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    variable: String,
    value: String,
}

/// Why there is no key. Never holds any of its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The variable is not set, or empty.
    #[error("the environment variable `{0}` is not set")]
    Unset(String),
    /// The value cannot stand in a header.
    #[error("the value of the environment variable `{0}` holds spaces or characters that a key cannot have")]
    Malformed(String),
}

impl Key {
    /// Reads the variable.
    pub fn from_env(variable: &str) -> Result<Self, KeyError> {
        Key::new(variable, &std::env::var(variable).unwrap_or_default())
    }

    /// A key with this value, known to people as `variable`.
    pub fn new(variable: &str, value: &str) -> Result<Self, KeyError> {
        let value = value.trim();
        if value.is_empty() {
            return Err(KeyError::Unset(variable.to_owned()));
        }
        if !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(KeyError::Malformed(variable.to_owned()));
        }
        Ok(Key { variable: variable.to_owned(), value: value.to_owned() })
    }

    /// The variable's name.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// The header `Authorization` with this key.
    pub fn bearer(&self) -> (String, String) {
        ("Authorization".to_owned(), format!("Bearer {}", self.value))
    }

    /// `text` with the key taken out: servers like to repeat what they were sent.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.value, "[key]")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_shows_its_variable_and_not_itself() {
        let key = Key::new("NAME", " sk-123 ").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(format!("{key:?}"), "Key(NAME)");
        assert_eq!(key.redact("bad key sk-123!"), "bad key [key]!");
        assert_eq!(key.bearer().1, "Bearer sk-123");
    }

    #[test]
    fn what_cannot_be_a_key_is_refused_without_being_told() {
        assert_eq!(Key::new("NAME", " "), Err(KeyError::Unset("NAME".into())));
        let error = Key::new("NAME", "sk\r\nHost: x").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("NAME") && !error.contains("sk"), "{error}");
    }
}
