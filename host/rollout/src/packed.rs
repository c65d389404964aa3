//! The CPU way: the rows of all sequences through `whet_model::cpu`, keys and values in blocks.

use crate::backend::{Backend, Choice, Profile, Run};
use crate::request::EngineError;
use crate::sampler::{Drawn, Workspace, draw, score};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;
use tch::Tensor;
use whet_model::Config;
use whet_model::cpu::{self, Cache, CpuDecoder};
use whet_native::attention::{BLOCK, Block, KvShape, Span};
use whet_native::{Isa, Number, view};

pub(crate) struct Packed<T> {
    isa: Isa,
    decoder: CpuDecoder<T>,
    pool: Arc<rayon::ThreadPool>,
    vocabulary: usize,
    shape: KvShape,
    free: Vec<Block<T>>,
    logits: Vec<f32>,
    profile: Profile,
}

/// Keys and values in blocks.
pub(crate) struct Kv<T> {
    blocks: Vec<Block<T>>,
    len: usize,
}

/// The run of a row, and its position within the run's own keys and values.
#[derive(Clone, Copy)]
struct Row {
    run: usize,
    own: usize,
}

impl<T: Number + view::Element> Packed<T> {
    pub fn new(config: &Config, threads: usize) -> Result<Self, EngineError> {
        let pool = cpu::threads(threads).map_err(|e| EngineError::Start(e.to_string()))?;
        Ok(Packed {
            isa: Isa::detect(),
            decoder: CpuDecoder::new(config, pool.clone()),
            pool,
            vocabulary: config.vocab_size,
            shape: KvShape { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim },
            free: Vec::new(),
            logits: Vec::new(),
            profile: Profile::default(),
        })
    }
}

/// The caches of a pass's runs, by row.
struct Runs<'a, 'b, T> {
    shape: KvShape,
    runs: &'a mut [Run<'b, Kv<T>>],
    rows: &'a [Row],
}

impl<T: Number> Cache<T> for Runs<'_, '_, T> {
    fn shape(&self, layer: usize) -> (KvShape, usize) {
        (self.shape, layer)
    }

    fn write(&mut self, layer: usize, row: usize, keys: &[T], values: &[T]) {
        let Row { run, own } = self.rows[row];
        let block = &mut self.runs[run].own.blocks[own / BLOCK];
        self.shape.write(block, layer, own % BLOCK, keys, values);
    }

    fn spans<'a>(&'a self, row: usize, spans: &mut Vec<Span<'a, T>>) {
        let Row { run, own } = self.rows[row];
        let run = &self.runs[run];
        spans.extend(run.prefix.iter().map(|p| Span { blocks: &p.blocks, len: p.len }));
        spans.push(Span { blocks: &run.own.blocks, len: own + 1 });
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
        let started = Instant::now();
        let Packed { decoder, shape, free, logits, .. } = self;
        let (mut rows, mut positions, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for (run, r) in runs.iter_mut().enumerate() {
            let before: usize = r.prefix.iter().map(|p| p.len).sum();
            let own = r.own.len..r.own.len + r.tokens.len();
            rows.extend(own.clone().map(|own| Row { run, own }));
            positions.extend(own.map(|own| before + own));
            wanted.extend(rows.len() - r.logits..rows.len());
            r.own.len += r.tokens.len();
            while r.own.blocks.len() * BLOCK < r.own.len {
                let block = free.pop().unwrap_or_else(|| vec![T::default(); shape.block_len()].into());
                r.own.blocks.push(block);
            }
        }
        let tokens: Vec<u32> = runs.iter().flat_map(|r| r.tokens.iter().copied()).collect();
        let mut cache = Runs { shape: *shape, runs, rows: &rows };
        let failed = |e: whet_model::ModelError| EngineError::Model(e.to_string());
        let mut time =
            decoder.layers(&tokens, &positions, &mut cache, wanted.is_empty(), |_| {}).map_err(failed)?;
        let before_logits = Instant::now();
        decoder.logits(&wanted, logits);
        time.gemm += before_logits.elapsed();
        self.profile.gemm += time.gemm;
        self.profile.attention += time.attention;
        self.profile.other += started.elapsed().saturating_sub(time.gemm + time.attention);
        Ok(())
    }

    fn choose(&mut self, choices: &[Choice<'_>]) -> Vec<Option<Drawn>> {
        let started = Instant::now();
        let (isa, vocabulary, logits) = (self.isa, self.vocabulary, &self.logits);
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
        self.decoder.set_weights(tensors).map_err(|e| e.to_string())
    }

    fn profile(&mut self) -> &mut Profile {
        &mut self.profile
    }
}
