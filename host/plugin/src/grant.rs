//! What a recipe lets a plugin ask of the host.
//!
//! A component's imports are what it may want; the grants are what it gets. `log` and the types
//! need no grant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// One capability, as a recipe writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grant {
    /// `random`: seeded random numbers.
    Random,
    /// `store`: small values that live as long as the run.
    Store,
    /// `judge` or `judge:ROUTE`: a language model that judges.
    Judge {
        /// The only route allowed; all of them when absent.
        route: Option<String>,
    },
    /// `http:HOST`: requests to that host and no other.
    Http {
        /// Host name in lower case, with `:port` if the recipe names one.
        host: String,
    },
}

/// Why a text is not a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// No capability has this name.
    #[error("`{0}` is not a grant: write `random`, `store`, `judge`, `judge:ROUTE` or `http:HOST`")]
    Unknown(String),
    /// Every plugin may log.
    #[error("`log` needs no grant: every plugin may write to the run's log")]
    Log,
    /// `http` without a host, or with a host that names more than one.
    #[error("`{0}` must name one host, as in `http:api.example.com`")]
    Host(String),
}

impl Grant {
    /// The interface of `whet:plugin` that the grant opens.
    pub fn interface(&self) -> &'static str {
        match self {
            Grant::Random => "random",
            Grant::Store => "store",
            Grant::Judge { .. } => "judge",
            Grant::Http { .. } => "http",
        }
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        match (name, argument) {
            ("random", None) => Ok(Grant::Random),
            ("store", None) => Ok(Grant::Store),
            ("judge", None) => Ok(Grant::Judge { route: None }),
            ("judge", Some(route)) if !route.is_empty() => Ok(Grant::Judge { route: Some(route.to_owned()) }),
            ("http", Some(host)) if is_host(host) => Ok(Grant::Http { host: host.to_ascii_lowercase() }),
            ("http", _) => Err(GrantError::Host(text.to_owned())),
            ("log", None) => Err(GrantError::Log),
            _ => Err(GrantError::Unknown(text.to_owned())),
        }
    }
}

/// A DNS name or IPv4 address with an optional port; no scheme, path, user or wildcard.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let label =
        |l: &str| !l.is_empty() && l.len() <= 63 && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    name.len() <= 253 && name.split('.').all(label) && port.is_none_or(|p| p.parse::<u16>().is_ok())
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grant::Random | Grant::Store | Grant::Judge { route: None } => f.write_str(self.interface()),
            Grant::Judge { route: Some(route) } => write!(f, "judge:{route}"),
            Grant::Http { host } => write!(f, "http:{host}"),
        }
    }
}

/// A set of capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeSet<Grant>);

impl Grants {
    /// No capability but `log`.
    pub fn none() -> Self {
        Grants::default()
    }

    /// Reads the recipe's list.
    pub fn parse<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, GrantError> {
        texts.into_iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>().map(Grants)
    }

    /// True when some grant opens this interface of `whet:plugin`.
    pub fn allow(&self, interface: &str) -> bool {
        self.0.iter().any(|grant| grant.interface() == interface)
    }

    /// The grants in order.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        Grants(grants.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_read_back_what_they_wrote() {
        for text in ["random", "store", "judge", "judge:big", "http:api.example.com", "http:localhost:8080"] {
            assert_eq!(text.parse::<Grant>().map(|g| g.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_grant_that_means_nothing_or_too_much_is_refused() {
        let texts = [
            "",
            "network",
            "random:1",
            "judge:",
            "http",
            "http:",
            "http:*",
            "http:*.example.com",
            "http:a/b",
        ];
        for text in texts.into_iter().chain(["http:user@host", "http://a.example", "http:a:99999"]) {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
        assert_eq!("log".parse::<Grant>(), Err(GrantError::Log));
    }

    #[test]
    fn a_set_opens_the_interfaces_of_its_grants_and_no_other() {
        let grants = Grants::parse(["random", "http:api.example.com"]).unwrap();
        assert!(grants.allow("random") && grants.allow("http"));
        assert!(!grants.allow("store") && !grants.allow("judge"));
    }
}
