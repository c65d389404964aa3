//! The embedded engine: a thread of its own with a queue of commands.
//!
//! The handle only sends; `serve` does the work between commands.

use crate::backend::{Backend, Profile};
use crate::packed::Packed;
use crate::request::{Completion, Engine, EngineError, Request};
use crate::serve::Serve;
use crate::tensors::Tensors;
use half::bf16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tch::{Device, Kind, Tensor};
use whet_model::cpu::check;
use whet_model::{Config, Tokenizer, Weights};
use whet_trajectory::{SampleId, WeightVersion};

/// How an [`EmbeddedEngine`] computes and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineOptions {
    /// The kind of weights, activations, keys and values.
    pub kind: Kind,
    /// Memory for keys and values, in bytes; more sequences than fit wait.
    pub kv_budget_bytes: usize,
    /// The most sequences that run at once.
    pub max_running: usize,
    /// Threads on the CPU.
    pub threads: usize,
}

/// What the handle asks of the thread.
pub(crate) enum Command {
    Submit(Vec<Request>, Sender<Result<Completion, EngineError>>),
    Cancel(SampleId),
    Update(WeightVersion, Vec<(String, Tensor)>, Sender<Result<(), EngineError>>),
    Logprobs(Vec<u32>, usize, Sender<Result<Vec<f32>, EngineError>>),
    Profile(Sender<Profile>),
}

/// Samples from its own copy of a model, in this process.
pub struct EmbeddedEngine {
    commands: Option<Sender<Command>>,
    version: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedEngine {
    /// Starts an engine on the device of `weights`, which it copies in its own kind and layout; its weights have version 0.
    ///
    /// # Errors
    /// When the weights do not fit the configuration, or the budget holds no token.
    pub fn start(
        config: &Config,
        weights: &Weights,
        tokenizer: &Tokenizer,
        options: EngineOptions,
    ) -> Result<EmbeddedEngine, EngineError> {
        let names = config.tensors();
        let given = |name: &String| weights.get(name).map(|t| (name.clone(), t.shallow_clone()));
        let tensors: Vec<(String, Tensor)> = names.iter().filter_map(|(name, _)| given(name)).collect();
        check(config, &tensors).map_err(EngineError::Start)?;
        let device = tensors.first().map_or(Device::Cpu, |(_, t)| t.device());

        let (commands, queue) = channel();
        let (ready, started) = channel();
        let version = Arc::new(AtomicU64::new(0));
        let (config, tokenizer, shared) = (config.clone(), tokenizer.clone(), version.clone());
        let thread = std::thread::Builder::new().name("whet-rollout".into()).spawn(move || {
            let threads = options.threads.max(1);
            match (device, options.kind) {
                (Device::Cpu, Kind::Float) => {
                    let backend = Packed::<f32>::new(&config, threads);
                    run(backend, config, tokenizer, options, tensors, shared, queue, ready);
                }
                (Device::Cpu, Kind::BFloat16) => {
                    let backend = Packed::<bf16>::new(&config, threads);
                    run(backend, config, tokenizer, options, tensors, shared, queue, ready);
                }
                (device, kind) => {
                    let backend = Ok(Tensors::new(&config, kind, device));
                    run(backend, config, tokenizer, options, tensors, shared, queue, ready);
                }
            }
        });
        let thread = thread.map_err(|e| EngineError::Start(format!("cannot start a thread: {e}")))?;
        started.recv().unwrap_or_else(|_| {
            Err(EngineError::Start("its thread ended while it copied the weights".into()))
        })?;
        Ok(EmbeddedEngine { commands: Some(commands), version, thread: Some(thread) })
    }

    /// Where the time went so far.
    ///
    /// # Errors
    /// When the engine has ended.
    pub fn profile(&self) -> Result<Profile, EngineError> {
        let (reply, answer) = channel();
        self.send(Command::Profile(reply));
        answer.recv().map_err(|_| stopped())
    }

    /// A command that cannot be sent is dropped, which closes the channel it would answer on.
    fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }
}

fn stopped() -> EngineError {
    EngineError::Stopped("its thread has ended".into())
}

#[allow(clippy::too_many_arguments)]
fn run<B: Backend>(
    backend: Result<B, EngineError>,
    config: Config,
    tokenizer: Tokenizer,
    options: EngineOptions,
    tensors: Vec<(String, Tensor)>,
    version: Arc<AtomicU64>,
    queue: Receiver<Command>,
    ready: Sender<Result<(), EngineError>>,
) {
    let started = backend.and_then(|mut backend| {
        backend.set_weights(&tensors).map_err(EngineError::Start)?;
        drop(tensors);
        Serve::new(backend, config, tokenizer, options.kv_budget_bytes, options.max_running, version)
    });
    match started {
        Ok(mut serve) => {
            let _ = ready.send(Ok(()));
            serve.until_closed(&queue);
        }
        Err(e) => {
            let _ = ready.send(Err(e));
        }
    }
}

impl Engine for EmbeddedEngine {
    fn submit(&self, requests: Vec<Request>) -> Receiver<Result<Completion, EngineError>> {
        let (reply, results) = channel();
        self.send(Command::Submit(requests, reply));
        results
    }

    fn cancel(&self, id: &SampleId) {
        self.send(Command::Cancel(id.clone()));
    }

    fn update_weights(
        &self,
        version: WeightVersion,
        weights: Vec<(String, Tensor)>,
    ) -> Result<(), EngineError> {
        let (reply, answer) = channel();
        self.send(Command::Update(version, weights, reply));
        answer.recv().unwrap_or_else(|_| Err(stopped()))
    }

    fn logprobs(&self, ids: &[u32], prompt_len: usize) -> Result<Vec<f32>, EngineError> {
        let (reply, answer) = channel();
        self.send(Command::Logprobs(ids.to_vec(), prompt_len, reply));
        answer.recv().unwrap_or_else(|_| Err(stopped()))
    }

    fn version(&self) -> WeightVersion {
        WeightVersion(self.version.load(Ordering::Acquire))
    }
}

impl Drop for EmbeddedEngine {
    /// Ends the thread after the step it is in; who waits for results sees the channel close.
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
