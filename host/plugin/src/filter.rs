//! Filter plugins: which rows enter the data, which groups enter a batch.

use crate::bindings::filter::exports::whet::plugin::filter as wit;
use crate::bindings::filter::{Filtering, FilteringIndices};
use crate::call::Guest;
use crate::state::Subject;
use crate::{CallError, Descriptor, Digest, Stats, convert};
use serde_json::{Map, Value};
use whet_trajectory::{Group, Message};

/// Longest reason, in bytes.
const REASON_BYTES: usize = 64;

/// A row of the data, before any rollout.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The row's identity.
    pub id: &'a str,
    /// The conversation to continue.
    pub prompt: &'a [Message],
    /// The reference answer, if there is one.
    pub label: Option<&'a str>,
    /// The row's other columns.
    pub metadata: &'a Map<String, Value>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
}

/// A group and the rewards that it got; `None` where a sample has no score.
#[derive(Clone, Copy, Debug)]
pub struct ScoredGroup<'a> {
    /// The group.
    pub group: &'a Group,
    /// One per sample, in order.
    pub rewards: &'a [Option<f64>],
}

/// What a filter says about a row or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Use it.
    pub keep: bool,
    /// A metric's name: letters, digits, `-`, `_`; never empty where `keep` is false.
    pub reason: String,
    /// For a group: use it anyway when too few groups pass.
    pub keep_if_short: bool,
}

/// A loaded filter plugin. Calls may come from many threads at once.
pub struct FilterPlugin {
    pub(crate) guest: Guest,
    pub(crate) indices: FilteringIndices,
    pub(crate) descriptor: Descriptor,
}

impl FilterPlugin {
    /// One verdict per row, in order.
    pub fn keep_rows(&self, rows: &[Row<'_>]) -> Result<Vec<Verdict>, CallError> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        self.guest.call(Subject::of(first.id), |store, instance| {
            let filter: Filtering = self.indices.load(&mut *store, instance)?;
            let table = &mut store.data_mut().table;
            let input = rows.iter().map(|row| {
                Ok(wit::Row {
                    id: row.id.to_owned(),
                    prompt: convert::messages(row.prompt, table)?,
                    label: row.label.map(str::to_owned),
                    metadata: convert::object(row.metadata),
                    prompt_tokens: row.prompt_tokens,
                })
            });
            let input = input.collect::<wasmtime::Result<Vec<_>>>()?;
            let output = filter.whet_plugin_filter().call_keep_rows(&mut *store, &input)??;
            Ok(verdicts(output, rows.len())?)
        })
    }

    /// One verdict per group, in order.
    pub fn keep_groups(&self, groups: &[ScoredGroup<'_>]) -> Result<Vec<Verdict>, CallError> {
        let Some(first) = groups.first() else { return Ok(Vec::new()) };
        if let Some(wrong) = groups.iter().find(|g| g.rewards.len() != g.group.samples.len()) {
            let id = &wrong.group.id;
            return Err(CallError::BadBatch(format!("group `{id}` needs one reward per sample")));
        }
        self.guest.call(Subject::of(&first.group.id.0), |store, instance| {
            let filter: Filtering = self.indices.load(&mut *store, instance)?;
            let table = &mut store.data_mut().table;
            let input = groups.iter().map(|g| {
                let group = convert::group(g.group, None, table)?;
                Ok(wit::ScoredGroup { group, rewards: g.rewards.to_vec() })
            });
            let input = input.collect::<wasmtime::Result<Vec<_>>>()?;
            let output = filter.whet_plugin_filter().call_keep_groups(&mut *store, &input)??;
            Ok(verdicts(output, groups.len())?)
        })
    }

    /// What the plugin says about itself.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The component's identity.
    pub fn digest(&self) -> Digest {
        self.guest.shared.digest
    }

    /// What its calls cost so far.
    pub fn stats(&self) -> Stats {
        self.guest.shared.counters.read()
    }
}

fn verdicts(output: Vec<wit::Verdict>, expected: usize) -> Result<Vec<Verdict>, CallError> {
    if output.len() != expected {
        return Err(CallError::WrongLength { expected, found: output.len() });
    }
    let verdict = |v: wit::Verdict| {
        let fits = v.reason.len() <= REASON_BYTES
            && v.reason.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && (v.keep || !v.reason.is_empty());
        if !fits {
            let reason = crate::log::sanitise(&v.reason, 100);
            return Err(CallError::BadReason(format!("`{reason}` cannot be a metric's name")));
        }
        Ok(Verdict { keep: v.keep, reason: v.reason, keep_if_short: v.keep_if_short })
    };
    output.into_iter().map(verdict).collect()
}
