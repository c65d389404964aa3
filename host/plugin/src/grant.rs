//! What a recipe lets a plugin ask of the host.
//!
//! A component's imports are what it may want; the grants are what it gets. `log` and the types
//! need no grant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use whet_capability::AllowedHost;

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
    /// `http:HOST`: requests to that host and no other; `http-local:HOST` even where its name leads to
    /// this machine or a private network.
    Http {
        /// The host, with `:port` if the recipe names one.
        host: AllowedHost,
    },
}

/// Why a text is not a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// No capability has this name.
    #[error(
        "`{0}` is not a grant: write `random`, `store`, `judge`, `judge:ROUTE`, `http:HOST` or `http-local:HOST`"
    )]
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
            ("http" | "http-local", host) => {
                let host: Option<AllowedHost> = host.and_then(|host| host.parse().ok());
                let host = host.ok_or_else(|| GrantError::Host(text.to_owned()))?;
                Ok(Grant::Http { host: if name == "http-local" { host.local() } else { host } })
            }
            ("log", None) => Err(GrantError::Log),
            _ => Err(GrantError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grant::Random | Grant::Store | Grant::Judge { route: None } => f.write_str(self.interface()),
            Grant::Judge { route: Some(route) } => write!(f, "judge:{route}"),
            Grant::Http { host } if host.local => write!(f, "http-local:{host}"),
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

    /// The hosts that `http` may go to.
    pub fn hosts(&self) -> Vec<AllowedHost> {
        let host = |grant: &Grant| match grant {
            Grant::Http { host } => Some(host.clone()),
            _ => None,
        };
        self.0.iter().filter_map(host).collect()
    }

    /// The judge that a question goes to which names `asked`, or none: the outer `None` where the grants
    /// do not allow it, the inner one for the first of the recipe.
    pub fn route<'a>(&'a self, asked: Option<&'a str>) -> Option<Option<&'a str>> {
        let routes = self.0.iter().filter_map(|grant| match grant {
            Grant::Judge { route } => Some(route.as_deref()),
            _ => None,
        });
        let routes: Vec<Option<&str>> = routes.collect();
        match asked {
            _ if routes.contains(&None) => Some(asked),
            Some(asked) => routes.contains(&Some(asked)).then_some(Some(asked)),
            None => routes.first().copied(),
        }
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
        let texts = [
            "random",
            "store",
            "judge",
            "judge:big",
            "http:api.example.com",
            "http:localhost:8080",
            "http-local:[::1]:8080",
        ];
        for text in texts {
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
    fn a_question_goes_to_a_judge_that_was_granted() {
        let all = Grants::parse(["judge"]).unwrap();
        assert_eq!((all.route(None), all.route(Some("big"))), (Some(None), Some(Some("big"))));
        let one = Grants::parse(["judge:big"]).unwrap();
        assert_eq!((one.route(None), one.route(Some("big"))), (Some(Some("big")), Some(Some("big"))));
        assert_eq!((one.route(Some("small")), Grants::none().route(None)), (None, None));
    }

    #[test]
    fn a_set_opens_the_interfaces_of_its_grants_and_no_other() {
        let grants = Grants::parse(["random", "http:api.example.com"]).unwrap();
        assert!(grants.allow("random") && grants.allow("http"));
        assert!(!grants.allow("store") && !grants.allow("judge"));
    }
}
