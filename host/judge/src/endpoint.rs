//! One route: where the judge is, and what it may cost.

use serde_json::{Map, Value};
use std::time::Duration;
use url::Url;
use whet_http::Key;

/// The text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address of a server: {why}")]
pub struct AddressError {
    text: String,
    why: String,
}

/// Reads a server's address: http or https, without user or password.
pub fn address(text: &str) -> Result<Url, AddressError> {
    let refused = |text: &str, why: String| AddressError { text: text.to_owned(), why };
    let url = Url::parse(text).map_err(|e| refused(text, e.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("…", "it holds a user or password, which would be written down".into()));
    }
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refused(text, "it must begin with http:// or https:// and a host".into()));
    }
    Ok(url)
}

/// A judge as a recipe describes it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The name by which plugins ask for it.
    pub route: String,
    /// The server's address up to `/chat/completions`, as in `https://api.example.com/v1`.
    pub base_url: Url,
    /// The model, as the server names it.
    pub model: String,
    /// The key that the server wants.
    pub key: Option<Key>,
    /// Requests at once.
    pub concurrency: usize,
    /// Requests per minute, tries included; as many as come when absent.
    pub requests_per_minute: Option<u32>,
    /// Tokens of questions and answers over the whole run; unbounded when absent.
    pub token_budget: Option<u64>,
    /// Tries after the first one, where a failure may pass.
    pub retries: u32,
    /// Time of one try.
    pub timeout: Duration,
    /// The longest answer that a plugin may ask for.
    pub max_tokens: u32,
    /// The highest temperature that a plugin may ask for.
    pub max_temperature: f64,
    /// Further keys of the request, as the server knows them.
    pub extra: Map<String, Value>,
}

impl Endpoint {
    /// An endpoint of the route `default` with the defaults of a recipe.
    pub fn new(base_url: Url, model: &str, key: Option<Key>) -> Self {
        Endpoint {
            route: "default".into(),
            base_url,
            model: model.to_owned(),
            key,
            concurrency: 8,
            requests_per_minute: None,
            token_budget: None,
            retries: 3,
            timeout: Duration::from_secs(60),
            max_tokens: 4096,
            max_temperature: 2.0,
            extra: Map::new(),
        }
    }

    /// Where conversations are continued.
    pub(crate) fn chat_url(&self) -> Url {
        let mut url = self.base_url.clone();
        let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    /// `text` as it may be shown: printable, short, without the key.
    pub(crate) fn shown(&self, text: &str) -> String {
        let text = self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text));
        let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        printable.take(300).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused_and_a_password_not_repeated() {
        for text in ["", "api.example.com", "ftp://a/v1", "http://", "file:///x"] {
            assert!(address(text).is_err(), "{text}");
        }
        let error = address("https://me:secret@a.example").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(!error.contains("secret") && error.contains("password"), "{error}");
    }

    #[test]
    fn the_address_keeps_its_path_and_query() {
        for (base, expected) in [
            ("https://a.example/v1", "https://a.example/v1/chat/completions"),
            ("https://a.example/v1/", "https://a.example/v1/chat/completions"),
            ("http://localhost:8000", "http://localhost:8000/chat/completions"),
            ("https://a.example/x?api-version=2", "https://a.example/x/chat/completions?api-version=2"),
        ] {
            let base = Url::parse(base).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(Endpoint::new(base, "m", None).chat_url().as_str(), expected);
        }
    }
}
