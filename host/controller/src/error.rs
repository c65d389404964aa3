//! Why a run cannot start or go on.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a run cannot start or go on. Everything up to the last checkpoint is safe.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The run's logs could not be written.
    #[error(transparent)]
    Observe(#[from] whet_observe::ObserveError),
    /// The run directory already holds a run, and nobody said to resume it.
    #[error("`{}` already holds a run", dir.display())]
    RunExists {
        /// The run directory.
        dir: PathBuf,
    },
    /// There is no run to resume.
    #[error("`{}` holds no run to resume", dir.display())]
    NoRun {
        /// The run directory.
        dir: PathBuf,
    },
    /// The run has no whole checkpoint.
    #[error("the run in `{}` has no whole checkpoint yet", dir.display())]
    NoCheckpoint {
        /// The run directory.
        dir: PathBuf,
    },
    /// Another process is writing to the run directory.
    #[error("`{}` is in use by another process", dir.display())]
    RunLocked {
        /// The run directory.
        dir: PathBuf,
    },
    /// The recipe is not the one that the run began with.
    #[error("the recipe differs from the one that the run in `{}` began with: {}", dir.display(), keys.join(", "))]
    RecipeChanged {
        /// The run directory.
        dir: PathBuf,
        /// The keys that differ.
        keys: Vec<String>,
    },
    /// A checkpoint's files do not match its manifest.
    #[error("the checkpoint `{}` is damaged: {why}", path.display())]
    TornCheckpoint {
        /// Its folder.
        path: PathBuf,
        /// What does not match.
        why: String,
    },
    /// The model cannot be loaded, saved or placed on the device.
    #[error(transparent)]
    Model(#[from] whet_model::ModelError),
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] whet_recipe::data::DataErrors),
    /// The model has no chat template, but the recipe wants conversations.
    #[error("the model `{model}` has no chat template")]
    NoTemplate {
        /// Its source.
        model: String,
    },
    /// The chat template refuses a row.
    #[error("the chat template refuses the prompt of {row}: {reason}")]
    Template {
        /// The row's place, as `file:line`.
        row: String,
        /// The template's own words.
        reason: String,
    },
    /// No row is left to train or to measure on.
    #[error(
        "no row of {what} is left: of {all}, {too_long} are longer than data.max-prompt-tokens and {filtered} were filtered out"
    )]
    NoRows {
        /// `data.train` or `data.test`.
        what: &'static str,
        /// Rows in the files.
        all: usize,
        /// Rows with too long a prompt.
        too_long: usize,
        /// Rows that a filter dropped.
        filtered: usize,
    },
    /// Two models that work on the same tokens have different ones.
    #[error("the {role} `{name}` has another tokenizer than the model: {difference}")]
    OtherTokenizer {
        /// `critic` or `teacher`.
        role: &'static str,
        /// Its source.
        name: String,
        /// The first difference.
        difference: String,
    },
    /// The server that has the teacher cannot be asked.
    #[error("teacher: {reason}")]
    Teacher {
        /// What happened; never holds the server's key.
        reason: String,
    },
    /// The chat template does not show whose words are whose.
    #[error("the chat template does not show where message {turn} of {row} begins and ends")]
    Turn {
        /// The row's place, as `file:line`.
        row: String,
        /// The message, counted from 1, the recipe's own included.
        turn: usize,
    },
    /// No row is left to learn from or to measure on.
    #[error(
        "no row of {what} is left: of {all}, {too_long} are longer than data.max-tokens and {useless} have nothing to learn"
    )]
    NoTexts {
        /// `data.train` or `data.test`.
        what: &'static str,
        /// Rows in the files.
        all: usize,
        /// Rows that are too long.
        too_long: usize,
        /// Rows without an answer, or with twice the same.
        useless: usize,
    },
    /// A prompt and its longest response do not fit the model.
    #[error("a prompt of {prompt} tokens and rollout.max-tokens = {response} need {} positions; the model has {limit}", prompt + response)]
    TooLong {
        /// Tokens of the longest prompt.
        prompt: usize,
        /// Longest response.
        response: usize,
        /// Positions of the model.
        limit: usize,
    },
    /// A plugin's file is not there.
    #[error(transparent)]
    NoPlugin(#[from] whet_plugin_host::FindError),
    /// A judge cannot be asked.
    #[error("judge `{route}`: {reason}")]
    Judge {
        /// Its route.
        route: String,
        /// Why. Never holds any of a key.
        reason: String,
    },
    /// The answers that a judge gave before cannot be used.
    #[error(transparent)]
    JudgeCache(#[from] whet_judge::CacheError),
    /// A weight or a gate names a component that no plugin has, or that several have.
    #[error("{key} names the component `{name}`, which {}; there are: {}", if *several { "several plugins have" } else { "no plugin has" }, known.join(", "))]
    UnknownComponent {
        /// The recipe's key.
        key: String,
        /// As the recipe has it.
        name: String,
        /// Several plugins have it.
        several: bool,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A plugin was not admitted.
    #[error("{role} plugin `{name}`: {source}")]
    PluginLoad {
        /// `reward`, `filter` or `advantage`.
        role: &'static str,
        /// As the recipe has it.
        name: String,
        /// Why.
        #[source]
        source: whet_plugin_host::LoadError,
    },
    /// A filter or advantage plugin failed; there is no sample to blame it on.
    #[error("{role} plugin `{name}` failed: {failure}")]
    PluginCall {
        /// `filter` or `advantage`.
        role: &'static str,
        /// As the recipe has it.
        name: String,
        /// What happened.
        failure: whet_trajectory::Failure,
    },
    /// Too many samples have no score because a plugin failed.
    #[error(
        "{failed} of {all} samples have no score because a reward plugin failed, more than on-failure.abort-above = {abort_above} allows; most often: {example}"
    )]
    TooManyFailures {
        /// Samples without a score.
        failed: usize,
        /// Samples of the step.
        all: usize,
        /// The recipe's limit.
        abort_above: f64,
        /// The most frequent failure.
        example: String,
    },
    /// Dynamic sampling found too few groups to train on.
    #[error(
        "step {step} starved: {found} of {wanted} groups passed the filters in {attempts} attempts with {asked} prompts{}{}",
        if dropped.is_empty() { "" } else { "; " },
        dropped.join(", ")
    )]
    Starved {
        /// The step.
        step: u64,
        /// Groups that a step trains on.
        wanted: usize,
        /// Groups that passed, or that a filter spared.
        found: usize,
        /// Prompts asked.
        asked: usize,
        /// Attempts made.
        attempts: usize,
        /// Which filter dropped how many groups for which reason, the most frequent first.
        dropped: Vec<String>,
    },
    /// The estimator normalises a reward component that the reward does not have.
    #[error("no sample has the reward component `{name}`; there are {}", known.join(", "))]
    NoComponent {
        /// As the recipe names it.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// There is nothing at a path that samples are to be read from.
    #[error("`{}` does not exist", path.display())]
    NoSource {
        /// The path.
        path: PathBuf,
    },
    /// A run keeps no samples of the kind that is asked for.
    #[error("the run `{}` sampled nothing: it has no `{kind}` folder", run.display())]
    NothingSampled {
        /// The run directory.
        run: PathBuf,
        /// The folder that it lacks.
        kind: &'static str,
    },
    /// A folder holds no stored samples.
    #[error("`{}` holds no samples", folder.display())]
    NoSamples {
        /// The folder.
        folder: PathBuf,
    },
    /// The rollout engine reported an error.
    #[error("rollout engine: {0}")]
    Engine(#[from] whet_rollout::EngineError),
    /// The rollout engine is gone.
    #[error("the rollout engine died with {missing} of {all} responses outstanding")]
    EngineDied {
        /// Responses that never came.
        missing: usize,
        /// Responses asked for.
        all: usize,
    },
    /// The rollout engine answers no more.
    #[error(
        "the rollout engine gave no response for {silence:?}; {missing} of {all} are outstanding, among them {example}"
    )]
    EngineStalled {
        /// How long nothing came.
        silence: Duration,
        /// Responses that have not come.
        missing: usize,
        /// Responses asked for.
        all: usize,
        /// One that is missing.
        example: String,
    },
    /// A worker that scores is gone.
    #[error(
        "a scoring thread ended early with {missing} of {all} groups without a score; this is a defect of the host"
    )]
    ScorerDied {
        /// Groups without a score.
        missing: usize,
        /// Groups in all.
        all: usize,
    },
    /// The trainer refused a batch, or its state cannot be saved or loaded.
    #[error("trainer: {0}")]
    Trainer(#[from] whet_trainer::TrainError),
    /// A file of the run directory does not hold what it should.
    #[error("`{}` cannot be used: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl RunError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| RunError::Write { path: path.to_owned(), source }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| RunError::Read { path: path.to_owned(), source }
    }
}
