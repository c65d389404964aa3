//! A host for native tests: groups in one line, and capabilities that a test answers itself.
//!
//! State is per thread, as each test has its own.

use crate::export::Plugin;
use crate::host::{http, judge, log::Level};
use crate::{Configured, Descriptor, FinishReason, Group, Message, Role, Sample};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// A group of finished samples, one per response.
pub fn group(label: Option<&str>, responses: &[&str]) -> Group {
    Group {
        id: "g".into(),
        prompt: vec![Message::text(Role::User, "?")],
        label: label.map(str::to_owned),
        metadata: "{}".into(),
        samples: responses.iter().enumerate().map(|(i, r)| sample(&format!("g/{i}"), r)).collect(),
    }
}

/// A finished sample of one assistant message; a token per word.
pub fn sample(id: &str, response: &str) -> Sample {
    Sample {
        id: id.to_owned(),
        completion: vec![Message::text(Role::Assistant, response)],
        response: response.to_owned(),
        finish: FinishReason::Stop,
        prompt_tokens: 1,
        response_tokens: response.split_whitespace().count() as u32,
        turns: 1,
        environment_rewards: Vec::new(),
    }
}

/// The plugin that a recipe's configuration makes.
pub fn configured<P: Configured>(config: &str) -> Result<P, String> {
    crate::config::configured(config)
}

/// What `whet plugin inspect` will show of a plugin, once its macro has made it one.
pub fn describe<P: Plugin>() -> Descriptor {
    P::descriptor()
}

type Answer<Q, R> = Box<dyn FnMut(Q) -> R>;

thread_local! {
    static LINES: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
    static SEED: Cell<u64> = const { Cell::new(0) };
    static STORE: RefCell<HashMap<String, Vec<u8>>> = RefCell::new(HashMap::new());
    static JUDGE: RefCell<Option<Answer<judge::Request, Result<judge::Reply, judge::Failure>>>> =
        const { RefCell::new(None) };
    static HTTP: RefCell<Option<Answer<http::Request, Result<http::Response, http::Failure>>>> =
        const { RefCell::new(None) };
}

/// The lines logged so far by this thread; they are forgotten.
pub fn take_log() -> Vec<(Level, String)> {
    LINES.with(RefCell::take)
}

/// Restarts the random numbers.
pub fn seed(seed: u64) {
    SEED.set(seed);
}

/// Answers the judge's requests; without this they are denied.
pub fn answer_judge(f: impl FnMut(judge::Request) -> Result<judge::Reply, judge::Failure> + 'static) {
    JUDGE.set(Some(Box::new(f)));
}

/// Answers HTTP requests; without this they are denied.
pub fn answer_http(f: impl FnMut(http::Request) -> Result<http::Response, http::Failure> + 'static) {
    HTTP.set(Some(Box::new(f)));
}

pub(crate) fn log(level: Level, message: &str) {
    LINES.with_borrow_mut(|lines| lines.push((level, message.to_owned())));
}

/// SplitMix64.
pub(crate) fn next_u64() -> u64 {
    let state = SEED.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    SEED.set(state);
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

pub(crate) fn store_get(key: &str) -> Option<Vec<u8>> {
    STORE.with_borrow(|store| store.get(key).cloned())
}

pub(crate) fn store_set(key: &str, value: &[u8]) {
    STORE.with_borrow_mut(|store| match value {
        [] => store.remove(key),
        value => store.insert(key.to_owned(), value.to_vec()),
    });
}

pub(crate) fn judge(request: judge::Request) -> Result<judge::Reply, judge::Failure> {
    JUDGE.with_borrow_mut(|answer| match answer {
        Some(answer) => answer(request),
        None => Err(judge::Failure::Denied("no judge in this test; see testing::answer_judge".into())),
    })
}

pub(crate) fn http(request: http::Request) -> Result<http::Response, http::Failure> {
    HTTP.with_borrow_mut(|answer| match answer {
        Some(answer) => answer(request),
        None => Err(http::Failure::Denied("no HTTP in this test; see testing::answer_http".into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;
    use crate::{Error, Outcome, Reward};

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        limit: usize,
    }

    struct Short(usize);

    impl Configured for Short {
        type Config = Config;
        const SCHEMA: &'static str = r#"{"type":"object","properties":{"limit":{"type":"integer"}}}"#;
        fn new(config: Config) -> Result<Self, String> {
            if config.limit == 0 { Err("limit must be at least 1".into()) } else { Ok(Short(config.limit)) }
        }
    }

    impl Reward for Short {
        fn score(&self, group: &Group) -> Vec<Outcome> {
            group.samples.iter().map(|s| Outcome::correct(s.response.len() <= self.0)).collect()
        }
    }

    crate::reward!(Short: Configured);

    struct Plain;
    impl crate::Filter for Plain {}
    crate::filter!(Plain);

    #[test]
    fn a_reward_runs_natively_as_it_would_in_the_sandbox() {
        let short = configured::<Short>(r#"{"limit": 3}"#).unwrap();
        let outcomes = short.score(&group(None, &["abc", "abcd"]));
        assert_eq!(outcomes, [Outcome::scored(1.0), Outcome::scored(0.0)]);
    }

    #[test]
    fn a_configuration_error_names_the_key_and_the_reason() {
        let error = |config| configured::<Short>(config).err().unwrap();
        assert!(error(r#"{"limt": 3}"#).contains("`limt`"), "{}", error(r#"{"limt": 3}"#));
        assert_eq!(error(r#"{"limit": 0}"#), "limit must be at least 1");
        let error = Plain::make(r#"{"a": 1}"#).err().unwrap();
        assert_eq!(error, "this plugin takes no configuration");
        assert!(Plain::make(" { } ").is_ok());
    }

    #[test]
    fn an_instance_is_configured_once() {
        assert_eq!(crate::export::configure::<Short>(r#"{"limit": 2}"#), Ok(()));
        assert!(crate::export::configure::<Short>(r#"{"limit": 9}"#).is_err());
        let limit = crate::export::with_plugin(|short: &Short| short.0);
        assert_eq!(limit, Ok(2));
    }

    #[test]
    fn the_descriptor_comes_from_the_package() {
        let descriptor = describe::<Short>();
        assert_eq!(descriptor.name, "whet-plugin");
        assert_eq!(descriptor.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(descriptor.components, ["reward"]);
        assert_eq!(descriptor.config_schema, Short::SCHEMA);
    }

    #[test]
    fn capabilities_answer_as_the_test_says() {
        seed(7);
        let first = host::random::next_u64();
        assert_ne!(first, host::random::next_u64());
        seed(7);
        assert_eq!(first, host::random::next_u64());
        assert!((0.0..1.0).contains(&host::random::unit()));

        assert_eq!(host::store::get("k"), None);
        host::store::set("k", b"v").unwrap();
        assert_eq!(host::store::get("k").as_deref(), Some(&b"v"[..]));
        host::store::set("k", b"").unwrap();
        assert_eq!(host::store::get("k"), None);

        host::log::write(Level::Warn, "careful");
        assert_eq!(take_log(), [(Level::Warn, "careful".to_owned())]);

        let ask = || {
            host::judge::chat(judge::Request {
                messages: vec![Message::text(Role::User, "good?")],
                max_tokens: 1,
                temperature: 0.0,
                route: None,
            })
        };
        assert!(matches!(ask(), Err(judge::Failure::Denied(_))));
        answer_judge(|request| {
            Ok(judge::Reply {
                text: request.messages[0].joined_text().replace('?', "!"),
                input_tokens: 1,
                output_tokens: 1,
            })
        });
        assert_eq!(ask().unwrap().text, "good!");
        assert!(matches!(Error::from(judge::Failure::OverBudget), Error::Unavailable(_)));
    }

    #[test]
    fn media_are_read_in_pieces_that_never_pass_the_end() {
        let media = crate::Media::new("image/png", &[1, 2, 3, 4]);
        assert_eq!((media.mime().as_str(), media.size()), ("image/png", 4));
        assert_eq!(media.read(1, 2), [2, 3]);
        assert_eq!(media.read(3, 100), [4]);
        assert_eq!(media.read(u64::MAX, 1), [0u8; 0]);
    }

    #[test]
    fn metadata_becomes_a_type_or_an_error_that_names_it() {
        #[derive(serde::Deserialize)]
        struct Meta {
            level: u32,
        }
        let mut group = group(None, &[]);
        group.metadata = r#"{"level": 3}"#.into();
        assert_eq!(group.metadata_as::<Meta>().unwrap().level, 3);
        group.metadata = "{}".into();
        let error = group.metadata_as::<Meta>().err().unwrap();
        assert!(error.to_string().contains("level"), "{error}");
    }
}
