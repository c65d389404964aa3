//! Training that samples nothing: supervised fine-tuning, preferences, reward models.
//!
//! One loop for all: rows in the run's order, a step, a checkpoint, a measurement. What a step does with
//! its rows is the task's (`Lessons`).

pub mod conversation;
pub mod reward_model;

mod imitation;
mod preference;

use crate::checkpoint::Checkpoints;
use crate::directory::{Directory, Manifest};
use crate::run::RunEnd;
use crate::{RunError, Stop, options, setup};
use std::path::Path;
use std::time::Instant;
use whet_model::Checkpoint;
use whet_observe::{Console, Metrics, Recorder, TaskLine, read_metrics};
use whet_recipe::data::Order;
use whet_recipe::{Recipe, Task};
use whet_trainer::{Pair, StepMetrics, TrainSample};

/// The metric by which a measurement is known.
const MEASURED: &str = "eval/loss";

/// What a task does with rows.
pub(crate) trait Lessons {
    /// Rows that can be learnt from.
    fn rows(&self) -> usize;

    /// What is fixed before the first update of this process, for the rows that will be learnt from.
    fn prepare(&mut self, _rows: &[usize]) -> Result<(), RunError> {
        Ok(())
    }

    /// Learns from rows; returns their numbers, among them `train/loss`, and what the update did.
    fn step(&mut self, rows: &[usize]) -> Result<(Metrics, StepMetrics), RunError>;

    /// Measures the test data: numbers named `eval/…`, among them [`MEASURED`]; none without test data.
    fn measure(&mut self) -> Result<Metrics, RunError>;

    /// Writes what a resumed run needs.
    fn save(&self, dir: &Path) -> Result<(), RunError>;

    /// Reads it.
    fn load(&mut self, dir: &Path) -> Result<(), RunError>;

    /// The number beside the loss that people want to see of a step, as metric and name.
    fn shown(&self) -> (&'static str, &'static str);
}

/// What a task says of its data before it starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Rows in the files.
    pub all: usize,
    /// Rows to measure on.
    pub test: usize,
    /// Rows left out, as sentences.
    pub left_out: Vec<String>,
    /// Checksum of what is learnt.
    pub digest: String,
    /// Trained weights.
    pub weights: usize,
    /// Precision and device.
    pub computed: (String, String),
}

/// Trains as the recipe says, in its run directory.
pub(crate) fn train(
    recipe: Recipe,
    directory: Directory,
    resume: bool,
    console: &mut Console,
    stop: &Stop,
) -> Result<RunEnd, RunError> {
    let (mut lessons, about) = start(&recipe)?;
    let manifest = Manifest {
        whet: env!("CARGO_PKG_VERSION").into(),
        model: recipe.model.source.clone(),
        dtype: about.computed.0.clone(),
        device: about.computed.1.clone(),
        seed: recipe.seed,
        rows: [lessons.rows(), about.all],
        prompts: about.digest.clone(),
        plugins: Vec::new(),
        judges: Vec::new(),
    };
    directory.record(&recipe, &manifest, resume)?;
    introduce(console, &about, &manifest, directory.path());

    let order = match recipe.data.shuffle {
        true => Order::new(lessons.rows(), recipe.seed),
        false => Order::in_file_order(lessons.rows()),
    };
    let size = recipe.train.batch_size as u64;
    let rows = |step: u64| order.rows((step - 1) * size..step * size);
    let checkpoints = Checkpoints::open(&directory.path().join("checkpoints"), recipe.run.keep)?;
    let saved = if resume { latest(&checkpoints, console)? } else { None };
    let mut done = saved.as_ref().map_or(0, |(step, _)| *step);
    let steps = recipe.train.steps;
    if done >= steps {
        console.say(&format!("  all {steps} steps were done before; a higher train.steps goes on"));
    }
    // Before the weights of the checkpoint are taken: what a reference says is said by the first ones.
    let mut coming: Vec<usize> = (done + 1..=steps).flat_map(rows).collect();
    coming.sort_unstable();
    coming.dedup();
    lessons.prepare(&coming)?;
    if let Some((_, path)) = &saved {
        lessons.load(path)?;
    }
    let mut run = Run {
        recorder: Recorder::open(directory.path(), resume.then_some(done), recipe.log.tensorboard, false)?,
        losses: Vec::new(),
        measured: Vec::new(),
        saved: saved.map(|(step, _)| step),
        checkpoints,
    };
    let lines = read_metrics(&directory.path().join("metrics.jsonl"))?;
    run.losses.extend(lines.iter().filter_map(|l| l.metrics.get("train/loss").copied()));
    run.measured.extend(lines.iter().filter(|l| l.metrics.contains_key(MEASURED)).map(|l| l.step));

    let every = recipe.eval.as_ref().map_or(0, |e| e.every);
    let dir = directory.path().to_owned();
    while done < steps {
        if done == 0 || (every > 0 && done.is_multiple_of(every)) {
            run.measure(&mut *lessons, done, console)?;
        }
        if stop.is_asked() {
            run.save(&*lessons, done)?;
            return Ok(RunEnd::Interrupted { dir, step: done });
        }
        let began = Instant::now();
        let rows = rows(done + 1);
        let (mut metrics, update) = lessons.step(&rows)?;
        done += 1;
        let seconds = began.elapsed().as_secs_f64();
        record_update(&mut metrics, &update);
        metrics.insert("data/epoch".into(), (done * size) as f64 / lessons.rows() as f64);
        metrics.insert("time/step".into(), seconds);
        run.recorder.numbers(done, &metrics)?;
        run.losses.push(metrics.get("train/loss").copied().unwrap_or(f64::NAN));
        let (metric, name) = lessons.shown();
        let number = metrics.get(metric).copied().unwrap_or(f64::NAN);
        let line = TaskLine { step: done, steps, losses: &run.losses, number: (name, number), seconds };
        console.task_step(&line, &metrics);
        if done == steps
            || (recipe.run.checkpoint_every > 0 && done.is_multiple_of(recipe.run.checkpoint_every))
        {
            run.save(&*lessons, done)?;
        }
    }
    run.measure(&mut *lessons, done, console)?;
    Ok(RunEnd::Finished { dir })
}

/// What the recipe's test data say of its model, or of a checkpoint's.
pub fn measure(recipe: &Recipe, checkpoint: Option<&Path>) -> Result<Metrics, RunError> {
    let (mut lessons, _) = start(recipe)?;
    lessons.prepare(&[])?;
    if let Some(path) = checkpoint {
        lessons.load(path)?;
    }
    lessons.measure()
}

fn start(recipe: &Recipe) -> Result<(Box<dyn Lessons>, About), RunError> {
    match recipe.task {
        Task::Sft | Task::Rl => imitation::start(recipe),
        Task::Dpo => preference::start(recipe),
        Task::RewardModel => reward_model::start(recipe),
    }
}

/// What the rows of a data file become.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    /// Rows that can be learnt from.
    pub rows: usize,
    /// Tokens of the longest text.
    pub longest: usize,
    /// Tokens that are learnt.
    pub learnt: usize,
    /// Rows left out, as sentences.
    pub left_out: Vec<String>,
}

/// Reads and renders every row, for those who look before they train.
pub(crate) fn survey(recipe: &Recipe, model: &Checkpoint) -> Result<Vec<(&'static str, Survey)>, RunError> {
    let of = |samples: Vec<&TrainSample>, rows: usize, left_out: Vec<String>| Survey {
        rows,
        longest: samples.iter().map(|s| s.tokens.len()).max().unwrap_or(0),
        learnt: samples.iter().map(|s| s.trained()).sum(),
        left_out,
    };
    if recipe.task.compares() {
        let rows = preference::read(recipe)?;
        let pairs = preference::pairs(recipe, &rows, model)?;
        let left_out = pairs.about(&rows, 0, (String::new(), String::new())).left_out;
        let flat =
            |list: &'_ [Pair]| list.iter().flat_map(|p| [p.chosen.clone(), p.rejected.clone()]).collect();
        let (train, test): (Vec<TrainSample>, Vec<TrainSample>) = (flat(&pairs.train), flat(&pairs.test));
        let mut found = vec![("data.train", of(train.iter().collect(), pairs.train.len(), left_out))];
        if !test.is_empty() {
            found.push(("data.test", of(test.iter().collect(), pairs.test.len(), Vec::new())));
        }
        return Ok(found);
    }
    let rows = setup::read_rows(recipe)?;
    let mut found = Vec::new();
    for (what, rows) in [("data.train", &rows.train), ("data.test", &rows.test)] {
        if !rows.is_empty() {
            let texts = imitation::texts(what, recipe, rows, model)?;
            let samples: Vec<&TrainSample> = texts.samples.iter().collect();
            let count = samples.len();
            found.push((what, of(samples, count, texts.left_out())));
        }
    }
    Ok(found)
}

struct Run {
    recorder: Recorder,
    checkpoints: Checkpoints,
    losses: Vec<f64>,
    /// Steps after which the model was measured, of this run and those that it resumes.
    measured: Vec<u64>,
    /// The step of the latest checkpoint.
    saved: Option<u64>,
}

impl Run {
    fn measure(
        &mut self,
        lessons: &mut dyn Lessons,
        step: u64,
        console: &mut Console,
    ) -> Result<(), RunError> {
        if self.measured.contains(&step) {
            return Ok(());
        }
        let began = Instant::now();
        let mut metrics = lessons.measure()?;
        if metrics.is_empty() {
            return Ok(());
        }
        metrics.insert("eval/seconds".into(), began.elapsed().as_secs_f64());
        self.recorder.numbers(step, &metrics)?;
        console.evaluation(step, &metrics);
        self.measured.push(step);
        Ok(())
    }

    fn save(&mut self, lessons: &dyn Lessons, step: u64) -> Result<(), RunError> {
        if step > 0 && self.saved != Some(step) {
            self.checkpoints.write(step, |dir| lessons.save(dir))?;
            self.saved = Some(step);
        }
        Ok(())
    }
}

/// The last whole checkpoint.
fn latest(
    checkpoints: &Checkpoints,
    console: &Console,
) -> Result<Option<(u64, std::path::PathBuf)>, RunError> {
    let (latest, torn) = checkpoints.latest()?;
    for step in &torn {
        console.warn(&format!("the checkpoint of step {step} is damaged and not used"));
    }
    match latest {
        Some(saved) => {
            console.say(&format!("  resumes after step {}", saved.step));
            Ok(Some((saved.step, saved.path)))
        }
        None => {
            let none = if torn.is_empty() { "there is no checkpoint yet" } else { "no checkpoint is whole" };
            console.say(&format!("  {none}; the run starts again"));
            Ok(None)
        }
    }
}

fn introduce(console: &Console, about: &About, manifest: &Manifest, dir: &Path) {
    let name =
        Path::new(&manifest.model).file_name().map_or(manifest.model.clone(), |n| n.to_string_lossy().into());
    let measured = if about.test > 0 { format!(", {} to measure on", about.test) } else { String::new() };
    console.say(&format!(
        "  {name}  {:.1} M trained weights, {}, {}  ·  {} rows{measured}  ·  {}",
        about.weights as f64 / 1e6,
        manifest.dtype,
        manifest.device,
        manifest.rows[0],
        dir.display()
    ));
    about.left_out.iter().for_each(|sentence| console.say(&format!("  {sentence}")));
}

fn record_update(metrics: &mut Metrics, update: &StepMetrics) {
    for (name, value) in [
        ("train/grad_norm", update.grad_norm),
        ("train/learning_rate", update.lr),
        ("train/clip_scale", update.clip_scale),
        ("train/updates_skipped", f64::from(u8::from(update.skipped))),
        ("train/version", update.version as f64),
    ] {
        metrics.insert(name.into(), value);
    }
}

/// A checksum over the texts that are learnt.
pub(crate) fn digest<'a, T: std::fmt::Debug + 'a>(texts: impl Iterator<Item = T>) -> String {
    let sum = texts.fold(0, |sum, text| crc32c::crc32c_append(sum, format!("{text:?}\n").as_bytes()));
    format!("{sum:08x}")
}

/// What a model is computed in, and where.
pub(crate) fn computed(model: &crate::setup::LoadedModel) -> (String, String) {
    (options::kind_name(model.kind).into(), format!("{:?}", model.device).to_lowercase())
}

/// How many rows were left out because they are too long, as a sentence.
pub(crate) fn too_long(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} rows are longer than data.max-tokens and left out"))
}
