//! The teacher of a run: a model that is loaded here, or one at a server ([`crate::step::teacher_server`]).

use crate::RunError;
use crate::setup::{self, LoadedModel};
use crate::step::teacher_server::Server;
use std::collections::HashMap;
use whet_recipe::{Recipe, RestOfTokens, TeacherDivergence, TeacherLoss, TopTokens};
use whet_trainer::loss::distillation::{Divergence, Rest};
use whet_trainer::{Distillation, Frozen, Support, Told, TrainSample};
use whet_trajectory::SampleId;

/// A teacher.
pub struct Teacher {
    place: Place,
    /// The term of the loss, if it has one.
    loss: Option<TeacherLoss>,
}

enum Place {
    Here(Box<Frozen>),
    Server(Server),
}

/// What a teacher said of the samples of a step.
#[derive(Debug, Default)]
pub struct Said {
    /// Log-probability of every sampled token, one list per sample; empty where nobody reads them.
    pub logprobs: Vec<Vec<f32>>,
    /// Its likeliest tokens, of a teacher at a server.
    told: HashMap<SampleId, Told>,
}

/// The recipe's teacher, if it has one.
pub fn load(recipe: &Recipe, student: &LoadedModel) -> Result<Option<Teacher>, RunError> {
    let Some(section) = &recipe.teacher else { return Ok(None) };
    let place = match &section.source {
        Some(source) => {
            let loaded = setup::load_source(source, section.dtype, student.device)?;
            setup::same_tokenizer("teacher", source, &student.checkpoint, &loaded.checkpoint)?;
            let checkpoint = &loaded.checkpoint;
            Place::Here(Box::new(Frozen::new(&checkpoint.config, &checkpoint.weights)?))
        }
        None => Place::Server(Server::connect(section, &student.checkpoint.tokenizer)?),
    };
    Ok(Some(Teacher { place, loss: section.loss.clone() }))
}

impl Teacher {
    /// Asks about the samples of a step, as far as something needs it before the losses.
    ///
    /// * `logprobs`: whether an estimator reads those of the sampled tokens
    pub fn ask(
        &self,
        samples: &[TrainSample],
        logprobs: bool,
        temperature: f64,
        micro_batch_tokens: usize,
    ) -> Result<Said, RunError> {
        match &self.place {
            Place::Here(_) if !logprobs => Ok(Said::default()),
            Place::Here(model) => {
                let logprobs = model.logprobs(samples, temperature, micro_batch_tokens)?;
                Ok(Said { logprobs, told: HashMap::new() })
            }
            Place::Server(server) => {
                let top = self.loss.as_ref().map_or(0, |loss| loss.top_k);
                let mut said = Said::default();
                for (sample, answer) in samples.iter().zip(server.ask(samples, top)?) {
                    said.logprobs.push(answer.logprobs);
                    said.told.insert(sample.id.clone(), answer.told);
                }
                Ok(said)
            }
        }
    }

    /// The term of the loss, if it has one.
    pub fn term<'a>(&'a self, said: &'a Said) -> Option<Distillation<'a>> {
        let loss = self.loss.as_ref()?;
        let support = match (loss.top_k, loss.tokens) {
            (0, _) => Support::All,
            (top, TopTokens::Teacher) => Support::Teacher { top },
            (top, TopTokens::Student) => Support::Student { top },
        };
        let rest = match (support, loss.rest) {
            (Support::All, _) | (_, RestOfTokens::Drop) => Rest::Dropped,
            (_, RestOfTokens::Bin) => Rest::Bin,
            (_, RestOfTokens::Renormalise) => Rest::Renormalised,
        };
        Some(Distillation {
            divergence: match loss.divergence {
                TeacherDivergence::Reverse => Divergence::Reverse,
                TeacherDivergence::Forward => Divergence::Forward,
                TeacherDivergence::Jensen => Divergence::Jensen { teacher: loss.beta },
            },
            support,
            rest,
            coefficient: loss.coefficient,
            teacher: match &self.place {
                Place::Here(model) => whet_trainer::Teacher::Model(model),
                Place::Server(_) => whet_trainer::Teacher::Told(&said.told),
            },
        })
    }
}
