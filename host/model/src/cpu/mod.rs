//! The decoder on CPUs, forward only: rows in plain memory, own kernels.
//!
//! A row is a token; rows of all sequences go through the layers together, without padding. Each row's
//! result depends on its own sequence alone, to the bit: neither the batch, nor how a prompt is split
//! over passes, nor what it shares with others can be seen in it. That is why rollout and trainer both
//! compute with it: the log-probabilities of a token are then the same for both, in bf16 too. Every
//! step rounds where [`crate::Decoder`] rounds. Nothing here keeps keys and values: a [`Cache`] does.

mod forward;
mod tree;
mod weights;

pub use forward::{CpuForward, products};
pub use weights::{CpuWeights, check};

use crate::config::Config;
use crate::error::ModelError;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tch::{Device, Kind, Tensor};
use whet_native::attention::{KvShape, Span, attend};
use whet_native::gemm::{linear, linear_add, linear_gated};
use whet_native::rows::{rms_norm, rope};
use whet_native::{Isa, Number, view};

/// Below this many rows, work between the products is not worth handing to another thread.
const FEW_ROWS: usize = 8;

/// Where the keys and values of a pass's rows are kept.
pub trait Cache<T>: Send + Sync {
    /// The shape of its blocks, and which of their layers holds those of the model's `layer`.
    fn shape(&self, layer: usize) -> (KvShape, usize);
    /// Takes keys and values of a row, `[kv_heads, head_dim]` each; called for all rows of a layer in order, before
    /// any is read.
    fn write(&mut self, layer: usize, row: usize, keys: &[T], values: &[T]);
    /// What a row sees, itself included.
    fn spans<'a>(&'a self, row: usize, spans: &mut Vec<Span<'a, T>>);
}

/// Where the time of a pass went.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassTime {
    /// Matrix products.
    pub gemm: Duration,
    /// Attention.
    pub attention: Duration,
}

/// A decoder's weights with memory to compute in.
pub struct CpuDecoder<T> {
    isa: Isa,
    config: Config,
    weights: CpuWeights<T>,
    pool: Arc<rayon::ThreadPool>,
    cos: Vec<T>,
    sin: Vec<T>,
    rows: Rows<T>,
}

/// Activations, kept from pass to pass.
#[derive(Default)]
struct Rows<T> {
    /// The residual stream, in f32 as [`crate::Decoder`] keeps it.
    x: Vec<f32>,
    normed: Vec<T>,
    qkv: Vec<T>,
    attended: Vec<T>,
    gated: Vec<T>,
}

impl<T: Number + view::Element> CpuDecoder<T> {
    /// A decoder whose weights are zero, which computes with the threads of `pool`.
    pub fn new(config: &Config, pool: Arc<rayon::ThreadPool>) -> Self {
        CpuDecoder {
            isa: Isa::detect(),
            config: config.clone(),
            weights: CpuWeights::zeros(config),
            pool,
            cos: Vec::new(),
            sin: Vec::new(),
            rows: Rows::default(),
        }
    }

    /// Copies tensors that [`check`] has passed into place.
    ///
    /// # Errors
    /// When a tensor has no place.
    pub fn set_weights(&mut self, tensors: &[(String, Tensor)]) -> Result<(), ModelError> {
        self.weights.set(&self.config, tensors)
    }

    /// Runs `tokens`, one per row, through all layers. `seen` is shown the residual stream before every layer,
    /// `[rows, H]`, and after the last.
    ///
    /// * `positions`: of each row in its sequence
    /// * `only_cache`: stop once the last layer's keys and values are written; nothing is to be read
    ///
    /// # Errors
    /// When the rotary tables cannot be made.
    pub fn layers<C: Cache<T>>(
        &mut self,
        tokens: &[u32],
        positions: &[usize],
        cache: &mut C,
        only_cache: bool,
        mut seen: impl FnMut(&[f32]) + Send,
    ) -> Result<PassTime, ModelError> {
        self.extend_tables(positions.iter().max().map_or(0, |last| last + 1))?;
        let pool = self.pool.clone();
        Ok(pool.install(|| self.pass(tokens, positions, cache, only_cache, &mut seen)))
    }

    /// What the output layer reads of the `wanted` rows of the last pass: normed, `[wanted, H]`.
    pub fn normed(&mut self, wanted: &[usize]) -> &[T] {
        let CpuDecoder { isa, config, weights, pool, rows, .. } = self;
        let (hidden, eps) = (config.hidden_size, config.norm_eps as f32);
        let normed = &mut rows.normed[..wanted.len() * hidden];
        pool.install(|| {
            each_row(normed, hidden, |i, out| {
                rms_norm(
                    *isa,
                    &rows.x[wanted[i] * hidden..(wanted[i] + 1) * hidden],
                    &weights.norm,
                    eps,
                    out,
                );
            });
        });
        normed
    }

    /// Logits of the `wanted` rows of the last pass, `[wanted, V]`. Never rounded: bf16 would leave steps of 1/8
    /// between logits of 20.
    pub fn logits(&mut self, wanted: &[usize], logits: &mut Vec<f32>) {
        logits.resize(wanted.len() * self.config.vocab_size, 0.0);
        self.normed(wanted);
        let normed = &self.rows.normed[..wanted.len() * self.config.hidden_size];
        self.pool.install(|| linear(self.isa, normed, self.weights.output(), None, logits));
    }

    /// Rotary tables up to `positions`, from the decoder's own.
    fn extend_tables(&mut self, positions: usize) -> Result<(), ModelError> {
        let half = self.config.head_dim / 2;
        let have = self.cos.len() / half;
        if positions <= have {
            return Ok(());
        }
        let until = positions.next_power_of_two().max(512);
        let range = Tensor::arange_start(have as i64, until as i64, (Kind::Int64, Device::Cpu));
        let (cos, sin) = self.config.rope.tables(self.config.head_dim, &range, <T as view::Element>::KIND);
        let (cos, sin) = (cos.contiguous(), sin.contiguous());
        let failed = |e: view::ViewError| ModelError::Kernels(format!("rotary tables: {e}"));
        let (cos, sin): (&[T], &[T]) =
            (view::slice(&cos).map_err(failed)?, view::slice(&sin).map_err(failed)?);
        for position in 0..until - have {
            let at = position * 2 * half;
            // The first half of the tables' sine is negated, the second is the sine.
            self.cos.extend_from_slice(&cos[at..at + half]);
            self.sin.extend_from_slice(&sin[at + half..at + 2 * half]);
        }
        Ok(())
    }

    fn pass<C: Cache<T>>(
        &mut self,
        tokens: &[u32],
        positions: &[usize],
        cache: &mut C,
        only_cache: bool,
        seen: &mut impl FnMut(&[f32]),
    ) -> PassTime {
        let mut time = PassTime::default();
        let CpuDecoder { isa, config: c, weights, cos, sin, rows, .. } = self;
        let isa = *isa;
        let (hidden, dim) = (c.hidden_size, c.head_dim);
        let (q, kv) = (c.heads * dim, c.kv_heads * dim);
        let eps = c.norm_eps as f32;
        let scale = 1.0 / (dim as f32).sqrt();
        let n = tokens.len();
        rows.x.resize(n * hidden, 0.0);
        rows.normed.resize(n * hidden, T::default());
        rows.qkv.resize(n * (q + 2 * kv), T::default());
        rows.attended.resize(n * q, T::default());
        rows.gated.resize(n * c.intermediate_size, T::default());
        // The space of the normed rows holds the embedding until it is widened.
        each_row(&mut rows.normed, hidden, |i, x| weights.embedding.copy_row(tokens[i] as usize, x));
        rows.x.iter_mut().zip(&rows.normed).for_each(|(wide, x)| *wide = x.to_f32());

        for (i, layer) in weights.layers.iter().enumerate() {
            seen(&rows.x);
            let norm = |x: &[f32], weight: &[T], out: &mut [T]| {
                each_row(out, hidden, |i, out| {
                    rms_norm(isa, &x[i * hidden..(i + 1) * hidden], weight, eps, out)
                });
            };
            norm(&rows.x, &layer.input_norm, &mut rows.normed);
            timed(&mut time.gemm, || {
                linear(isa, &rows.normed, &layer.qkv, layer.qkv_bias.as_deref(), &mut rows.qkv)
            });
            each_row(&mut rows.qkv, q + 2 * kv, |i, row| {
                if let Some([q_norm, k_norm]) = &layer.qk_norm {
                    let before = row[..q + kv].to_vec();
                    rms_norm(isa, &before[..q], q_norm, eps, &mut row[..q]);
                    rms_norm(isa, &before[q..], k_norm, eps, &mut row[q..q + kv]);
                }
                let at = positions[i] * dim / 2;
                rope(isa, &mut row[..q + kv], &cos[at..at + dim / 2], &sin[at..at + dim / 2]);
            });
            for (row, qkv) in rows.qkv.chunks_exact(q + 2 * kv).enumerate() {
                cache.write(i, row, &qkv[q..q + kv], &qkv[q + kv..]);
            }
            // What follows would only serve rows that nobody reads.
            if only_cache && i + 1 == weights.layers.len() {
                return time;
            }
            let cache: &C = cache;
            let (shape, kept) = cache.shape(i);
            let qkv = &rows.qkv;
            timed(&mut time.attention, || {
                let outs = rows.attended.par_chunks_mut(q).enumerate();
                outs.for_each_init(
                    Default::default,
                    |(spans, scores): &mut (Vec<_>, Vec<f32>), (row, out)| {
                        spans.clear();
                        cache.spans(row, spans);
                        let query = &qkv[row * (q + 2 * kv)..][..q];
                        attend(isa, shape, kept, query, scale, spans, scores, out);
                    },
                );
            });
            timed(&mut time.gemm, || {
                linear_add(isa, &rows.attended, &layer.o, layer.o_bias.as_deref(), &mut rows.x)
            });
            norm(&rows.x, &layer.post_norm, &mut rows.normed);
            timed(&mut time.gemm, || {
                linear_gated(
                    isa,
                    &rows.normed,
                    &layer.gate_up,
                    layer.gate_up_bias.as_deref(),
                    &mut rows.gated,
                );
                linear_add(isa, &rows.gated, &layer.down, layer.down_bias.as_deref(), &mut rows.x);
            });
        }
        seen(&rows.x);
        time
    }
}

/// A pool of `count` threads to compute with.
///
/// # Errors
/// When they cannot be started.
pub fn threads(count: usize) -> Result<Arc<rayon::ThreadPool>, ModelError> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(count);
    let pool = builder.thread_name(|i| format!("whet-decoder-{i}")).build();
    pool.map(Arc::new).map_err(|e| ModelError::Kernels(format!("{count} threads could not be started: {e}")))
}

/// Calls `f` with every row of `rows`, `width` values each; in parallel where there are many.
fn each_row<T: Number>(rows: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if rows.len() / width < FEW_ROWS {
        rows.chunks_exact_mut(width).enumerate().for_each(|(i, row)| f(i, row));
    } else {
        rows.par_chunks_exact_mut(width).enumerate().for_each(|(i, row)| f(i, row));
    }
}

fn timed(account: &mut Duration, work: impl FnOnce()) {
    let started = Instant::now();
    work();
    *account += started.elapsed();
}
