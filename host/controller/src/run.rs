//! A run from its first to its last step: evaluations, checkpoints, resuming, stopping.

use crate::checkpoint::{self, Checkpoints, Progress};
use crate::directory::{Directory, Manifest};
use crate::evaluate::{Evaluation, comparisons};
use crate::prompt::Prompt;
use crate::setup::{self, LoadedModel, PromptSet};
use crate::step::Roles;
use crate::step::sync::Probe;
use crate::step::{critic, teacher};
use crate::{RunError, Stop, offline, options, plugins};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Kind};
use whet_observe::{
    AlertWatch, Console, MetricsLine, Recorder, SampleRecord, StepLine, TrajectoryWriter, read_metrics,
};
use whet_recipe::data::Order;
use whet_recipe::{Recipe, Task};
use whet_trainer::Trainer;

/// Training prompts that stand in where there is no test data, for the table at the end.
const STAND_INS: usize = 4;

/// How a run ended, when nothing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All steps are done.
    Finished {
        /// Where everything is.
        dir: PathBuf,
    },
    /// Somebody asked it to stop; it can be resumed.
    Interrupted {
        /// Where everything is.
        dir: PathBuf,
        /// Steps done and saved.
        step: u64,
    },
}

/// Trains as the recipe says, in its run directory; with `resume`, goes on from the last whole checkpoint
/// there. `stop` ends it after the current step.
pub fn train(recipe: Recipe, resume: bool, console: &mut Console, stop: &Stop) -> Result<RunEnd, RunError> {
    let directory = Directory::open(&recipe, resume)?;
    if recipe.task != Task::Rl {
        return offline::train(recipe, directory, resume, console, stop);
    }
    let mut run = Run::start(recipe, directory, resume, console)?;
    let end = run.go(console, stop);
    console.end_phase();
    end
}

struct Run {
    roles: Roles,
    directory: Directory,
    checkpoints: Checkpoints,
    recorder: Recorder,
    evaluations: TrajectoryWriter,
    evaluation: Evaluation,
    /// Whether the evaluation measures test data, or only feeds the table.
    measures: bool,
    /// Steps done.
    done: u64,
    /// The step of the latest checkpoint.
    saved: Option<u64>,
    /// Steps after which the model was measured, of this run and those that it resumes.
    evaluated: Vec<u64>,
    rewards: Vec<f64>,
    watch: AlertWatch,
    /// Whether engine and trainer agree on log-probabilities: in fp32, and on CPUs, where they share a forward pass.
    agrees: bool,
}

impl Run {
    fn start(
        recipe: Recipe,
        directory: Directory,
        resume: bool,
        console: &Console,
    ) -> Result<Self, RunError> {
        // What can be wrong is tried in the order of its cost: plugins, data, model.
        let (host, plugins) = setup::start_plugins_of_run(&recipe, directory.path())?;
        let rows = setup::read_rows(&recipe)?;
        let model = setup::load_model(&recipe)?;
        let training = setup::training_prompts(&recipe, rows.train, &model.checkpoint, &plugins)?;
        let test = setup::test_prompts(&recipe, rows.test, &model.checkpoint)?;
        let manifest = manifest(&recipe, &model, &training, &plugins.records);
        directory.record(&recipe, &manifest, resume)?;
        let dir = directory.path().to_owned();
        let checkpoints = Checkpoints::open(&dir.join("checkpoints"), recipe.run.keep)?;

        let engine = setup::start_engine(&recipe, &model)?;
        let probe = Probe::new(&training.prompts[0].ids, &engine)?;
        let critic = critic::load(&recipe, &model)?;
        let teacher = teacher::load(&recipe, &model)?;
        let train = options::train(&recipe, model.kind, model.device);
        let trainer = Trainer::new(&model.checkpoint.config, model.checkpoint.weights, train)?;

        let measures = !test.is_empty();
        let stand_ins = || training.prompts.iter().take(STAND_INS).cloned().collect();
        let evaluation = Evaluation {
            prompts: if measures { test } else { stand_ins() },
            samples: recipe.eval.as_ref().map_or(1, |e| e.samples_per_prompt),
            sampling: options::evaluation_sampling(&recipe),
            seed: recipe.seed,
        };
        let count = training.prompts.len();
        let order = match recipe.data.shuffle {
            true => Order::new(count, recipe.seed),
            false => Order::in_file_order(count),
        };
        let mut roles = Roles {
            engine: Box::new(engine),
            trainer,
            critic,
            teacher,
            plugins,
            host,
            prompts: training.prompts.clone(),
            order,
            position: 0,
            kl_coefficient: recipe.algorithm.kl.coefficient,
            probe,
            recipe,
        };
        introduce(console, &roles, &training, &evaluation, measures, &manifest, &dir);
        // Everything after the checkpoint is forgotten, by the logs too.
        let done = if resume { take_up(&mut roles, &checkpoints, console)? } else { 0 };
        let steps = roles.recipe.train.steps;
        if done >= steps {
            console.say(&format!("  all {steps} steps were done before; a higher train.steps goes on"));
        }
        let after = resume.then_some(done);
        let log = &roles.recipe.log;
        let recorder = Recorder::open(&dir, after, log.tensorboard, log.trajectories)?;
        let evaluations = TrajectoryWriter::open(&dir.join("evals"), after)?;
        let lines = read_metrics(&dir.join("metrics.jsonl"))?;
        Ok(Run {
            rewards: lines.iter().filter_map(|l| l.metrics.get("reward/mean").copied()).collect(),
            evaluated: evaluated_steps(&lines, &dir, measures),
            saved: (done > 0).then_some(done),
            agrees: model.kind == Kind::Float || model.device == Device::Cpu,
            watch: AlertWatch::default(),
            roles,
            directory,
            checkpoints,
            recorder,
            evaluations,
            evaluation,
            measures,
            done,
        })
    }

    fn go(&mut self, console: &mut Console, stop: &Stop) -> Result<RunEnd, RunError> {
        let (steps, every) =
            (self.roles.recipe.train.steps, self.roles.recipe.eval.as_ref().map_or(0, |e| e.every));
        if self.done == 0 && !self.evaluate(console, stop)? {
            return self.interrupted();
        }
        while self.done < steps {
            // A checkpoint comes before the evaluation of its step, so a resumed run may owe one.
            if self.done > 0
                && every > 0
                && self.done.is_multiple_of(every)
                && !self.evaluate(console, stop)?
            {
                return self.interrupted();
            }
            if stop.is_asked() {
                return self.interrupted();
            }
            self.step(console)?;
            let every = self.roles.recipe.run.checkpoint_every;
            if self.done == steps || (every > 0 && self.done.is_multiple_of(every)) {
                self.save()?;
            }
        }
        if !self.evaluate(console, stop)? {
            return self.interrupted();
        }
        self.compare(console)?;
        Ok(RunEnd::Finished { dir: self.directory.path().to_owned() })
    }

    fn step(&mut self, console: &mut Console) -> Result<(), RunError> {
        let step = self.done + 1;
        let version = self.roles.trainer.version();
        let report = match self.roles.step(step, console) {
            Ok(report) => report,
            Err(error) => {
                // Nothing was learnt in this step, so what was learnt before it can still be saved. The
                // error that ended the run is the one to tell, whether or not this works.
                if self.roles.trainer.version() == version && self.done > 0 {
                    let _ = self.save();
                }
                return Err(error);
            }
        };
        let metrics = report.metrics();
        self.recorder.samples(step, &report.records())?;
        self.recorder.numbers(step, &metrics)?;
        self.done = step;
        self.rewards.push(report.reward());
        let seconds = &report.seconds;
        let line = StepLine {
            step,
            steps: self.roles.recipe.train.steps,
            rewards: self.rewards.clone(),
            kl: report.kl(),
            groups: self.roles.recipe.rollout.dynamic.as_ref().map(|_| report.gathered.counts()),
            length: report.length(),
            seconds: [seconds.step, seconds.rollout, seconds.reward, seconds.train + seconds.sync],
        };
        console.step(&line, &metrics);
        if step == 1 {
            console.samples(&report.shown(self.roles.recipe.log.show_samples));
        }
        for alert in self.watch.observe(report.statistics(&self.roles.recipe, self.agrees)) {
            console.alert(step, &alert);
        }
        Ok(())
    }

    /// Measures the model after `self.done` steps, unless that was done before; false when interrupted.
    fn evaluate(&mut self, console: &mut Console, stop: &Stop) -> Result<bool, RunError> {
        let step = self.done;
        if self.evaluated.contains(&step) {
            return Ok(true);
        }
        let scorer = &self.roles.plugins.scorer;
        let evaluated = self.evaluation.run(step, &*self.roles.engine, scorer, console, stop)?;
        let Some(evaluated) = evaluated else { return Ok(false) };
        self.evaluations.write(step, &evaluated.records(step))?;
        if self.measures {
            self.recorder.numbers(step, &evaluated.metrics)?;
            console.evaluation(step, &evaluated.metrics);
        }
        self.evaluated.push(step);
        Ok(true)
    }

    /// Shows the same prompts before and after.
    fn compare(&self, console: &Console) -> Result<(), RunError> {
        let read =
            |step: u64| read_answers(&self.directory.path().join(format!("evals/step-{step:06}.jsonl")));
        let count = self.roles.recipe.log.show_samples;
        if count > 0 {
            console.comparisons(&comparisons(&read(0)?, &read(self.done)?, count));
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), RunError> {
        if self.saved != Some(self.done) {
            let (trainer, critic) = (&self.roles.trainer, &self.roles.critic);
            let progress =
                Progress { position: self.roles.position, kl_coefficient: self.roles.kl_coefficient };
            let kept = self.roles.host.kept(&plugins::run_name(&self.roles.recipe));
            self.checkpoints.write(self.done, |dir| {
                checkpoint::save_kept(&kept, dir)?;
                trainer.save(&dir.join("trainer"))?;
                if let Some(critic) = critic {
                    critic.save(&dir.join("critic"))?;
                }
                progress.save(dir)
            })?;
            self.saved = Some(self.done);
        }
        Ok(())
    }

    fn interrupted(&mut self) -> Result<RunEnd, RunError> {
        if self.done > 0 {
            self.save()?;
        }
        Ok(RunEnd::Interrupted { dir: self.directory.path().to_owned(), step: self.done })
    }
}

/// Takes the last whole checkpoint, and returns its step; 0 without any.
fn take_up(roles: &mut Roles, checkpoints: &Checkpoints, console: &Console) -> Result<u64, RunError> {
    let (latest, torn) = checkpoints.latest()?;
    for step in &torn {
        console.warn(&format!("the checkpoint of step {step} is damaged and not used"));
    }
    let Some(saved) = latest else {
        let none = if torn.is_empty() { "there is no checkpoint yet" } else { "no checkpoint is whole" };
        console.say(&format!("  {none}; the run starts again"));
        return Ok(0);
    };
    roles.trainer.load(&saved.path.join("trainer"))?;
    if let Some(critic) = &mut roles.critic {
        critic.load(&saved.path.join("critic"))?;
    }
    let progress = Progress::load(&saved.path)?;
    (roles.position, roles.kl_coefficient) = (progress.position, progress.kl_coefficient);
    roles.host.restore(&plugins::run_name(&roles.recipe), checkpoint::load_kept(&saved.path)?);
    roles.probe.hand_over(&*roles.engine, &roles.trainer, roles.trainer.version())?;
    console.say(&format!("  resumes after step {}", saved.step));
    Ok(saved.step)
}

/// Steps whose evaluation is complete: its answers are written before its numbers, where it has numbers.
fn evaluated_steps(lines: &[MetricsLine], dir: &Path, measures: bool) -> Vec<u64> {
    if measures {
        return lines.iter().filter(|l| l.metrics.contains_key("eval/samples")).map(|l| l.step).collect();
    }
    if dir.join("evals/step-000000.jsonl").exists() { vec![0] } else { Vec::new() }
}

fn read_answers(path: &Path) -> Result<Vec<SampleRecord>, RunError> {
    let text = std::fs::read_to_string(path).map_err(RunError::read(path))?;
    let parse = |line: &str| serde_json::from_str(line);
    text.lines()
        .map(parse)
        .collect::<Result<_, _>>()
        .map_err(|e| RunError::Malformed { path: path.to_owned(), reason: e.to_string() })
}

/// A checksum of everything of the prompts that a run depends on.
fn digest(prompts: &[Arc<Prompt>]) -> String {
    let mut sum = 0;
    for prompt in prompts {
        let parts = (&prompt.row_id, &prompt.ids, &prompt.label, &prompt.metadata);
        sum = crc32c::crc32c_append(sum, format!("{parts:?}\n").as_bytes());
    }
    format!("{sum:08x}")
}

fn manifest(
    recipe: &Recipe,
    model: &LoadedModel,
    training: &PromptSet,
    plugins: &[crate::plugins::PluginRecord],
) -> Manifest {
    Manifest {
        whet: env!("CARGO_PKG_VERSION").into(),
        model: recipe.model.source.clone(),
        dtype: options::kind_name(model.kind).into(),
        device: format!("{:?}", model.device).to_lowercase(),
        seed: recipe.seed,
        rows: [training.prompts.len(), training.rows],
        prompts: digest(&training.prompts),
        plugins: plugins.to_vec(),
        judges: crate::judges::records(recipe),
    }
}

fn introduce(
    console: &Console,
    roles: &Roles,
    training: &PromptSet,
    evaluation: &Evaluation,
    measures: bool,
    manifest: &Manifest,
    dir: &Path,
) {
    let name =
        Path::new(&manifest.model).file_name().map_or(manifest.model.clone(), |n| n.to_string_lossy().into());
    let trained = roles.trainer.trained_parameters() as f64 / 1e6;
    let rows = if measures {
        format!("{} rows, {} to measure on", training.prompts.len(), evaluation.prompts.len())
    } else {
        format!("{} rows", training.prompts.len())
    };
    console.say(&format!(
        "  {name}  {trained:.1} M trained weights, {}, {}  ·  {rows}  ·  {}",
        manifest.dtype,
        manifest.device,
        dir.display()
    ));
    if training.too_long > 0 {
        console.say(&format!(
            "  {} rows are longer than data.max-prompt-tokens and left out",
            training.too_long
        ));
    }
    for (reason, count) in &training.filtered {
        console.say(&format!("  {count} rows were filtered out: {reason}"));
    }
}
