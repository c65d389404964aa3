//! Scoring a group by every reward plugin.

use crate::step::policy::{Gate, Judgement, Verdict, judge};
use whet_plugin_host::RewardPlugin;
use whet_recipe::Combine;
use whet_trajectory::{Failure, Group, Outcome};

/// A reward plugin and its part in the total.
pub struct Reward {
    /// The name by which people know it.
    pub name: String,
    /// Factor of its reward in the total.
    pub weight: f64,
    /// Factors of its components.
    pub weights: Vec<(String, f64)>,
    /// How its reward enters the total.
    pub combine: Combine,
    /// What must hold for its reward to count.
    pub gates: Vec<Gate>,
    /// The plugin.
    pub plugin: RewardPlugin,
}

/// All rewards of a run.
pub struct Scorer {
    /// In the recipe's order.
    pub rewards: Vec<Reward>,
    /// Times that a call is repeated when its failure may pass.
    pub retries: u32,
}

impl Scorer {
    /// One judgement per sample of the group, in its order. Never fails: failures are judgements.
    pub fn score(&self, group: &Group) -> Vec<Judgement> {
        let mut by_reward: Vec<std::vec::IntoIter<Outcome>> =
            self.rewards.iter().map(|reward| self.outcomes(reward, group).into_iter()).collect();
        let mut judgements = Vec::with_capacity(group.samples.len());
        for _ in &group.samples {
            let verdicts = self.rewards.iter().zip(&mut by_reward).map(|(reward, outcomes)| Verdict {
                plugin: &reward.name,
                weight: reward.weight,
                weights: &reward.weights,
                combine: reward.combine,
                gates: &reward.gates,
                outcome: outcomes.next().unwrap_or_else(missing_outcome),
            });
            judgements.push(judge(verdicts.collect()));
        }
        judgements
    }

    /// Whether scoring may wait for judges or servers.
    pub fn asks_others(&self) -> bool {
        self.rewards.iter().any(|reward| reward.plugin.asks_others())
    }

    /// Ends all scoring, now and later: nobody wants the results.
    pub fn cancel(&self) {
        self.rewards.iter().for_each(|reward| reward.plugin.cancel_all());
    }

    /// What one plugin says; repeated while its failures may pass. A repetition replaces only what failed.
    fn outcomes(&self, reward: &Reward, group: &Group) -> Vec<Outcome> {
        let mut outcomes = call(reward, group);
        for _ in 0..self.retries {
            if !outcomes.iter().any(may_pass) {
                break;
            }
            for (old, new) in outcomes.iter_mut().zip(call(reward, group)) {
                if may_pass(old) {
                    *old = new;
                }
            }
        }
        outcomes
    }
}

fn call(reward: &Reward, group: &Group) -> Vec<Outcome> {
    match reward.plugin.score(group) {
        Ok(outcomes) => outcomes,
        Err(error) => vec![Outcome::Failed(Failure::from(error)); group.samples.len()],
    }
}

fn may_pass(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.retryable)
}

/// The plugin host checks the number of outcomes, so this is a defect of the host, told as such.
fn missing_outcome() -> Outcome {
    Outcome::Failed(Failure {
        kind: "missing-outcome".into(),
        message: "the plugin host returned fewer outcomes than samples".into(),
        attribution: whet_trajectory::Attribution::Host,
        retryable: false,
    })
}
