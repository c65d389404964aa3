//! Measuring the model on prompts that it is not trained on.

use crate::prompt::Prompt;
use crate::step::policy::Judgement;
use crate::step::report::record;
use crate::step::rollout::{Answered, Ask, all_groups, roll_out};
use crate::step::score::Scorer;
use crate::{RunError, Stop, seed};
use std::sync::Arc;
use whet_observe::{Answer, Comparison, Console, Metrics, SampleRecord};
use whet_rollout::{Engine, Sampling};
use whet_trajectory::GroupId;

/// A name of a reward component that says whether an answer is right.
const CORRECT: &str = "correct";

/// What is asked, and how.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The prompts.
    pub prompts: Vec<Arc<Prompt>>,
    /// Responses to each.
    pub samples: usize,
    /// How they are drawn.
    pub sampling: Sampling,
    /// The run's seed.
    pub seed: u64,
}

/// The answers and what they are worth.
#[derive(Debug)]
pub struct Evaluated {
    /// In the order of the prompts.
    pub groups: Vec<Answered>,
    /// `eval/…`.
    pub metrics: Metrics,
}

impl Evaluation {
    /// Asks everything once. `None` when somebody asked the run to stop.
    pub fn run(
        &self,
        step: u64,
        engine: &dyn Engine,
        scorer: &Scorer,
        console: &mut Console,
        stop: &Stop,
    ) -> Result<Option<Evaluated>, RunError> {
        let asks: Vec<Ask> = self
            .prompts
            .iter()
            .map(|prompt| Ask {
                group: GroupId(format!("eval{step}/row{}", prompt.row)),
                prompt: prompt.clone(),
                seeds: (0..self.samples).map(|k| seed::evaluation(self.seed, prompt.row, k)).collect(),
            })
            .collect();
        console.phase("eval", asks.len() * self.samples);
        let rollout = roll_out(engine, asks, &self.sampling, scorer, console, Some(stop), &mut all_groups);
        console.end_phase();
        let Some(rollout) = rollout? else { return Ok(None) };
        let mut metrics = metrics(&rollout.groups);
        metrics.insert("eval/seconds".into(), rollout.sampling_seconds + rollout.scoring_seconds);
        Ok(Some(Evaluated { groups: rollout.groups, metrics }))
    }
}

impl Evaluated {
    /// The answers as lines of `evals/`.
    pub fn records(&self, step: u64) -> Vec<SampleRecord> {
        self.groups.iter().flat_map(|g| record(step, g, None)).collect()
    }
}

/// The first `count` prompts with their first answers, before and after.
pub fn comparisons(before: &[SampleRecord], after: &[SampleRecord], count: usize) -> Vec<Comparison> {
    let first_answers = after.iter().filter(|r| r.id.0.ends_with("/0"));
    let pairs = first_answers.filter_map(|after| {
        let same = |b: &&SampleRecord| b.row == after.row && b.id.0.ends_with("/0");
        before.iter().find(same).map(|before| (before, after))
    });
    let answer = |r: &SampleRecord| Answer { text: r.response.clone(), reward: r.reward };
    let question = |r: &SampleRecord| {
        let user = r.prompt.iter().rev().find(|m| m.role == whet_trajectory::Role::User);
        user.or(r.prompt.last()).map(|m| m.joined_text()).unwrap_or_default()
    };
    pairs
        .take(count)
        .map(|(before, after)| Comparison {
            prompt: question(after),
            label: after.label.clone(),
            before: answer(before),
            after: answer(after),
        })
        .collect()
}

fn metrics(groups: &[Answered]) -> Metrics {
    let judgements: Vec<&Judgement> = groups.iter().flat_map(|g| &g.judgements).collect();
    let rewards: Vec<f64> = judgements.iter().filter_map(|j| j.reward()).collect();
    let lengths: Vec<f64> =
        groups.iter().flat_map(|g| &g.completions).map(|c| c.tokens.len() as f64).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut metrics = Metrics::new();
    metrics.insert("eval/samples".into(), judgements.len() as f64);
    metrics.insert("eval/scored".into(), rewards.len() as f64);
    metrics.insert("eval/length".into(), mean(&lengths));
    if !rewards.is_empty() {
        metrics.insert("eval/reward".into(), mean(&rewards));
    }
    let correct: Vec<f64> = judgements
        .iter()
        .flat_map(|j| j.components())
        .filter(|c| c.name == CORRECT || c.name.ends_with("/correct"))
        .map(|c| c.value)
        .collect();
    if !correct.is_empty() {
        metrics.insert("eval/accuracy".into(), mean(&correct));
    }
    metrics
}
