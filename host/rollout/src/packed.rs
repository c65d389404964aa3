//! The CPU way: every step of the decoder over rows in plain memory, with own kernels.
//!
//! A row is a token; rows of all sequences go through the layers together, without padding. Each row's
//! result depends on its own sequence alone, to the bit, so neither the batch nor how a prompt is
//! split over passes can be seen in it. Every step rounds where `whet_model::Decoder` rounds.

use crate::backend::{Backend, Choice, Profile, Run};
use crate::request::EngineError;
use crate::sampler::{Drawn, Workspace, draw, score};
use crate::weights::PackedWeights;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tch::{Device, Kind, Tensor};
use whet_model::Config;
use whet_native::attention::{BLOCK, Block, KvShape, Span, attend};
use whet_native::gemm::{linear, linear_add, linear_gated};
use whet_native::rows::{rms_norm, rope};
use whet_native::{Isa, Number, view};

/// Below this many rows, work between the products is not worth handing to another thread.
const FEW_ROWS: usize = 8;

pub(crate) struct Packed<T> {
    isa: Isa,
    config: Config,
    weights: PackedWeights<T>,
    shape: KvShape,
    pool: Arc<rayon::ThreadPool>,
    free: Vec<Block<T>>,
    cos: Vec<T>,
    sin: Vec<T>,
    rows: Rows<T>,
    /// Never rounded: bf16 would leave steps of 1/8 between logits of 20.
    logits: Vec<f32>,
    profile: Profile,
}

/// Activations, kept from pass to pass.
#[derive(Default)]
struct Rows<T> {
    /// The residual stream, in f32 as `whet_model::Decoder` keeps it.
    x: Vec<f32>,
    normed: Vec<T>,
    qkv: Vec<T>,
    attended: Vec<T>,
    gated: Vec<T>,
}

/// Keys and values in blocks.
pub(crate) struct Kv<T> {
    blocks: Vec<Block<T>>,
    len: usize,
}

/// The run and the position of a row.
#[derive(Clone, Copy)]
struct Row {
    run: usize,
    /// Within the run's own keys and values.
    own: usize,
    position: usize,
}

impl<T: Number + view::Element> Packed<T> {
    pub fn new(config: &Config, threads: usize) -> Result<Self, EngineError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("whet-rollout-{i}"))
            .build()
            .map_err(|e| EngineError::Start(format!("cannot start {threads} threads: {e}")))?;
        Ok(Packed {
            isa: Isa::detect(),
            config: config.clone(),
            weights: PackedWeights::zeros(config),
            shape: KvShape { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim },
            pool: Arc::new(pool),
            free: Vec::new(),
            cos: Vec::new(),
            sin: Vec::new(),
            rows: Rows::default(),
            logits: Vec::new(),
            profile: Profile::default(),
        })
    }

    /// Rotary tables up to `positions`, from the decoder's own.
    fn extend_tables(&mut self, positions: usize) -> Result<(), EngineError> {
        let half = self.config.head_dim / 2;
        let have = self.cos.len() / half;
        if positions <= have {
            return Ok(());
        }
        let until = positions.next_power_of_two().max(512);
        let range = Tensor::arange_start(have as i64, until as i64, (Kind::Int64, Device::Cpu));
        let (cos, sin) = self.config.rope.tables(self.config.head_dim, &range, <T as view::Element>::KIND);
        let (cos, sin) = (cos.contiguous(), sin.contiguous());
        let failed = |e: view::ViewError| EngineError::Model(format!("rotary tables: {e}"));
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

    fn pass(&mut self, runs: &mut [Run<'_, Kv<T>>]) {
        let started = Instant::now();
        let (mut gemm, mut attention) = (Duration::ZERO, Duration::ZERO);
        let Packed { isa, config: c, weights, shape, free, cos, sin, rows, logits, .. } = self;
        let (isa, shape) = (*isa, *shape);
        let (hidden, dim) = (c.hidden_size, c.head_dim);
        let (q, kv) = (c.heads * dim, c.kv_heads * dim);
        let eps = c.norm_eps as f32;
        let scale = 1.0 / (dim as f32).sqrt();

        let mut index = Vec::new();
        for (run, r) in runs.iter_mut().enumerate() {
            let before: usize = r.prefix.iter().map(|p| p.len).sum();
            let first = r.own.len;
            index.extend((first..first + r.tokens.len()).map(|own| Row { run, own, position: before + own }));
            r.own.len += r.tokens.len();
            while r.own.blocks.len() * BLOCK < r.own.len {
                let block = free.pop().unwrap_or_else(|| vec![T::default(); shape.block_len()].into());
                r.own.blocks.push(block);
            }
        }
        let n = index.len();
        let wanted: Vec<usize> = {
            let mut end = 0;
            let of_run = runs.iter().flat_map(|r| {
                end += r.tokens.len();
                end - r.logits..end
            });
            of_run.collect()
        };
        rows.x.resize(n * hidden, 0.0);
        rows.normed.resize(n * hidden, T::default());
        rows.qkv.resize(n * (q + 2 * kv), T::default());
        rows.attended.resize(n * q, T::default());
        rows.gated.resize(n * c.intermediate_size, T::default());
        let tokens: Vec<u32> = runs.iter().flat_map(|r| r.tokens.iter().copied()).collect();
        // The space of the normed rows holds the embedding until it is widened.
        each_row(&mut rows.normed, hidden, |i, x| weights.embedding.copy_row(tokens[i] as usize, x));
        rows.x.iter_mut().zip(&rows.normed).for_each(|(wide, x)| *wide = x.to_f32());

        for (i, layer) in weights.layers.iter().enumerate() {
            let norm = |x: &[f32], weight: &[T], out: &mut [T]| {
                each_row(out, hidden, |i, out| {
                    rms_norm(isa, &x[i * hidden..(i + 1) * hidden], weight, eps, out)
                });
            };
            norm(&rows.x, &layer.input_norm, &mut rows.normed);
            timed(&mut gemm, || {
                linear(isa, &rows.normed, &layer.qkv, layer.qkv_bias.as_deref(), &mut rows.qkv)
            });
            each_row(&mut rows.qkv, q + 2 * kv, |i, row| {
                if let Some([q_norm, k_norm]) = &layer.qk_norm {
                    let before = row[..q + kv].to_vec();
                    rms_norm(isa, &before[..q], q_norm, eps, &mut row[..q]);
                    rms_norm(isa, &before[q..], k_norm, eps, &mut row[q..q + kv]);
                }
                let at = index[i].position * dim / 2;
                rope(isa, &mut row[..q + kv], &cos[at..at + dim / 2], &sin[at..at + dim / 2]);
            });
            let mut row = 0;
            for run in runs.iter_mut() {
                for _ in run.tokens {
                    let values = &rows.qkv[row * (q + 2 * kv) + q..(row + 1) * (q + 2 * kv)];
                    let own = index[row].own;
                    let block = &mut run.own.blocks[own / BLOCK];
                    shape.write(block, i, own % BLOCK, &values[..kv], &values[kv..]);
                    row += 1;
                }
            }
            // What follows would only serve logits that nobody asked for.
            if i + 1 == weights.layers.len() && wanted.is_empty() {
                break;
            }
            let runs: &[Run<'_, Kv<T>>] = runs;
            let qkv = &rows.qkv;
            timed(&mut attention, || {
                let outs = rows.attended.par_chunks_mut(q).enumerate();
                outs.for_each_init(
                    Default::default,
                    |(spans, scores): &mut (Vec<_>, Vec<f32>), (row, out)| {
                        let Row { run, own, .. } = index[row];
                        spans.clear();
                        spans.extend(runs[run].prefix.iter().map(|p| Span { blocks: &p.blocks, len: p.len }));
                        spans.push(Span { blocks: &runs[run].own.blocks, len: own + 1 });
                        let query = &qkv[row * (q + 2 * kv)..][..q];
                        attend(isa, shape, i, query, scale, spans, scores, out);
                    },
                );
            });
            timed(&mut gemm, || {
                linear_add(isa, &rows.attended, &layer.o, layer.o_bias.as_deref(), &mut rows.x)
            });
            norm(&rows.x, &layer.post_norm, &mut rows.normed);
            timed(&mut gemm, || {
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

        logits.resize(wanted.len() * c.vocab_size, 0.0);
        let normed = &mut rows.normed[..wanted.len() * hidden];
        each_row(normed, hidden, |i, out| {
            rms_norm(isa, &rows.x[wanted[i] * hidden..(wanted[i] + 1) * hidden], &weights.norm, eps, out);
        });
        timed(&mut gemm, || linear(isa, normed, weights.output(), None, logits));
        self.profile.gemm += gemm;
        self.profile.attention += attention;
        self.profile.other += started.elapsed().saturating_sub(gemm + attention);
    }
}

impl<T: Number + view::Element> Backend for Packed<T> {
    type Kv = Kv<T>;

    fn block_positions(&self) -> usize {
        BLOCK
    }

    fn block_bytes(&self) -> usize {
        self.shape.block_len() * size_of::<T>()
    }

    fn empty(&self) -> Kv<T> {
        Kv { blocks: Vec::new(), len: 0 }
    }

    fn split(&mut self, kv: &mut Kv<T>, positions: usize) -> Kv<T> {
        kv.len -= positions;
        Kv { blocks: kv.blocks.drain(..positions / BLOCK).collect(), len: positions }
    }

    fn recycle(&mut self, kv: Kv<T>) {
        self.free.extend(kv.blocks);
    }

    fn forward(&mut self, runs: &mut [Run<'_, Kv<T>>]) -> Result<(), EngineError> {
        let ends =
            runs.iter().map(|r| r.prefix.iter().map(|p| p.len).sum::<usize>() + r.own.len + r.tokens.len());
        self.extend_tables(ends.max().unwrap_or(0))?;
        self.pool.clone().install(|| self.pass(runs));
        Ok(())
    }

    fn choose(&mut self, choices: &[Choice<'_>]) -> Vec<Option<Drawn>> {
        let started = Instant::now();
        let (isa, vocabulary, logits) = (self.isa, self.config.vocab_size, &self.logits);
        let one = |work: &mut Workspace, (row, choice): (usize, &Choice<'_>)| {
            let row = &logits[row * vocabulary..(row + 1) * vocabulary];
            match choice {
                Choice::Draw(sampling, uniform) => draw(isa, row, sampling, *uniform, work),
                Choice::Given(token) => score(isa, row, *token, work),
            }
        };
        let drawn = self.pool.install(|| {
            choices.par_iter().enumerate().with_max_len(1).map_init(Workspace::default, one).collect()
        });
        self.profile.sampler += started.elapsed();
        drawn
    }

    fn set_weights(&mut self, tensors: &[(String, Tensor)]) -> Result<(), String> {
        self.weights.set(&self.config, tensors)
    }

    fn profile(&mut self) -> &mut Profile {
        &mut self.profile
    }
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
