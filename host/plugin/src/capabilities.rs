//! What the host does for a guest that asks: `log`, `random`, `store`, `judge`, `http`.
//!
//! These run on the guest's thread, where neither clock nor fuel can interrupt them. So each does a
//! bounded amount of work and counts against the call's budget; `judge` and `http` wait for others, by
//! a deadline that whoever answers them keeps, and what they wait is not the plugin's own time.

use crate::CallError;
use crate::bindings::base::whet::plugin::{http, judge, log, random, store};
use crate::convert;
use crate::log::{LINE_BYTES, LogLevel, LogLine, sanitise};
use crate::state::CallState;
use crate::store::Refusal;
use whet_capability::{HttpError, HttpRequest, JudgeError, Question};

/// Bytes kept of the last error line, for the message of a trap.
const LAST_ERROR_BYTES: usize = 1 << 10;

/// Counts a call of a capability, and stops the guest when it has used up its share.
fn spend(count: &mut u64, limit: u64, capability: &'static str) -> wasmtime::Result<()> {
    *count += 1;
    if *count > limit {
        return Err(wasmtime::Error::new(CallError::HostQuota { capability, limit }));
    }
    Ok(())
}

impl log::Host for CallState {
    fn log(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        if level == LogLevel::Error {
            self.last_error = Some(sanitise(&message, LAST_ERROR_BYTES));
        }
        let limits = &self.shared.limits;
        let room = limits.log_bytes.saturating_sub(self.log_bytes).min(LINE_BYTES);
        if self.log_lines >= limits.log_lines || room == 0 {
            self.log_dropped += 1;
            return Ok(());
        }
        let text = sanitise(&message, room);
        self.log_lines += 1;
        self.log_bytes += text.len();
        if let Some(sink) = &self.shared.sink {
            let plugin = self.shared.plugin();
            sink(&LogLine { plugin: &plugin, subject: self.subject.name(), level, text: &text });
        }
        Ok(())
    }
}

impl random::Host for CallState {
    fn next_u64(&mut self) -> wasmtime::Result<u64> {
        spend(&mut self.calls.random, self.shared.limits.host_calls, "random")?;
        let state = match self.random {
            Some(state) => state,
            None => self.random_seed(),
        };
        let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random = Some(state);
        Ok(split_mix(state))
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn split_mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl store::Host for CallState {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        spend(&mut self.calls.store, self.shared.limits.host_calls, "store")?;
        let values = self.shared.values.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(values.get(&key).map(<[u8]>::to_vec))
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), store::StoreError>> {
        spend(&mut self.calls.store, self.shared.limits.host_calls, "store")?;
        let mut values = self.shared.values.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(values.set(key, value, self.shared.limits.store_bytes).map_err(|refusal| match refusal {
            Refusal::KeyTooLong => store::StoreError::KeyTooLong,
            Refusal::ValueTooLarge => store::StoreError::ValueTooLarge,
            Refusal::Full => store::StoreError::Full,
        }))
    }
}

impl judge::Host for CallState {
    fn chat(&mut self, asked: judge::Request) -> wasmtime::Result<Result<judge::Reply, judge::JudgeError>> {
        spend(&mut self.calls.judge, self.shared.limits.requests, "judge")?;
        let question = Question {
            messages: convert::messages_from(asked.messages, &mut self.table)?,
            max_tokens: asked.max_tokens,
            temperature: asked.temperature,
        };
        let answer = self.wait_for(|shared, call| {
            let Some(route) = shared.grants.route(asked.route.as_deref()) else {
                return Err(JudgeError::Denied("the recipe does not grant this judge".into()));
            };
            match &shared.services.judge {
                Some(judge) => judge.chat(route, &question, call),
                None => Err(JudgeError::Denied("this host has no judge".into())),
            }
        });
        Ok(match answer {
            Ok(reply) => Ok(judge::Reply {
                text: reply.text,
                input_tokens: reply.input_tokens,
                output_tokens: reply.output_tokens,
            }),
            Err(JudgeError::Denied(why)) => Err(judge::JudgeError::Denied(why)),
            Err(JudgeError::OverBudget) => Err(judge::JudgeError::OverBudget),
            Err(JudgeError::TimedOut) => Err(judge::JudgeError::TimedOut),
            Err(JudgeError::Upstream(why)) => Err(judge::JudgeError::Upstream(why)),
        })
    }
}

impl http::Host for CallState {
    fn fetch(&mut self, asked: http::Request) -> wasmtime::Result<Result<http::Response, http::HttpError>> {
        spend(&mut self.calls.http, self.shared.limits.requests, "http")?;
        let request =
            HttpRequest { method: asked.method, url: asked.url, headers: asked.headers, body: asked.body };
        let Some(left) = self.http_bytes_left.checked_sub(request.body.len()) else {
            let limit = self.shared.limits.http_bytes as u64;
            return Err(wasmtime::Error::new(CallError::HostQuota { capability: "http", limit }));
        };
        let most = left.min(self.shared.limits.response_bytes);
        let answer = self.wait_for(|shared, call| match &shared.services.http {
            Some(http) => http.fetch(&request, &shared.hosts, most, call),
            None => Err(HttpError::Denied("this host makes no requests for plugins".into())),
        });
        self.http_bytes_left = left.saturating_sub(answer.as_ref().map_or(0, |answer| answer.body.len()));
        Ok(match answer {
            Ok(answer) => {
                Ok(http::Response { status: answer.status, headers: answer.headers, body: answer.body })
            }
            Err(HttpError::Denied(why)) => Err(http::HttpError::Denied(why)),
            Err(HttpError::TimedOut) => Err(http::HttpError::TimedOut),
            Err(HttpError::TooLarge) => Err(http::HttpError::TooLarge),
            Err(HttpError::Failed(why)) => Err(http::HttpError::Failed(why)),
        })
    }
}
