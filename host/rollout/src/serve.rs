//! The engine's loop: take commands, let sequences start, compute their prompts, decode one step.
//!
//! Every step runs all sequences that have not ended and no others. Nothing here knows how tokens are
//! computed, or who asks.

use crate::backend::{Backend, Choice, Run};
use crate::engine::Command;
use crate::prefixes::StretchId;
use crate::random::uniform;
use crate::request::{Completion, EngineError, Request};
use crate::sampler::Drawn;
use crate::scheduler::{Admission, Scheduler, Ticket};
use crate::stop::{StopWatch, cut};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Instant;
use tch::Tensor;
use whet_model::cpu::check;
use whet_model::{Config, Tokenizer};
use whet_trajectory::{FinishReason, SampleId, WeightVersion};

/// Rows of a pass over prompts: enough for the products to run at full speed.
const PREFILL_ROWS: usize = 512;
/// Rows of a pass that keeps all their logits.
const SCORED_ROWS: usize = 64;
/// Tokens of prompts computed between two decode steps, unless one prompt alone is longer: whoever runs does not wait for all who
/// come.
const PREFILL_TOKENS: usize = 4096;

type Reply = Sender<Result<Completion, EngineError>>;

struct Pending {
    request: Request,
    reply: Reply,
}

struct Sequence<K> {
    ticket: Ticket,
    /// What its prompt's prefix ends with.
    prefix: Option<StretchId>,
    own: K,
    pending: Pending,
    /// The token whose successor is drawn next.
    next: u32,
    limit: usize,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    versions: Vec<WeightVersion>,
    entropy: f64,
    watch: Option<StopWatch>,
}

/// A stretch of prompts that is being computed.
struct Prefill<K> {
    id: StretchId,
    tokens: Arc<[u32]>,
    before: Vec<StretchId>,
    kv: K,
    done: usize,
}

pub(crate) struct Serve<B: Backend> {
    backend: B,
    config: Config,
    tokenizer: Tokenizer,
    capacity: usize,
    scheduler: Scheduler,
    waiting: HashMap<Ticket, Pending>,
    running: Vec<Sequence<B::Kv>>,
    /// Keys and values of what is resident.
    prefixes: HashMap<StretchId, B::Kv>,
    next_ticket: Ticket,
    version: WeightVersion,
    shared_version: Arc<AtomicU64>,
}

impl<B: Backend> Serve<B> {
    pub fn new(
        backend: B,
        config: Config,
        tokenizer: Tokenizer,
        kv_budget_bytes: usize,
        max_running: usize,
        shared_version: Arc<AtomicU64>,
    ) -> Result<Self, EngineError> {
        let capacity = kv_budget_bytes / backend.block_bytes();
        if capacity < 2 {
            return Err(EngineError::Start(format!(
                "a KV budget of {kv_budget_bytes} bytes holds fewer than the two blocks of {} bytes that the shortest \
                 sequence needs",
                backend.block_bytes()
            )));
        }
        let block = backend.block_positions();
        Ok(Serve {
            backend,
            config,
            tokenizer,
            capacity,
            scheduler: Scheduler::new(capacity, block, max_running),
            waiting: HashMap::new(),
            running: Vec::new(),
            prefixes: HashMap::new(),
            next_ticket: 0,
            version: WeightVersion(0),
            shared_version,
        })
    }

    /// Works until every handle is gone. A panic ends all sequences with an error, and so every later command.
    pub fn until_closed(&mut self, queue: &Receiver<Command>) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work(queue))) else { return };
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        let error = EngineError::Stopped(text.unwrap_or_else(|| "it panicked".to_owned()));
        let waiting = self.waiting.drain().map(|(_, p)| p);
        for pending in waiting.chain(self.running.drain(..).map(|s| s.pending)) {
            let _ = pending.reply.send(Err(error.clone()));
        }
        for command in queue {
            match command {
                Command::Submit(_, reply) => drop(reply.send(Err(error.clone()))),
                Command::Update(_, _, reply) => drop(reply.send(Err(error.clone()))),
                Command::Logprobs(_, _, reply) => drop(reply.send(Err(error.clone()))),
                Command::Cancel(_) | Command::Profile(_) => {}
            }
        }
    }

    fn work(&mut self, queue: &Receiver<Command>) {
        loop {
            let idle = self.running.is_empty() && self.waiting.is_empty();
            let command =
                if idle { queue.recv().map_err(|_| TryRecvError::Disconnected) } else { queue.try_recv() };
            match command {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    if let Err(error) = self.step() {
                        self.scheduler.forget_prefixes();
                        for s in self.running.drain(..) {
                            self.scheduler.finish(s.ticket);
                            self.backend.recycle(s.own);
                            let _ = s.pending.reply.send(Err(error.clone()));
                        }
                        self.drop_prefixes();
                    }
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(requests, reply) => {
                for request in requests {
                    match self.flaw(&request) {
                        Some(reason) => {
                            let _ = reply.send(Err(EngineError::Request { id: request.id, reason }));
                        }
                        None => self.enqueue(Pending { request, reply: reply.clone() }),
                    }
                }
            }
            Command::Cancel(id) => self.cancel(&id),
            Command::Update(version, tensors, reply) => {
                let _ = reply.send(self.update(version, &tensors));
            }
            Command::Logprobs(ids, prompt_len, reply) => {
                let _ = reply.send(self.logprobs(&ids, prompt_len));
            }
            Command::Profile(reply) => {
                let _ = reply.send(*self.backend.profile());
            }
        }
    }

    /// The most tokens a request may get, of which none is beyond the model's context.
    fn limit(&self, request: &Request) -> usize {
        request.sampling.max_tokens.min(self.config.max_positions.saturating_sub(request.prompt.len()))
    }

    /// Blocks of the prompt's prefix (all but its last token) and of the sequence's own part.
    fn blocks(&self, request: &Request) -> (usize, usize) {
        let block = self.backend.block_positions();
        ((request.prompt.len() - 1).div_ceil(block), self.limit(request).div_ceil(block))
    }

    fn flaw(&self, request: &Request) -> Option<String> {
        if let Some(flaw) = request.sampling.flaw() {
            return Some(flaw);
        }
        if request.prompt.is_empty() {
            return Some("the prompt is empty; give at least one token".to_owned());
        }
        if let Some(id) = request.prompt.iter().find(|id| **id as usize >= self.config.vocab_size) {
            return Some(format!(
                "the prompt has token {id}; the model knows {} tokens",
                self.config.vocab_size
            ));
        }
        let (length, context) = (request.prompt.len(), self.config.max_positions);
        if length >= context {
            return Some(format!("the prompt has {length} tokens; the model's context is {context}"));
        }
        let (prefix, own) = self.blocks(request);
        if prefix + own > self.capacity {
            let (block, bytes) = (self.backend.block_positions(), self.backend.block_bytes());
            return Some(format!(
                "a prompt of {length} tokens and up to {} new ones need {} tokens of keys and values, and the KV budget \
                 holds {}; raise it to {} MiB or more, or lower max-tokens",
                self.limit(request),
                (prefix + own) * block,
                self.capacity * block,
                ((prefix + own) * bytes).div_ceil(1 << 20)
            ));
        }
        None
    }

    fn enqueue(&mut self, pending: Pending) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (_, own) = self.blocks(&pending.request);
        let prompt = &pending.request.prompt;
        let split = self.scheduler.submit(ticket, prompt[..prompt.len() - 1].into(), own);
        if let Some(split) = split
            && let Some(kv) = self.prefixes.get_mut(&split.from)
        {
            let first = self.backend.split(kv, split.tokens);
            self.prefixes.insert(split.first, first);
        }
        self.waiting.insert(ticket, pending);
    }

    fn cancel(&mut self, id: &SampleId) {
        let tickets: Vec<Ticket> =
            self.waiting.iter().filter(|(_, p)| p.request.id == *id).map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            self.scheduler.finish(ticket);
            if let Some(pending) = self.waiting.remove(&ticket) {
                let completion = Completion {
                    id: pending.request.id,
                    tokens: Vec::new(),
                    logprobs: Vec::new(),
                    versions: Vec::new(),
                    finish: FinishReason::Aborted,
                    text: String::new(),
                    entropy_mean: 0.0,
                };
                let _ = pending.reply.send(Ok(completion));
            }
        }
        while let Some(at) = self.running.iter().position(|s| s.pending.request.id == *id) {
            let sequence = self.running.remove(at);
            self.finish(sequence, Ok(FinishReason::Aborted));
        }
        self.drop_prefixes();
    }

    fn update(&mut self, version: WeightVersion, tensors: &[(String, Tensor)]) -> Result<(), EngineError> {
        let kept = self.version;
        let refused = |reason| EngineError::Weights { version, kept, reason };
        check(&self.config, tensors).map_err(refused)?;
        self.backend.set_weights(tensors).map_err(refused)?;
        self.version = version;
        self.shared_version.store(version.0, Ordering::Release);
        self.scheduler.forget_prefixes();
        self.drop_prefixes();
        Ok(())
    }

    fn drop_prefixes(&mut self) {
        for id in self.scheduler.take_dropped() {
            if let Some(kv) = self.prefixes.remove(&id) {
                self.backend.recycle(kv);
            }
        }
    }

    fn step(&mut self) -> Result<(), EngineError> {
        let started = Instant::now();
        let admitted = self.scheduler.admit(PREFILL_TOKENS);
        self.drop_prefixes();
        let prefilled = self.prefill(&admitted);
        for admission in &admitted {
            if let Some(pending) = self.waiting.remove(&admission.ticket) {
                let sequence = self.start(admission, pending);
                self.running.push(sequence);
            }
        }
        prefilled?;
        if !admitted.is_empty() {
            self.backend.profile().prefill += started.elapsed();
        }
        self.decode()
    }

    fn start(&self, admission: &Admission, pending: Pending) -> Sequence<B::Kv> {
        let sampling = &pending.request.sampling;
        let watch =
            (!sampling.stop.is_empty()).then(|| StopWatch::new(&sampling.stop, self.tokenizer.stream(true)));
        Sequence {
            ticket: admission.ticket,
            prefix: admission.last,
            own: self.backend.empty(),
            next: pending.request.prompt[pending.request.prompt.len() - 1],
            limit: self.limit(&pending.request),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            versions: Vec::new(),
            entropy: 0.0,
            watch,
            pending,
        }
    }

    /// Computes what admitted sequences need of their prompts, in passes of a bounded number of rows. A stretch waits for
    /// the pass that completes the one before it.
    fn prefill(&mut self, admitted: &[Admission]) -> Result<(), EngineError> {
        let mut jobs = Vec::new();
        for id in admitted.iter().flat_map(|a| &a.compute) {
            if let Some((tokens, parent)) = self.scheduler.stretch(*id) {
                jobs.push(Prefill {
                    id: *id,
                    tokens,
                    before: self.scheduler.path(parent),
                    kv: self.backend.empty(),
                    done: 0,
                });
            }
        }
        while !jobs.is_empty() {
            let prefixes = &self.prefixes;
            let chains: Vec<Option<Vec<&B::Kv>>> =
                jobs.iter().map(|job| job.before.iter().map(|id| prefixes.get(id)).collect()).collect();
            let mut room = PREFILL_ROWS;
            let mut runs = Vec::new();
            for (job, chain) in jobs.iter_mut().zip(&chains) {
                let take = room.min(job.tokens.len() - job.done);
                if let Some(prefix) = chain
                    && take > 0
                {
                    let tokens = &job.tokens[job.done..job.done + take];
                    runs.push(Run { prefix, own: &mut job.kv, tokens, logits: 0 });
                    job.done += take;
                    room -= take;
                }
            }
            if runs.is_empty() {
                return Err(EngineError::Model("what a prompt begins with is not in memory".to_owned()));
            }
            self.backend.forward(&mut runs)?;
            drop(runs);
            self.backend.profile().prompt_tokens += (PREFILL_ROWS - room) as u64;
            for job in jobs.extract_if(.., |job| job.done == job.tokens.len()) {
                self.prefixes.insert(job.id, job.kv);
            }
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<(), EngineError> {
        if self.running.is_empty() {
            return Ok(());
        }
        let (prefixes, scheduler) = (&self.prefixes, &self.scheduler);
        // What a running sequence has before it was computed when it started, and stays until it ends.
        let chain = |s: &Sequence<B::Kv>| scheduler.path(s.prefix).iter().map(|id| &prefixes[id]).collect();
        let chains: Vec<Vec<&B::Kv>> = self.running.iter().map(chain).collect();
        let mut runs: Vec<Run<'_, B::Kv>> = self
            .running
            .iter_mut()
            .zip(&chains)
            .map(|(s, prefix)| Run {
                prefix,
                own: &mut s.own,
                tokens: std::slice::from_ref(&s.next),
                logits: 1,
            })
            .collect();
        self.backend.forward(&mut runs)?;
        drop(runs);
        let choices: Vec<Choice<'_>> = self
            .running
            .iter()
            .map(|s| {
                let request = &s.pending.request;
                Choice::Draw(&request.sampling, uniform(request.seed, s.tokens.len() as u64))
            })
            .collect();
        let drawn = self.backend.choose(&choices);
        drop(choices);
        let profile = self.backend.profile();
        profile.steps += 1;
        profile.tokens += drawn.len() as u64;

        let mut still = Vec::with_capacity(self.running.len());
        for (mut sequence, drawn) in std::mem::take(&mut self.running).into_iter().zip(drawn) {
            let ended = match drawn {
                None => Some(Err(EngineError::NotFinite(self.version))),
                Some(drawn) => self.accept(&mut sequence, drawn).transpose(),
            };
            match ended {
                None => still.push(sequence),
                Some(ended) => self.finish(sequence, ended),
            }
        }
        self.running = still;
        self.drop_prefixes();
        Ok(())
    }

    /// Adds a token; says whether the sequence ends with it.
    fn accept(&self, s: &mut Sequence<B::Kv>, drawn: Drawn) -> Result<Option<FinishReason>, EngineError> {
        s.next = drawn.token;
        s.tokens.push(drawn.token);
        s.logprobs.push(drawn.logprob);
        s.versions.push(self.version);
        s.entropy += f64::from(drawn.entropy);
        if self.is_stop_id(&s.pending.request, drawn.token) {
            return Ok(Some(FinishReason::Stop));
        }
        let found = match &mut s.watch {
            Some(watch) => watch.push(drawn.token).map_err(|e| EngineError::Model(e.to_string()))?,
            None => false,
        };
        if found {
            return Ok(Some(FinishReason::Stop));
        }
        Ok((s.tokens.len() >= s.limit).then_some(FinishReason::Length))
    }

    fn is_stop_id(&self, request: &Request, token: u32) -> bool {
        let sampling = &request.sampling;
        sampling.stop_ids.contains(&token) || (!sampling.ignore_eos && self.config.eos.contains(&token))
    }

    /// Frees what a sequence holds and sends its result. `drop_prefixes` is to follow.
    fn finish(&mut self, s: Sequence<B::Kv>, ended: Result<FinishReason, EngineError>) {
        self.scheduler.finish(s.ticket);
        self.backend.recycle(s.own);
        let completion = ended.and_then(|finish| {
            let request = s.pending.request;
            let stopped = s
                .tokens
                .last()
                .is_some_and(|t| finish == FinishReason::Stop && self.is_stop_id(&request, *t));
            let shown = &s.tokens[..s.tokens.len() - usize::from(stopped)];
            let mut text =
                self.tokenizer.decode(shown, true).map_err(|e| EngineError::Model(e.to_string()))?;
            if let Some(end) = cut(&text, &request.sampling.stop) {
                text.truncate(end);
            }
            let entropy_mean = (s.entropy / s.tokens.len().max(1) as f64) as f32;
            let (tokens, logprobs, versions) = (s.tokens, s.logprobs, s.versions);
            Ok(Completion { id: request.id, tokens, logprobs, versions, finish, text, entropy_mean })
        });
        let _ = s.pending.reply.send(completion);
    }

    /// The path of a rollout, with given tokens instead of drawn ones.
    fn logprobs(&mut self, ids: &[u32], prompt_len: usize) -> Result<Vec<f32>, EngineError> {
        let unfit = |reason: String| {
            EngineError::Model(format!("log-probabilities of {} tokens: {reason}", ids.len()))
        };
        if prompt_len == 0 || prompt_len > ids.len() {
            return Err(unfit(format!("a prompt of {prompt_len} tokens leaves nothing to condition on")));
        }
        if ids.len() > self.config.max_positions {
            return Err(unfit(format!("the model's context is {}", self.config.max_positions)));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.config.vocab_size) {
            return Err(unfit(format!("token {id} is beyond the model's {}", self.config.vocab_size)));
        }
        let (mut prefix, mut own) = (self.backend.empty(), self.backend.empty());
        let scored = self.score(ids, prompt_len, &mut prefix, &mut own);
        self.backend.recycle(prefix);
        self.backend.recycle(own);
        scored
    }

    fn score(
        &mut self,
        ids: &[u32],
        prompt_len: usize,
        prefix: &mut B::Kv,
        own: &mut B::Kv,
    ) -> Result<Vec<f32>, EngineError> {
        for tokens in ids[..prompt_len - 1].chunks(PREFILL_ROWS) {
            self.backend.forward(&mut [Run { prefix: &[], own: prefix, tokens, logits: 0 }])?;
        }
        let mut logprobs = Vec::with_capacity(ids.len() - prompt_len);
        let (inputs, targets) = (&ids[prompt_len - 1..ids.len() - 1], &ids[prompt_len..]);
        for (tokens, targets) in inputs.chunks(SCORED_ROWS).zip(targets.chunks(SCORED_ROWS)) {
            self.backend.forward(&mut [Run { prefix: &[prefix], own, tokens, logits: tokens.len() }])?;
            let choices: Vec<Choice<'_>> = targets.iter().map(|t| Choice::Given(*t)).collect();
            for drawn in self.backend.choose(&choices) {
                logprobs.push(drawn.ok_or(EngineError::NotFinite(self.version))?.logprob);
            }
        }
        Ok(logprobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Profile;
    use crate::request::Sampling;
    use std::sync::mpsc::channel;

    /// Fails at its first step.
    struct Broken(Profile);

    impl Backend for Broken {
        type Kv = ();
        fn block_positions(&self) -> usize {
            16
        }
        fn block_bytes(&self) -> usize {
            16
        }
        fn empty(&self) {}
        fn split(&mut self, _kv: &mut (), _positions: usize) {}
        fn recycle(&mut self, _kv: ()) {}
        fn forward(&mut self, _runs: &mut [Run<'_, ()>]) -> Result<(), EngineError> {
            panic!("a bug")
        }
        fn choose(&mut self, choices: &[Choice<'_>]) -> Vec<Option<Drawn>> {
            vec![None; choices.len()]
        }
        fn set_weights(&mut self, _tensors: &[(String, Tensor)]) -> Result<(), String> {
            Ok(())
        }
        fn profile(&mut self) -> &mut Profile {
            &mut self.0
        }
    }

    #[test]
    fn a_bug_in_the_engine_reaches_everyone_who_waits_and_everyone_who_comes_later() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/llama");
        let checkpoint = whet_model::load(model, tch::Kind::Float, tch::Device::Cpu).unwrap();
        let broken = Broken(Profile::default());
        let mut serve =
            Serve::new(broken, checkpoint.config, checkpoint.tokenizer, 1 << 20, 1, Arc::default()).unwrap();
        let (commands, queue) = channel();
        let request = |id: &str| Request {
            id: id.into(),
            group: id.into(),
            prompt: vec![1, 2, 3].into(),
            sampling: Sampling::default(),
            seed: 0,
        };
        let (reply, results) = channel();
        let both = vec![request("running"), request("waiting")];
        commands.send(Command::Submit(both, reply)).unwrap();
        let late = std::thread::scope(|scope| {
            scope.spawn(move || serve.until_closed(&queue));
            for _ in 0..2 {
                assert_eq!(results.recv().unwrap(), Err(EngineError::Stopped("a bug".into())));
            }
            let (reply, late) = channel();
            commands.send(Command::Submit(vec![request("late")], reply)).unwrap();
            drop(commands);
            late
        });
        assert_eq!(late.recv().unwrap(), Err(EngineError::Stopped("a bug".into())));
    }
}
