//! Advantage plugins: a batch as columns in, advantages out.

use crate::bindings::advantage::exports::whet::plugin::advantage as wit;
use crate::bindings::advantage::{Estimating, EstimatingIndices};
use crate::call::Guest;
use crate::state::Subject;
use crate::{Advantages, Batch, CallError, Descriptor, Digest, Stats};

/// A loaded advantage plugin. Calls may come from many threads at once.
pub struct AdvantagePlugin {
    pub(crate) guest: Guest,
    pub(crate) indices: EstimatingIndices,
    pub(crate) descriptor: Descriptor,
}

impl AdvantagePlugin {
    /// Advantages of a batch: finite, one per sample or one per response token.
    ///
    /// The result crosses the boundary at 4 bytes a value: `Limits::boundary_bytes` must hold it.
    pub fn estimate(&self, batch: &Batch) -> Result<Advantages, CallError> {
        batch.check()?;
        if batch.sample_ids.is_empty() {
            return Ok(Advantages::PerSample(Vec::new()));
        }
        self.guest.call(Subject::of(&batch.sample_ids[0]), |store, instance| {
            let advantage: Estimating = self.indices.load(&mut *store, instance)?;
            let output = advantage.whet_plugin_advantage().call_estimate(&mut *store, &columns(batch))??;
            let (values, expected) = match &output {
                wit::Advantages::PerSample(values) => (values, batch.sample_ids.len()),
                wit::Advantages::PerToken(values) => (values, batch.tokens()),
            };
            if values.len() != expected {
                return Err(CallError::WrongLength { expected, found: values.len() }.into());
            }
            if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                let value = values[i].to_string();
                return Err(CallError::NonFinite { at: format!("advantage {i}"), value }.into());
            }
            Ok(match output {
                wit::Advantages::PerSample(values) => Advantages::PerSample(values),
                wit::Advantages::PerToken(values) => Advantages::PerToken(values),
            })
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

fn columns(batch: &Batch) -> wit::Batch {
    wit::Batch {
        sample_ids: batch.sample_ids.clone(),
        groups: batch.groups.clone(),
        rewards: batch.rewards.clone(),
        components: batch.components.clone(),
        lengths: batch.lengths.clone(),
        mask: batch.mask.clone(),
        rollout_logprobs: batch.rollout_logprobs.clone(),
        old_logprobs: batch.old_logprobs.clone(),
        reference_logprobs: batch.reference_logprobs.clone(),
        values: batch.values.clone(),
        versions: batch.versions.clone(),
        turns: batch.turns.clone(),
    }
}
