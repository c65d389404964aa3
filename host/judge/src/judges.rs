//! Asking: by route, from the cache or from the endpoint, within pace and budget, again where it may help.

use crate::cache::{Cache, CacheError, Found, Memory};
use crate::chat;
use crate::endpoint::Endpoint;
use crate::pace::Pace;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use whet_capability::{HostCall, Judge, JudgeError, Question, Reply};
use whet_http::{Answer, Exchange, ExchangeError, send};

/// The largest answer of a server, in bytes.
const ANSWER_BYTES: usize = 8 << 20;
/// The wait before the second try; it doubles with every further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait that doubling leads to.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The judges of a run.
pub struct Judges {
    routes: Vec<Route>,
    cache: Cache,
}

struct Route {
    endpoint: Endpoint,
    pace: Pace,
    /// Tokens spent, and those that requests under way may spend.
    spent: Mutex<u64>,
}

/// How a try failed.
struct Failed {
    error: JudgeError,
    /// Another try may succeed.
    may_pass: bool,
    /// The server's own wish when to come back.
    after: Option<Duration>,
}

impl Judges {
    /// The judges behind these endpoints, the first being the one for plugins that name none. Answers are
    /// looked for in `memory` and kept there; tokens that it records count against the budgets.
    pub fn new(endpoints: Vec<Endpoint>, memory: Memory<'_>) -> Result<Self, CacheError> {
        let (cache, spent) = Cache::open(memory)?;
        let routes = endpoints.into_iter().map(|endpoint| Route {
            pace: Pace::new(endpoint.concurrency, endpoint.requests_per_minute),
            spent: Mutex::new(spent.get(&endpoint.route).copied().unwrap_or(0)),
            endpoint,
        });
        Ok(Judges { routes: routes.collect(), cache })
    }

    fn route(&self, name: Option<&str>) -> Result<&Route, JudgeError> {
        let found = match name {
            None => self.routes.first(),
            Some(name) => self.routes.iter().find(|route| route.endpoint.route == name),
        };
        found.ok_or_else(|| {
            let known: Vec<&str> = self.routes.iter().map(|route| route.endpoint.route.as_str()).collect();
            let name = name.unwrap_or("default").chars().take(64).collect::<String>();
            JudgeError::Denied(format!(
                "there is no judge `{}`; there are: {}",
                name.escape_debug(),
                known.join(", ")
            ))
        })
    }
}

impl Judge for Judges {
    fn chat(
        &self,
        route: Option<&str>,
        question: &Question,
        call: &HostCall<'_>,
    ) -> Result<Reply, JudgeError> {
        let route = self.route(route)?;
        route.check(question)?;
        let body = chat::request(&route.endpoint, question);
        let ticket = match self.cache.find(&digest(&route.endpoint.route, &body), call) {
            Found::Answer(reply) => return Ok(reply),
            Found::TimedOut => return Err(JudgeError::TimedOut),
            Found::Ticket(ticket) => ticket,
        };
        let body = body.to_string();
        let reserved = u64::from(question.max_tokens) + chat::estimate(body.len());
        route.reserve(reserved)?;
        let asked = route.ask(&body, call);
        let used = asked.as_ref().map_or(0, |r| u64::from(r.input_tokens) + u64::from(r.output_tokens));
        route.settle(reserved, used);
        let reply = asked?;
        let kept = ticket.keep(&route.endpoint.route, &reply);
        kept.map_err(|e| JudgeError::Upstream(format!("the answer cannot be kept: {}", with_source(&e))))?;
        Ok(reply)
    }
}

/// The question's name in the cache: everything that the answer depends on.
fn digest(route: &str, body: &Value) -> String {
    let hash = Sha256::digest(json!([route, body]).to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn with_source(error: &CacheError) -> String {
    let source = std::error::Error::source(error).map(|s| format!(": {s}")).unwrap_or_default();
    format!("{error}{source}")
}

impl Route {
    /// What a plugin may not ask for.
    fn check(&self, question: &Question) -> Result<(), JudgeError> {
        let Endpoint { route, max_tokens, max_temperature, .. } = &self.endpoint;
        if question.messages.is_empty() {
            return Err(JudgeError::Denied("a question needs at least one message".into()));
        }
        if question.max_tokens == 0 || question.max_tokens > *max_tokens {
            let asked = question.max_tokens;
            return Err(JudgeError::Denied(format!(
                "{asked} tokens asked for; judge `{route}` gives 1 to {max_tokens}"
            )));
        }
        // Not within: NaN too.
        if !(0.0..=*max_temperature).contains(&f64::from(question.temperature)) {
            let asked = question.temperature;
            return Err(JudgeError::Denied(format!(
                "temperature {asked} asked for; judge `{route}` goes from 0 to {max_temperature}"
            )));
        }
        Ok(())
    }

    fn reserve(&self, tokens: u64) -> Result<(), JudgeError> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.endpoint.token_budget.is_some_and(|budget| spent.saturating_add(tokens) > budget) {
            return Err(JudgeError::OverBudget);
        }
        *spent = spent.saturating_add(tokens);
        Ok(())
    }

    fn settle(&self, reserved: u64, used: u64) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = spent.saturating_sub(reserved).saturating_add(used);
    }

    /// Tries until there is a reply, no further try may help, or the call's time is up.
    fn ask(&self, body: &str, call: &HostCall<'_>) -> Result<Reply, JudgeError> {
        let mut wait = FIRST_WAIT;
        let mut tries_left = self.endpoint.retries;
        loop {
            let failed = match self.try_once(body, call) {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            let pause = failed.after.unwrap_or(wait);
            if let Some(rest) = failed.after {
                self.pace.rest(rest);
            }
            if !failed.may_pass || tries_left == 0 || pause >= call.patience() {
                return Err(failed.error);
            }
            tries_left -= 1;
            wait = (wait * 2).min(LONGEST_WAIT);
            if call.cancel.sleep(pause) {
                return Err(JudgeError::TimedOut);
            }
        }
    }

    fn try_once(&self, body: &str, call: &HostCall<'_>) -> Result<Reply, Failed> {
        let endpoint = &self.endpoint;
        let timed_out = |may_pass| Failed { error: JudgeError::TimedOut, may_pass, after: None };
        let Some(_place) = self.pace.enter(call) else { return Err(timed_out(false)) };
        let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        headers.extend(endpoint.key.as_ref().map(|key| key.bearer()));
        let exchange = Exchange {
            method: "POST",
            url: endpoint.chat_url(),
            headers,
            body: body.as_bytes().to_vec(),
            response_bytes: ANSWER_BYTES,
        };
        let deadline = (Instant::now() + endpoint.timeout).min(call.deadline);
        match send(exchange, deadline, call.cancel) {
            Ok(answer) => self.read(&answer, body.len()),
            Err(ExchangeError::TimedOut) => Err(timed_out(!call.patience().is_zero())),
            Err(e) => Err(Failed {
                error: JudgeError::Upstream(endpoint.shown(&e.to_string())),
                may_pass: matches!(e, ExchangeError::Failed(_)),
                after: None,
            }),
        }
    }

    fn read(&self, answer: &Answer, asked: usize) -> Result<Reply, Failed> {
        let endpoint = &self.endpoint;
        let failed = |text: String, may_pass| Failed {
            error: JudgeError::Upstream(endpoint.shown(&text)),
            may_pass,
            after: None,
        };
        let status = answer.status;
        match status {
            200..=299 => chat::reply(&answer.body, asked).map_err(|why| failed(why, true)),
            300..=399 => Err(failed(
                format!(
                    "the server answers {status}, a redirect, which is not followed: write the final address as base-url"
                ),
                false,
            )),
            // What the server says about a key may repeat it in part.
            401 | 403 => Err(failed(
                match &endpoint.key {
                    Some(key) => format!("the server refuses the key of `{}` ({status})", key.variable()),
                    None => format!("the server wants a key ({status}): name its variable as api-key-env"),
                },
                false,
            )),
            _ => {
                let may_pass = matches!(status, 408 | 409 | 425 | 429 | 500..=599);
                let text = format!("the server answers {status}: {}", chat::complaint(&answer.body));
                let after = answer.header("retry-after").and_then(|s| s.trim().parse::<f64>().ok());
                let after = after.and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|_| may_pass);
                Err(Failed { after, ..failed(text, may_pass) })
            }
        }
    }
}
