//! A teacher at a server with OpenAI's `/completions`: what it thinks of given tokens.
//!
//! vLLM tells a prompt's log-probabilities by token id (`prompt_logprobs`), others, SGLang among them, echo the
//! prompt with them (`echo` and `logprobs`). Which of the two a server does is found out by the first request,
//! which also shows whether its tokens are ours. The server's key never reaches a message.

use crate::RunError;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use url::Url;
use whet_capability::Cancel;
use whet_http::{Answer, Exchange, ExchangeError, Key, send};
use whet_model::Tokenizer;
use whet_recipe::Teacher;
use whet_trainer::{Told, TrainSample};

/// A text of words, numbers and signs, which tokenizers cut differently.
const PROBE: &str = "The quick brown fox (aged 17) said: \"x = 3.14159 * y[0];\" and didn't jump over 1,024 lazy dogs.\n\
                     def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\n";
/// The first pause before a request is sent again; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// Bytes of an answer for each token and alternative, far beyond what any needs.
const BYTES_PER_ENTRY: usize = 400;
/// Bytes of a server's message that are shown.
const SHOWN: usize = 300;

/// A server and how it is asked.
pub struct Server {
    url: Url,
    model: String,
    key: Option<Key>,
    timeout: Duration,
    retries: u32,
    concurrency: usize,
    echoes: bool,
}

/// What it said of one sample.
#[derive(Debug, Default)]
pub struct OfSample {
    /// Log-probability of every token; 0 for the first, which nothing precedes.
    pub logprobs: Vec<f32>,
    /// Its likeliest tokens.
    pub told: Told,
}

impl Server {
    /// Asks the server once, to see that it answers, how, and that its tokens are `tokenizer`'s.
    pub fn connect(section: &Teacher, tokenizer: &Tokenizer) -> Result<Server, RunError> {
        let endpoint = section.base_url.as_deref().unwrap_or_default();
        let address = format!("{}/completions", endpoint.trim_end_matches('/'));
        let url = Url::parse(&address)
            .map_err(|e| RunError::Teacher { reason: format!("`{endpoint}` is no address: {e}") })?;
        let key = section.api_key_env.as_deref().map(Key::from_env).transpose();
        let mut server = Server {
            url,
            model: section.model.clone().unwrap_or_default(),
            key: key.map_err(|e| RunError::Teacher { reason: e.to_string() })?,
            timeout: section.timeout.0,
            retries: section.retries,
            concurrency: section.concurrency.max(1),
            echoes: false,
        };
        let ids = tokenizer.encode(PROBE, false)?;
        let mut answer = server.complete(&ids, 1)?;
        if answer.get("prompt_logprobs").is_none_or(Value::is_null) {
            server.echoes = true;
            answer = server.complete(&ids, 1)?;
        }
        server.read(&answer, &ids, 0)?;
        if let Some(theirs) = words(&answer, &ids)
            && !squeezed(PROBE).ends_with(&squeezed(&theirs))
        {
            let reason = format!(
                "the teacher `{}` has another tokenizer: it reads the tokens of {PROBE:?} as {theirs:?}",
                server.model
            );
            return Err(RunError::Teacher { reason });
        }
        Ok(server)
    }

    /// What the server thinks of the samples, in their order.
    ///
    /// * `top`: alternatives to each token that are asked for; 0 for none
    pub fn ask(&self, samples: &[TrainSample], top: usize) -> Result<Vec<OfSample>, RunError> {
        let next = AtomicUsize::new(0);
        let found: Mutex<Vec<Option<OfSample>>> = Mutex::new(samples.iter().map(|_| None).collect());
        let failure: Mutex<Option<RunError>> = Mutex::new(None);
        let work = || {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(sample) = samples.get(n) else { return };
                let failed = failure.lock().unwrap_or_else(|p| p.into_inner()).is_some();
                if failed {
                    return;
                }
                let answer = self
                    .complete(&sample.tokens, top.max(1))
                    .and_then(|a| self.read(&a, &sample.tokens, top));
                match answer {
                    Ok(of) => found.lock().unwrap_or_else(|p| p.into_inner())[n] = Some(of),
                    Err(error) => {
                        failure.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.concurrency.min(samples.len()) {
                scope.spawn(work);
            }
        });
        if let Some(error) = failure.into_inner().unwrap_or_else(|p| p.into_inner()) {
            return Err(error);
        }
        Ok(found.into_inner().unwrap_or_else(|p| p.into_inner()).into_iter().flatten().collect())
    }

    /// The first choice of a completion of `ids`.
    fn complete(&self, ids: &[u32], top: usize) -> Result<Value, RunError> {
        let mut body = json!({"model": self.model, "prompt": ids, "max_tokens": 1, "temperature": 1.0});
        match self.echoes {
            true => {
                body["echo"] = json!(true);
                body["logprobs"] = json!(top);
            }
            false => body["prompt_logprobs"] = json!(top),
        }
        let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        headers.extend(self.key.as_ref().map(Key::bearer));
        let exchange = Exchange {
            method: "POST",
            url: self.url.clone(),
            headers,
            body: body.to_string().into_bytes(),
            response_bytes: (1 << 20) + ids.len() * (top + 2) * BYTES_PER_ENTRY,
        };
        let mut pause = PAUSE;
        for attempt in 0.. {
            let reason = match send(exchange.clone(), Instant::now() + self.timeout, &Cancel::default()) {
                Ok(answer) if answer.status == 200 => return self.choice(&answer),
                Ok(answer) => {
                    let reason = format!("status {}: {}", answer.status, self.shown(&answer.body));
                    let passing = answer.status == 429 || answer.status >= 500;
                    if !passing {
                        return Err(self.failed(reason));
                    }
                    reason
                }
                Err(ExchangeError::TimedOut) => format!("no answer within {:?}", self.timeout),
                Err(error) => error.to_string(),
            };
            if attempt >= self.retries {
                return Err(self.failed(format!("{reason} (after {} attempts)", attempt + 1)));
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
        unreachable!("the loop ends by returning")
    }

    fn choice(&self, answer: &Answer) -> Result<Value, RunError> {
        let body: Value = serde_json::from_slice(&answer.body)
            .map_err(|e| self.failed(format!("the answer is no JSON ({e}): {}", self.shown(&answer.body))))?;
        let choice = body.get("choices").and_then(|choices| choices.get(0)).cloned();
        choice
            .ok_or_else(|| self.failed(format!("the answer has no `choices`: {}", self.shown(&answer.body))))
    }

    /// Log-probabilities and `top` alternatives of every token.
    fn read(&self, choice: &Value, ids: &[u32], top: usize) -> Result<OfSample, RunError> {
        let none = || {
            self.failed(
                "the answer has neither `prompt_logprobs` nor the prompt's `logprobs`; is it vLLM, SGLang or alike?"
                    .to_owned(),
            )
        };
        let mut of = OfSample { logprobs: vec![0.0; ids.len()], told: Told { top, ..Told::default() } };
        if self.echoes {
            let list =
                choice.pointer("/logprobs/token_logprobs").and_then(Value::as_array).ok_or_else(none)?;
            if top > 0 {
                let reason =
                    "it tells its likeliest tokens as texts, not as ids; vLLM does, or load the teacher here";
                return Err(self.failed(reason.to_owned()));
            }
            if list.len() < ids.len() {
                return Err(none());
            }
            for (slot, value) in of.logprobs.iter_mut().zip(list).skip(1) {
                *slot = value.as_f64().ok_or_else(none)? as f32;
            }
            return Ok(of);
        }
        let list = choice.get("prompt_logprobs").and_then(Value::as_array).ok_or_else(none)?;
        if list.len() != ids.len() {
            let reason = format!("it says something of {} tokens, asked about {}", list.len(), ids.len());
            return Err(self.failed(reason));
        }
        of.told.ids = vec![0; top];
        of.told.logprobs = vec![NEVER; top];
        for (t, entry) in list.iter().enumerate().skip(1) {
            let entry = entry.as_object().ok_or_else(none)?;
            let logprob = |value: &Value| value.get("logprob").unwrap_or(value).as_f64().map(|lp| lp as f32);
            let own = entry.get(&ids[t].to_string()).and_then(logprob);
            of.logprobs[t] = own.ok_or_else(|| self.failed(format!("it says nothing of token {t}")))?;
            let mut alternatives: Vec<(u32, f32)> =
                entry.iter().filter_map(|(id, value)| Some((id.parse().ok()?, logprob(value)?))).collect();
            alternatives.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            if alternatives.len() < top {
                let reason = format!("it tells {} tokens where {top} are asked for", alternatives.len());
                return Err(self.failed(reason));
            }
            of.told.ids.extend(alternatives[..top].iter().map(|(id, _)| *id));
            of.told.logprobs.extend(alternatives[..top].iter().map(|(_, lp)| lp.max(NEVER)));
        }
        Ok(of)
    }

    fn failed(&self, reason: String) -> RunError {
        let reason = format!("{}: {reason}", self.url);
        RunError::Teacher { reason: self.key.as_ref().map_or(reason.clone(), |key| key.redact(&reason)) }
    }

    fn shown(&self, body: &[u8]) -> String {
        String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(SHOWN).collect()
    }
}

/// The logarithm of next to nothing, which stays finite in every sum.
const NEVER: f32 = -100.0;

/// The text of the prompt as the server writes its tokens, without the first; `None` where it does not.
fn words(choice: &Value, ids: &[u32]) -> Option<String> {
    if let Some(list) = choice.get("prompt_logprobs").and_then(Value::as_array) {
        let word = |(t, entry): (usize, &Value)| {
            entry.get(ids[t].to_string())?.get("decoded_token")?.as_str().map(str::to_owned)
        };
        return list.iter().enumerate().skip(1).map(word).collect();
    }
    let list = choice.pointer("/logprobs/tokens")?.as_array()?;
    list.iter().take(ids.len()).skip(1).map(|word| word.as_str().map(str::to_owned)).collect()
}

/// A text without white space and without the marks that vocabularies write for it.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !['Ġ', 'Ċ', '▁'].contains(c)).collect()
}
