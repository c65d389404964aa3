//! What a plugin may ask of the host. The recipe grants each of these; what the code does not use,
//! the component does not import. In native tests the answers come from `whet_plugin::testing`.

#[cfg(target_arch = "wasm32")]
use crate::bindings::capabilities::whet::plugin as wit;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing;

/// The run's log. Writing never fails; the host truncates and escapes.
pub mod log {
    use super::*;

    /// How loud a line is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Level {
        /// For the plugin's author.
        Debug,
        /// For the run's log.
        Info,
        /// For the person who runs it.
        Warn,
        /// Something is broken.
        Error,
    }

    /// Writes one line.
    pub fn write(level: Level, message: &str) {
        #[cfg(target_arch = "wasm32")]
        {
            let level = match level {
                Level::Debug => wit::log::Level::Debug,
                Level::Info => wit::log::Level::Info,
                Level::Warn => wit::log::Level::Warn,
                Level::Error => wit::log::Level::Error,
            };
            wit::log::log(level, message);
        }
        #[cfg(not(target_arch = "wasm32"))]
        testing::log(level, message);
    }
}

/// Random numbers from the run's seed and the sample: the same on replay.
pub mod random {
    use super::*;

    /// 64 random bits.
    pub fn next_u64() -> u64 {
        #[cfg(target_arch = "wasm32")]
        return wit::random::next_u64();
        #[cfg(not(target_arch = "wasm32"))]
        testing::next_u64()
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit() -> f64 {
        (next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Small values that live as long as the run, private to this plugin. Calls run at once and in no
/// promised order: a plugin that must replay keeps only what does not depend on the order.
pub mod store {
    use super::*;
    use crate::Error;

    /// Why a value was not kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Failure {
        /// The key is too long.
        KeyTooLong,
        /// The value is too large.
        ValueTooLarge,
        /// The plugin's share is used up.
        Full,
    }

    impl From<Failure> for Error {
        fn from(failure: Failure) -> Self {
            Error::Unavailable(match failure {
                Failure::KeyTooLong => "the store refuses a key: too long".into(),
                Failure::ValueTooLarge => "the store refuses a value: too large".into(),
                Failure::Full => "the store is full".into(),
            })
        }
    }

    /// The value of `key`, if it was set.
    pub fn get(key: &str) -> Option<Vec<u8>> {
        #[cfg(target_arch = "wasm32")]
        return wit::store::get(key);
        #[cfg(not(target_arch = "wasm32"))]
        testing::store_get(key)
    }

    /// Replaces the value of `key`; an empty value removes it.
    pub fn set(key: &str, value: &[u8]) -> Result<(), Failure> {
        #[cfg(target_arch = "wasm32")]
        return wit::store::set(key, value).map_err(|error| match error {
            wit::store::StoreError::KeyTooLong => Failure::KeyTooLong,
            wit::store::StoreError::ValueTooLarge => Failure::ValueTooLarge,
            wit::store::StoreError::Full => Failure::Full,
        });
        #[cfg(not(target_arch = "wasm32"))]
        {
            testing::store_set(key, value);
            Ok(())
        }
    }
}

/// A language model that judges, chosen and paid for by the host.
pub mod judge {
    use super::*;
    use crate::{Error, Message};

    /// What is asked.
    #[derive(Clone, Debug)]
    pub struct Request {
        /// The conversation.
        pub messages: Vec<Message>,
        /// Length of the answer, in tokens.
        pub max_tokens: u32,
        /// 0 for the likeliest answer.
        pub temperature: f32,
        /// One of the judges that the recipe names; `None` for its first.
        pub route: Option<String>,
    }

    /// What the judge answered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Reply {
        /// The answer.
        pub text: String,
        /// Tokens that were read.
        pub input_tokens: u32,
        /// Tokens that were written.
        pub output_tokens: u32,
    }

    /// Why there is no answer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Failure {
        /// The recipe does not grant it.
        Denied(String),
        /// The run's budget is used up.
        OverBudget,
        /// The judge took too long.
        TimedOut,
        /// The judge answered with an error.
        Upstream(String),
    }

    impl From<Failure> for Error {
        fn from(failure: Failure) -> Self {
            Error::Unavailable(match failure {
                Failure::Denied(why) => format!("the judge is denied: {why}"),
                Failure::OverBudget => "the judge's budget is used up".into(),
                Failure::TimedOut => "the judge timed out".into(),
                Failure::Upstream(why) => format!("the judge failed: {why}"),
            })
        }
    }

    /// Asks the judge.
    pub fn chat(request: Request) -> Result<Reply, Failure> {
        #[cfg(target_arch = "wasm32")]
        {
            let request = wit::judge::Request {
                messages: crate::guest::messages_out(request.messages),
                max_tokens: request.max_tokens,
                temperature: request.temperature,
                route: request.route,
            };
            match wit::judge::chat(request) {
                Ok(reply) => Ok(Reply {
                    text: reply.text,
                    input_tokens: reply.input_tokens,
                    output_tokens: reply.output_tokens,
                }),
                Err(wit::judge::JudgeError::Denied(why)) => Err(Failure::Denied(why)),
                Err(wit::judge::JudgeError::OverBudget) => Err(Failure::OverBudget),
                Err(wit::judge::JudgeError::TimedOut) => Err(Failure::TimedOut),
                Err(wit::judge::JudgeError::Upstream(why)) => Err(Failure::Upstream(why)),
            }
        }
        #[cfg(not(target_arch = "wasm32"))]
        testing::judge(request)
    }
}

/// HTTP to the hosts that the recipe allows, and to no other.
pub mod http {
    use super::*;
    use crate::Error;

    /// A request.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Request {
        /// `GET`, `POST`, …
        pub method: String,
        /// An absolute address.
        pub url: String,
        /// Names and values.
        pub headers: Vec<(String, String)>,
        /// May be empty.
        pub body: Vec<u8>,
    }

    /// A response.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Response {
        /// As in 200.
        pub status: u16,
        /// Names and values.
        pub headers: Vec<(String, String)>,
        /// May be empty.
        pub body: Vec<u8>,
    }

    /// Why there is no response.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Failure {
        /// The recipe does not grant it.
        Denied(String),
        /// It took too long.
        TimedOut,
        /// The response exceeds the limit.
        TooLarge,
        /// The connection failed.
        Failed(String),
    }

    impl From<Failure> for Error {
        fn from(failure: Failure) -> Self {
            Error::Unavailable(match failure {
                Failure::Denied(why) => format!("the request is denied: {why}"),
                Failure::TimedOut => "the request timed out".into(),
                Failure::TooLarge => "the response is too large".into(),
                Failure::Failed(why) => format!("the request failed: {why}"),
            })
        }
    }

    /// Sends a request.
    pub fn fetch(request: Request) -> Result<Response, Failure> {
        #[cfg(target_arch = "wasm32")]
        {
            let request = wit::http::Request {
                method: request.method,
                url: request.url,
                headers: request.headers,
                body: request.body,
            };
            match wit::http::fetch(&request) {
                Ok(r) => Ok(Response { status: r.status, headers: r.headers, body: r.body }),
                Err(wit::http::HttpError::Denied(why)) => Err(Failure::Denied(why)),
                Err(wit::http::HttpError::TimedOut) => Err(Failure::TimedOut),
                Err(wit::http::HttpError::TooLarge) => Err(Failure::TooLarge),
                Err(wit::http::HttpError::Failed(why)) => Err(Failure::Failed(why)),
            }
        }
        #[cfg(not(target_arch = "wasm32"))]
        testing::http(request)
    }
}
