//! Reward plugins: groups in, one outcome per sample out.

use crate::bindings::isolated::exports::whet::plugin::isolated::End;
use crate::bindings::isolated::{Isolating, IsolatingIndices};
use crate::bindings::reward::exports::whet::plugin::reward as wit;
use crate::bindings::reward::{Rewarding, RewardingIndices};
use crate::call::{Fault, Guest};
use crate::log::sanitise;
use crate::state::Subject;
use crate::stats::add;
use crate::{CallError, Descriptor, Digest, Stats, convert};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use whet_trajectory::{Attribution, Component, Grade, Group, Outcome, Sample, Span};

/// Samples of a group that are scored at once where a plugin waits for others.
const AT_ONCE: usize = 32;
/// Longest note and reason that reach a trajectory, in bytes.
const NOTE_BYTES: usize = 2 << 10;

/// A loaded reward plugin. Calls may come from many threads at once.
pub struct RewardPlugin {
    pub(crate) guest: Guest,
    pub(crate) indices: RewardingIndices,
    pub(crate) isolated: Option<IsolatingIndices>,
    pub(crate) descriptor: Descriptor,
}

impl RewardPlugin {
    /// Scores a group: one outcome per sample, in order.
    ///
    /// When the call for the whole group fails through the plugin (a trap, a timeout, a bad result),
    /// each sample is scored again as a group of one with limits of its own, so that a sample that
    /// makes the plugin loop does not cost its neighbours their scores; only samples that fail alone
    /// are `Failed`. That costs up to one more call per sample, hence up to `samples + 1` deadlines
    /// in the worst case. Where the descriptor says `group_wise`, a lone sample's score would mean
    /// something else, and all samples of the group are `Failed`.
    ///
    /// A plugin that asks judges or servers, and is not group-wise, gets its samples one by one, many at
    /// once: its calls wait, and an answer that is late for one sample costs the others nothing.
    ///
    /// An isolated plugin gets its samples one by one from the start, and says itself what a sample is
    /// worth whose call was ended.
    ///
    /// An error is the host's alone (no free instance, a broken host): then no sample was judged.
    pub fn score(&self, group: &Group) -> Result<Vec<Outcome>, CallError> {
        if let Some(isolated) = &self.isolated {
            return (0..group.samples.len())
                .map(|index| self.score_isolated(isolated, group, index))
                .collect();
        }
        if self.guest.shared.asks && !self.descriptor.group_wise {
            return self.score_at_once(group);
        }
        let error = match self.score_once(group) {
            Ok(outcomes) => return Ok(outcomes),
            Err(error) if error.attribution() == Attribution::Host => return Err(error),
            Err(error) => error,
        };
        if group.samples.len() == 1 || self.descriptor.group_wise {
            return Ok(vec![Outcome::Failed(error.failure()); group.samples.len()]);
        }
        add(&self.guest.shared.counters.retries, group.samples.len() as u64);
        (0..group.samples.len()).map(|index| self.score_alone(group, index)).collect()
    }

    /// One sample in a call of its own; its failure is an outcome.
    fn score_alone(&self, group: &Group, index: usize) -> Result<Outcome, CallError> {
        match self.call(group, Some(index)) {
            Ok(mut outcomes) => outcomes.pop().ok_or_else(|| CallError::Host("an outcome got lost".into())),
            Err(error) if error.attribution() == Attribution::Host => Err(error),
            Err(error) => Ok(Outcome::Failed(error.failure())),
        }
    }

    /// Each sample in a call of its own, on threads that mostly wait.
    fn score_at_once(&self, group: &Group) -> Result<Vec<Outcome>, CallError> {
        let samples = group.samples.len();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= samples {
                    return done;
                }
                done.push((index, self.score_alone(group, index)));
            }
        };
        let mut done = std::thread::scope(|scope| {
            let threads = samples.min(AT_ONCE).min(self.guest.shared.limits.concurrency);
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            // A call never panics; were a thread to, its outcomes would be missed below.
            done.extend(others.into_iter().filter_map(|thread| thread.join().ok()).flatten());
            done
        });
        done.sort_by_key(|(index, _)| *index);
        if done.len() != samples {
            return Err(CallError::Host("an outcome got lost".into()));
        }
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Scores a group without a second try: in exactly one call of the plugin, or in one per sample
    /// where it is isolated.
    pub fn score_once(&self, group: &Group) -> Result<Vec<Outcome>, CallError> {
        if group.samples.is_empty() {
            return Ok(Vec::new());
        }
        if self.isolated.is_none() {
            return self.call(group, None);
        }
        let outcomes = (0..group.samples.len()).map(|index| self.call(group, Some(index)));
        outcomes.collect::<Result<Vec<_>, _>>().map(|outcomes| outcomes.into_iter().flatten().collect())
    }

    /// One sample in an instance of its own; when its call is ended, the plugin's word on that.
    fn score_isolated(
        &self,
        isolated: &IsolatingIndices,
        group: &Group,
        index: usize,
    ) -> Result<Outcome, CallError> {
        let error = match self.call(group, Some(index)) {
            Ok(mut outcomes) => {
                return outcomes.pop().ok_or_else(|| CallError::Host("an outcome got lost".into()));
            }
            Err(error) if error.attribution() == Attribution::Host => return Err(error),
            Err(error) => error,
        };
        let end = match error {
            CallError::CpuTimeout(_) | CallError::FuelExhausted(_) => End::Time,
            CallError::MemoryLimit(_) => End::Memory,
            CallError::StackOverflow { .. } => End::Stack,
            CallError::Trapped { .. } => End::Trap,
            _ => return Ok(Outcome::Failed(error.failure())),
        };
        let sample = &group.samples[index];
        let subject = Subject { group: group.id.0.clone(), sample: Some(sample.id.0.clone()) };
        let grade = self.guest.call(subject, |store, instance| {
            let plugin: Isolating = isolated.load(&mut *store, instance)?;
            let Some(grade) = plugin.whet_plugin_isolated().call_ended(&mut *store, end)? else {
                return Ok(None);
            };
            let components = self.components(grade.components, sample)?;
            let note = Some(sanitise(&grade.note, NOTE_BYTES));
            Ok(Some(Grade { components, spans: Vec::new(), note }))
        });
        match grade {
            Ok(Some(grade)) => Ok(Outcome::Scored(grade)),
            Ok(None) => Ok(Outcome::Failed(error.failure())),
            Err(error) if error.attribution() == Attribution::Host => Err(error),
            // What the plugin cannot say about the end leaves the end itself.
            Err(_) => Ok(Outcome::Failed(error.failure())),
        }
    }

    /// What the plugin says about itself.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The component's identity.
    pub fn digest(&self) -> Digest {
        self.guest.shared.digest
    }

    /// Whether its calls may wait for judges or servers.
    pub fn asks_others(&self) -> bool {
        self.guest.shared.asks
    }

    /// Ends all calls of the plugin's host, for whoever no longer wants their results.
    pub fn cancel_all(&self) {
        self.guest.shared.cancel.pull();
    }

    /// What its calls cost so far.
    pub fn stats(&self) -> Stats {
        self.guest.shared.counters.read()
    }

    fn call(&self, group: &Group, only: Option<usize>) -> Result<Vec<Outcome>, CallError> {
        let samples = match only {
            Some(index) => &group.samples[index..=index],
            None => &group.samples[..],
        };
        let sample = only.map(|_| samples[0].id.0.clone());
        let subject = Subject { group: group.id.0.clone(), sample };
        self.guest.call(subject, |store, instance| {
            let reward: Rewarding = self.indices.load(&mut *store, instance)?;
            let input = convert::group(group, only, &mut store.data_mut().table)?;
            let outcomes = reward.whet_plugin_reward().call_score(&mut *store, &input)??;
            if outcomes.len() != samples.len() {
                let (expected, found) = (samples.len(), outcomes.len());
                return Err(CallError::WrongLength { expected, found }.into());
            }
            let checked = outcomes.into_iter().zip(samples);
            checked.map(|(outcome, sample)| self.outcome(outcome, sample)).collect::<Result<_, Fault>>()
        })
    }

    /// Believes nothing: values are finite, names declared, spans within the response.
    fn outcome(&self, outcome: wit::Outcome, sample: &Sample) -> Result<Outcome, Fault> {
        let grade = match outcome {
            wit::Outcome::Unscorable(reason) => {
                return Ok(Outcome::Unscorable { reason: sanitise(&reason, NOTE_BYTES) });
            }
            wit::Outcome::Scored(grade) => grade,
        };
        let components = self.components(grade.components, sample)?;
        let spans = grade.spans.iter().map(|s| span(s, sample)).collect::<Result<_, _>>()?;
        let note = grade.note.map(|note| sanitise(&note, NOTE_BYTES));
        Ok(Outcome::Scored(Grade { components, spans, note }))
    }

    fn components(
        &self,
        components: Vec<crate::bindings::base::whet::plugin::types::Component>,
        sample: &Sample,
    ) -> Result<Vec<Component>, CallError> {
        if components.is_empty() {
            return Err(CallError::BadComponent(format!("a score without any, for sample `{}`", sample.id)));
        }
        let mut seen = HashSet::with_capacity(components.len());
        for component in &components {
            let name = || sanitise(&component.name, 100);
            if !self.descriptor.components.contains(&component.name) {
                return Err(CallError::BadComponent(format!("`{}` is not in its descriptor", name())));
            }
            if !seen.insert(component.name.as_str()) {
                return Err(CallError::BadComponent(format!("`{}` twice for one sample", name())));
            }
            if !component.value.is_finite() {
                let at = format!("component `{}` of sample `{}`", name(), sample.id);
                return Err(CallError::NonFinite { at, value: component.value.to_string() });
            }
        }
        Ok(components.into_iter().map(|c| Component { name: c.name, value: c.value }).collect())
    }
}

fn span(span: &wit::Span, sample: &Sample) -> Result<Span, CallError> {
    let (start, end) = (span.start as usize, span.end as usize);
    if sample.response.get(start..end).is_none() {
        let len = sample.response.len();
        return Err(CallError::BadSpan(format!(
            "{start}..{end} is no range of whole characters of the {len} bytes of sample `{}`",
            sample.id
        )));
    }
    if !span.value.is_finite() {
        let at = format!("span {start}..{end} of sample `{}`", sample.id);
        return Err(CallError::NonFinite { at, value: span.value.to_string() });
    }
    Ok(Span { start: span.start, end: span.end, value: span.value })
}
