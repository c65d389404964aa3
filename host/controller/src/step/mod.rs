//! One training step: gather answers and their scores ([`gather`]), learn ([`learn`]), hand the weights over ([`sync`]).

pub mod advantage;
pub mod critic;
pub mod estimate;
pub mod gather;
pub mod learn;
pub mod loss;
pub mod policy;
pub mod report;
pub mod rollout;
pub mod score;
pub mod sync;
pub mod teacher;
pub mod teacher_server;

use crate::RunError;
use crate::plugins::Plugins;
use crate::prompt::Prompt;
use crate::step::critic::Critic;
use crate::step::learn::Learnt;
use crate::step::report::{Seconds, StepReport};
use crate::step::sync::Probe;
use crate::step::teacher::Teacher;
use std::sync::Arc;
use std::time::Instant;
use whet_observe::Console;
use whet_plugin_host::Host;
use whet_recipe::Recipe;
use whet_recipe::data::Order;
use whet_rollout::Engine;
use whet_trainer::Trainer;

/// Everything that takes part in a step.
pub struct Roles {
    /// The run's recipe.
    pub recipe: Recipe,
    /// Samples.
    pub engine: Box<dyn Engine>,
    /// Learns.
    pub trainer: Trainer,
    /// Says what is to be expected, where advantages are read off that.
    pub critic: Option<Critic>,
    /// Says what another model would do.
    pub teacher: Option<Teacher>,
    /// Scores, filters, weighs.
    pub plugins: Plugins,
    /// The clock of the plugins' deadlines stops with it.
    pub host: Host,
    /// What is asked.
    pub prompts: Vec<Arc<Prompt>>,
    /// In which order.
    pub order: Order,
    /// Place in that order after the last prompt that was used.
    pub position: u64,
    /// Weight of the KL penalty now; it moves where the recipe steers it.
    pub kl_coefficient: f64,
    /// Proves that weights arrive.
    pub probe: Probe,
}

impl Roles {
    /// Does step `step`, counted from 1. Until the first update, an error leaves the trainer as it was.
    pub fn step(&mut self, step: u64, console: &mut Console) -> Result<StepReport, RunError> {
        let began = Instant::now();
        let gathered = self.gather(step, console)?;

        console.phase("train", 1);
        let training = Instant::now();
        let Learnt { advantages, losses, updates, numbers } =
            self.learn_from(step, &gathered.chosen(), console)?;
        let train = training.elapsed().as_secs_f64();
        let updated = updates.iter().any(|u| !u.skipped);
        let sync = match updated {
            true => Some(self.probe.hand_over(&*self.engine, &self.trainer, self.trainer.version())?),
            false => None,
        };
        console.end_phase();
        // Only now: a step that fails is asked again, from the same place.
        self.position = gathered.position;
        Ok(StepReport {
            step,
            advantages,
            losses,
            updates,
            numbers,
            sync,
            epoch: self.position as f64 / self.prompts.len() as f64,
            seconds: Seconds {
                rollout: gathered.sampling_seconds,
                reward: gathered.scoring_seconds,
                train,
                sync: sync.map_or(0.0, |s| s.seconds),
                step: began.elapsed().as_secs_f64(),
            },
            gathered,
        })
    }
}
