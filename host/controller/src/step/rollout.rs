//! Asking the engine and scoring what comes back, at the same time: a group is scored as soon as its last
//! response is there, while the engine still samples the others.

use crate::prompt::Prompt;
use crate::step::policy::Judgement;
use crate::step::score::Scorer;
use crate::{RunError, Stop};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whet_observe::Console;
use whet_rollout::{Completion, Engine, EngineError, Request, Sampling};
use whet_trajectory::{Group, GroupId, Message, Role, Sample, SampleId};

/// The engine may be silent for so long before the run gives up on it. A response takes seconds; one step
/// of a large batch on a busy machine may take minutes.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// How often a waiting run looks whether somebody wants it to stop.
const GLANCE: Duration = Duration::from_millis(100);

/// One prompt to be answered.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The group that the responses make.
    pub group: GroupId,
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// Seed of each response; their number is the number of responses.
    pub seeds: Vec<u64>,
}

/// A prompt with its responses and what the rewards made of them, all in the order of the seeds.
#[derive(Clone, Debug)]
pub struct Answered {
    /// What was asked.
    pub ask: Ask,
    /// The responses.
    pub completions: Vec<Completion>,
    /// One per response.
    pub judgements: Vec<Judgement>,
}

/// Prompts answered, in the order in which they were asked, and how long that took.
#[derive(Debug)]
pub struct Rollout {
    /// One per prompt; where the taker ended the rollout, the groups up to and with the one that ended it.
    pub groups: Vec<Answered>,
    /// Responses asked for that are in no group: they were cancelled, or nobody needs them.
    pub discarded: usize,
    /// Seconds until the last response.
    pub sampling_seconds: f64,
    /// Seconds from the last response to the last score.
    pub scoring_seconds: f64,
}

/// Sees each group as soon as it and all before it are scored, always in the order of the asks. When it
/// breaks, what lies behind is cancelled.
pub type Taker<'a> = dyn FnMut(&Answered) -> Result<ControlFlow<()>, RunError> + 'a;

/// Takes every group.
pub fn all_groups(_: &Answered) -> Result<ControlFlow<()>, RunError> {
    Ok(ControlFlow::Continue(()))
}

/// Answers and scores `asks`, until all are or `taker` has enough. With `stop`, returns `None` soon after
/// somebody asked the run to stop.
pub fn roll_out(
    engine: &dyn Engine,
    asks: Vec<Ask>,
    sampling: &Sampling,
    scorer: &Scorer,
    console: &Console,
    stop: Option<&Stop>,
    taker: &mut Taker<'_>,
) -> Result<Option<Rollout>, RunError> {
    let began = Instant::now();
    let total: usize = asks.iter().map(|a| a.seeds.len()).sum();
    let mut places = HashMap::with_capacity(total);
    let mut requests = Vec::with_capacity(total);
    for (slot, ask) in asks.iter().enumerate() {
        for (k, &seed) in ask.seeds.iter().enumerate() {
            let id = sample_id(&ask.group, k);
            places.insert(id.clone(), (slot, k));
            requests.push(Request {
                id,
                group: ask.group.clone(),
                prompt: ask.prompt.ids.clone(),
                sampling: sampling.clone(),
                seed,
            });
        }
    }
    let mut waiting: Vec<Vec<Option<Completion>>> = asks.iter().map(|a| vec![None; a.seeds.len()]).collect();
    let answers = engine.submit(requests);
    let (jobs, queue) = mpsc::channel::<Job>();
    let queue = Mutex::new(queue);
    let (scored, results) = mpsc::channel::<(Job, Vec<Judgement>)>();
    let enough = AtomicBool::new(false);
    // Scoring shares the cores with sampling. Where plugins wait for others, more groups wait at once.
    let least = if scorer.asks_others() { 8 } else { 1 };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).clamp(least, 8);
    std::thread::scope(|scope| {
        // However this ends, nobody waits for scores that nobody will read.
        let mut unread = CancelUnread(Some(scorer));
        for _ in 0..workers {
            let (queue, scored, asks, enough) = (&queue, scored.clone(), &asks, &enough);
            scope.spawn(move || {
                while let Some(job) = next_job(queue) {
                    // Nobody needs what is still queued when the rollout has ended.
                    if enough.load(Ordering::Relaxed) {
                        continue;
                    }
                    let judgements = scorer.score(&group_of(&asks[job.0], &job.1));
                    if scored.send((job, judgements)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(scored);
        let mut line = Line::new(&asks);
        let mut last = Instant::now();
        while !places.is_empty() {
            match answers.recv_timeout(GLANCE) {
                Ok(completion) => {
                    let completion = completion?;
                    last = Instant::now();
                    let Some((slot, k)) = places.remove(&completion.id) else { continue };
                    waiting[slot][k] = Some(completion);
                    console.advance();
                    if waiting[slot].iter().all(Option::is_some) {
                        let completions = waiting[slot].iter_mut().filter_map(Option::take).collect();
                        // The receiving end lives until this scope ends.
                        let _ = jobs.send((slot, completions));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RunError::EngineDied { missing: places.len(), all: total });
                }
                Err(RecvTimeoutError::Timeout) if last.elapsed() > PATIENCE => {
                    let example = places.keys().min().map_or(String::new(), SampleId::to_string);
                    return Err(RunError::EngineStalled {
                        silence: PATIENCE,
                        missing: places.len(),
                        all: total,
                        example,
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let mut ended = stop.is_some_and(Stop::is_asked);
            let stopped = ended;
            while !ended && let Ok(result) = results.try_recv() {
                ended = line.put(result, taker)?.is_break();
            }
            if ended {
                enough.store(true, Ordering::Relaxed);
                cancel(engine, &answers, places, total)?;
                if stopped {
                    return Ok(None);
                }
                unread.0 = None;
                return Ok(Some(line.rollout(began.elapsed().as_secs_f64(), 0.0)));
            }
        }
        drop(jobs);
        // All that still runs is waited for.
        unread.0 = None;
        let sampling_seconds = began.elapsed().as_secs_f64();
        let sampled = Instant::now();
        // Plugin calls have deadlines of their own; the channel closes when every worker has ended.
        for result in results {
            if line.put(result, taker)?.is_break() {
                enough.store(true, Ordering::Relaxed);
                return Ok(Some(line.rollout(sampling_seconds, sampled.elapsed().as_secs_f64())));
            }
        }
        let unscored = asks.len() - line.done.len();
        if unscored > 0 {
            return Err(RunError::ScorerDied { missing: unscored, all: asks.len() });
        }
        Ok(Some(line.rollout(sampling_seconds, sampled.elapsed().as_secs_f64())))
    })
}

/// A group to be scored: its place among the asks, and its responses.
type Job = (usize, Vec<Completion>);

/// Brings scored groups back into the order in which they were asked.
struct Line<'a> {
    asks: &'a [Ask],
    /// Groups that are scored while one before them is not.
    early: HashMap<usize, Answered>,
    /// Groups that the taker has seen.
    done: Vec<Answered>,
}

impl<'a> Line<'a> {
    fn new(asks: &'a [Ask]) -> Self {
        Line { asks, early: HashMap::new(), done: Vec::with_capacity(asks.len()) }
    }

    /// Takes one more scored group, and shows the taker every group whose turn it is.
    fn put(
        &mut self,
        ((slot, completions), judgements): (Job, Vec<Judgement>),
        taker: &mut Taker<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        self.early.insert(slot, Answered { ask: self.asks[slot].clone(), completions, judgements });
        while let Some(next) = self.early.remove(&self.done.len()) {
            self.done.push(next);
            let flow = self.done.last().map_or(Ok(ControlFlow::Continue(())), &mut *taker)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn rollout(self, sampling_seconds: f64, scoring_seconds: f64) -> Rollout {
        let left = &self.asks[self.done.len()..];
        let discarded = left.iter().map(|ask| ask.seeds.len()).sum();
        Rollout { groups: self.done, discarded, sampling_seconds, scoring_seconds }
    }
}

/// Ends every sequence that is still in `places`, and waits until the engine has let go of each: what it
/// samples next must not share a batch with them, or its numbers would depend on the moment of this call.
fn cancel(
    engine: &dyn Engine,
    answers: &Receiver<Result<Completion, EngineError>>,
    mut places: HashMap<SampleId, (usize, usize)>,
    total: usize,
) -> Result<(), RunError> {
    for id in places.keys() {
        engine.cancel(id);
    }
    while !places.is_empty() {
        match answers.recv_timeout(PATIENCE) {
            Ok(completion) => drop(places.remove(&completion?.id)),
            Err(_) => return Err(RunError::EngineDied { missing: places.len(), all: total }),
        }
    }
    Ok(())
}

/// Ends all scoring when it is dropped with a scorer in it.
struct CancelUnread<'s>(Option<&'s Scorer>);

impl Drop for CancelUnread<'_> {
    fn drop(&mut self) {
        if let Some(scorer) = self.0 {
            scorer.cancel();
        }
    }
}

/// The id of the `k`-th response of a group.
pub fn sample_id(group: &GroupId, k: usize) -> SampleId {
    SampleId(format!("{group}/{k}"))
}

/// The group as plugins see it.
pub fn group_of(ask: &Ask, completions: &[Completion]) -> Group {
    let prompt_tokens = ask.prompt.ids.len() as u32;
    let samples = completions.iter().map(|c| Sample {
        id: c.id.clone(),
        completion: vec![Message::text(Role::Assistant, &c.text)],
        response: c.text.clone(),
        finish: c.finish,
        prompt_tokens,
        response_tokens: c.tokens.len() as u32,
        turns: 1,
        environment_rewards: Vec::new(),
    });
    Group {
        id: ask.group.clone(),
        prompt: ask.prompt.messages.clone(),
        label: ask.prompt.label.clone(),
        metadata: ask.prompt.metadata.clone(),
        samples: samples.collect(),
    }
}

/// Waits for a job; `None` when no more will come.
fn next_job<T>(queue: &Mutex<mpsc::Receiver<T>>) -> Option<T> {
    // A worker that panicked while it held the lock left the queue as it was.
    queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv().ok()
}
