//! What of a step can be learnt from, and the advantages that a plugin gives it, joined by id.

use crate::RunError;
use crate::plugins::Named;
use crate::step::rollout::Answered;
use std::collections::{HashMap, HashSet};
use whet_plugin_host::{AdvantagePlugin, Advantages, Batch};
use whet_trainer::TrainSample;
use whet_trajectory::FinishReason;

/// The samples of a step that can be learnt from: those with a score, whose rollout was not cancelled.
pub fn trainable(groups: &[Answered]) -> Vec<TrainSample> {
    let mut samples = Vec::new();
    for answered in groups {
        for (completion, judgement) in answered.completions.iter().zip(&answered.judgements) {
            let usable = completion.finish != FinishReason::Aborted && !completion.tokens.is_empty();
            if judgement.reward().is_none() || !usable {
                continue;
            }
            let prompt = &answered.ask.prompt.ids;
            let mut tokens = prompt.to_vec();
            tokens.extend(&completion.tokens);
            let mut rollout_logprobs = vec![0.0; prompt.len()];
            rollout_logprobs.extend(&completion.logprobs);
            let count = tokens.len();
            samples.push(TrainSample {
                id: completion.id.clone(),
                group: answered.ask.group.clone(),
                prompt_len: prompt.len(),
                loss_mask: (0..count).map(|t| t >= prompt.len()).collect(),
                rollout_logprobs,
                advantages: vec![0.0; count],
                tokens,
                old_logprobs: None,
                reference_logprobs: None,
            });
        }
    }
    samples
}

/// Gives every sample the advantages that the plugin computes.
///
/// * `values`: the critic's, by sample and token; none without one
pub fn apply_plugin(
    samples: &mut [TrainSample],
    groups: &[Answered],
    plugin: &Named<AdvantagePlugin>,
    values: &[Vec<f32>],
) -> Result<(), RunError> {
    let mut batch = batch_of(samples, groups);
    for (sample, values) in samples.iter().zip(values) {
        batch.values.extend(&values[sample.prompt_len..]);
    }
    let advantages = plugin.plugin.estimate(&batch).map_err(|error| RunError::PluginCall {
        role: "advantage",
        name: plugin.name.clone(),
        failure: error.into(),
    })?;
    // The host has checked lengths and that every number is finite.
    let mut by_token = match &advantages {
        Advantages::PerSample(_) => [].iter(),
        Advantages::PerToken(values) => values.iter(),
    };
    for (index, sample) in samples.iter_mut().enumerate() {
        for slot in &mut sample.advantages[sample.prompt_len..] {
            *slot = match &advantages {
                Advantages::PerSample(values) => values.get(index).copied().unwrap_or(0.0),
                Advantages::PerToken(_) => by_token.next().copied().unwrap_or(0.0),
            };
        }
    }
    Ok(())
}

/// The batch as columns, in the order of `samples`.
fn batch_of(samples: &[TrainSample], groups: &[Answered]) -> Batch {
    let mut found = HashMap::new();
    for (number, answered) in groups.iter().enumerate() {
        for (completion, judgement) in answered.completions.iter().zip(&answered.judgements) {
            found.insert(&completion.id, (number as u32, completion, judgement));
        }
    }
    let mut batch = Batch::default();
    let mut names = Vec::new();
    let mut seen = HashSet::new();
    for (_, _, judgement) in samples.iter().filter_map(|s| found.get(&s.id)) {
        for component in judgement.components() {
            if seen.insert(component.name.clone()) {
                names.push(component.name.clone());
            }
        }
    }
    batch.components = names.iter().map(|n| (n.clone(), Vec::new())).collect();
    for sample in samples {
        let Some((group, completion, judgement)) = found.get(&sample.id) else { continue };
        batch.sample_ids.push(sample.id.0.clone());
        batch.groups.push(*group);
        batch.rewards.push(judgement.reward().unwrap_or(0.0) as f32);
        for (name, column) in &mut batch.components {
            let value = judgement.components().iter().find(|c| c.name == *name).map_or(0.0, |c| c.value);
            column.push(value as f32);
        }
        batch.lengths.push(completion.tokens.len() as u32);
        batch.mask.extend(sample.loss_mask[sample.prompt_len..].iter().map(|m| u8::from(*m)));
        batch.rollout_logprobs.extend(&completion.logprobs);
        let response = sample.prompt_len..;
        batch.old_logprobs.extend(sample.old_logprobs.iter().flat_map(|l| &l[response.clone()]));
        batch.reference_logprobs.extend(sample.reference_logprobs.iter().flat_map(|l| &l[response.clone()]));
        batch.versions.extend(completion.versions.iter().map(|v| v.0 as u32));
        batch.turns.extend(std::iter::repeat_n(0, completion.tokens.len()));
    }
    batch
}
