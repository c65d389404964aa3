//! The general way: plain libtorch operations on any device and in any kind. GPUs run it, and it is
//! the second opinion on the CPU's kernels.
//!
//! Keys and values are gathered into a padded batch at every layer: simple, and fine up to some tens
//! of sequences of a few thousand tokens. Batches have at least four rows, because kernels for fewer
//! rows round differently, and a sequence must not notice its neighbours leaving.

use crate::backend::{Backend, Choice, Profile, Run};
use crate::request::EngineError;
use crate::sampler::{Drawn, Workspace, draw, score};
use std::collections::BTreeMap;
use std::time::Instant;
use tch::{Device, Kind, Tensor};
use whet_model::Config;
use whet_native::{Isa, view};

/// Positions that memory grows by.
const BLOCK: usize = 64;
/// The fewest rows of a batch.
const MIN_ROWS: usize = 4;

pub(crate) struct Tensors {
    config: Config,
    kind: Kind,
    device: Device,
    weights: BTreeMap<String, Tensor>,
    logits: Tensor,
    profile: Profile,
}

/// Keys and values `[kv_heads, capacity, head_dim]` of every layer.
pub(crate) struct Kv {
    layers: Vec<[Tensor; 2]>,
    len: usize,
}

impl Tensors {
    pub fn new(config: &Config, kind: Kind, device: Device) -> Self {
        let weights =
            config.tensors().into_iter().map(|(name, shape)| (name, Tensor::zeros(shape, (kind, device))));
        Tensors {
            config: config.clone(),
            kind,
            device,
            weights: weights.collect(),
            logits: Tensor::zeros([0, 0], (Kind::Float, Device::Cpu)),
            profile: Profile::default(),
        }
    }

    fn weight(&self, name: &str) -> &Tensor {
        // Every name comes from the configuration, which filled the map.
        &self.weights[name]
    }

    fn linear(&self, x: &Tensor, module: &str) -> Tensor {
        x.linear(self.weight(&format!("{module}.weight")), self.weights.get(&format!("{module}.bias")))
    }

    fn norm(&self, x: &Tensor, module: &str) -> Tensor {
        let wide = if self.kind == Kind::Double { x.shallow_clone() } else { x.to_kind(Kind::Float) };
        let scale = (wide.square().mean_dim(-1, true, None::<Kind>) + self.config.norm_eps).rsqrt();
        (wide * scale).to_kind(self.kind) * self.weight(&format!("{module}.weight"))
    }

    fn pass(&self, runs: &mut [Run<'_, Kv>]) -> Tensor {
        let c = &self.config;
        let (dim, heads, kv_heads) = (c.head_dim as i64, c.heads as i64, c.kv_heads as i64);
        let longest = runs.iter().map(|r| r.tokens.len()).max().unwrap_or(0);
        let before = |r: &Run<'_, Kv>| r.prefix.iter().map(|p| p.len).sum::<usize>() + r.own.len;
        let before: Vec<usize> = runs.iter().map(before).collect();
        let width = runs.iter().zip(&before).map(|(r, b)| b + r.tokens.len()).max().unwrap_or(0);
        let (mut ids, mut positions, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        // Where a row stands in the padded batch, and which row fills a place there.
        let (mut places, mut filled, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (run, before)) in runs.iter().zip(&before).enumerate() {
            for slot in 0..longest {
                if let Some(token) = run.tokens.get(slot) {
                    filled.push(ids.len() as i64);
                    seen.push((before + slot) as i64);
                    places.push((i * longest + slot) as i64);
                    ids.push(i64::from(*token));
                    positions.push((before + slot) as i64);
                } else {
                    filled.push(0);
                    seen.push(0);
                }
            }
            wanted.extend((ids.len() - run.logits..ids.len()).map(|r| r as i64));
        }
        let rows = ids.len();
        ids.resize(rows.max(MIN_ROWS), 0);
        positions.resize(rows.max(MIN_ROWS), 0);
        places.resize(rows.max(MIN_ROWS), 0);
        let on_device = |v: &[i64]| Tensor::from_slice(v).to_device(self.device);
        let (places, filled) = (on_device(&places), on_device(&filled));
        let (cos, sin) = c.rope.tables(c.head_dim, &on_device(&positions), self.kind);
        let keys = Tensor::arange(width as i64, (Kind::Int64, self.device));
        let mask = on_device(&seen).view([runs.len() as i64, 1, longest as i64, 1]).ge_tensor(&keys);

        // The residual stream is kept in at least f32, as in `whet_model::Decoder`.
        let embedding = self.weight("model.embed_tokens.weight");
        let wide = if self.kind == Kind::Double { Kind::Double } else { Kind::Float };
        let mut x = Tensor::embedding(embedding, &on_device(&ids), -1, false, false).to_kind(wide);
        for layer in 0..c.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let h = self.norm(&x, &name("input_layernorm"));
            let split = |t: Tensor| t.view([-1, t.size()[1] / dim, dim]);
            let mut q = split(self.linear(&h, &name("self_attn.q_proj")));
            let mut k = split(self.linear(&h, &name("self_attn.k_proj")));
            let v = split(self.linear(&h, &name("self_attn.v_proj")));
            if c.qk_norm {
                q = self.norm(&q, &name("self_attn.q_norm"));
                k = self.norm(&k, &name("self_attn.k_norm"));
            }
            let rotate = |t: &Tensor| (t * &cos).addcmul(&t.roll([dim / 2], [-1]), &sin);
            let (q, k) = (rotate(&q), rotate(&k));
            let mut row = 0;
            let gathered: Vec<[Tensor; 2]> = runs
                .iter_mut()
                .map(|run| {
                    let n = run.tokens.len() as i64;
                    let fresh = [&k, &v].map(|t| t.narrow(0, row, n).transpose(0, 1));
                    row += n;
                    run.own.append(layer, &fresh);
                    run.own.gather(layer, run.prefix, n, width as i64)
                })
                .collect();
            let batch =
                |side: usize| Tensor::stack(&gathered.iter().map(|g| &g[side]).collect::<Vec<_>>(), 0);
            let query = q
                .index_select(0, &filled)
                .view([runs.len() as i64, longest as i64, heads, dim])
                .transpose(1, 2);
            let attended = Tensor::scaled_dot_product_attention(
                &query,
                &batch(0),
                &batch(1),
                Some(&mask),
                0.0,
                false,
                None::<f64>,
                heads != kv_heads,
            );
            let attended = attended.transpose(1, 2).reshape([-1, heads * dim]).index_select(0, &places);
            x += self.linear(&attended, &name("self_attn.o_proj"));
            let h = self.norm(&x, &name("post_attention_layernorm"));
            let gated =
                self.linear(&h, &name("mlp.gate_proj")).silu() * self.linear(&h, &name("mlp.up_proj"));
            x += self.linear(&gated, &name("mlp.down_proj"));
        }
        for run in runs.iter_mut() {
            run.own.len += run.tokens.len();
        }
        if wanted.is_empty() {
            return Tensor::zeros([0, c.vocab_size as i64], (Kind::Float, Device::Cpu));
        }
        let asked = wanted.len();
        wanted.resize(asked.max(MIN_ROWS), 0);
        let h = self.norm(&x.index_select(0, &on_device(&wanted)), "model.norm");
        let output =
            self.weights.get("lm_head.weight").unwrap_or_else(|| self.weight("model.embed_tokens.weight"));
        // In f32, as the trainer's output layer computes them.
        let logits =
            h.to_kind(wide).linear(&output.to_kind(wide), None::<&Tensor>).narrow(0, 0, asked as i64);
        logits.to_kind(Kind::Float).to_device(Device::Cpu).contiguous()
    }
}

impl Kv {
    /// Writes `[kv_heads, n, head_dim]` behind what is there; `len` grows once all layers have been written.
    fn append(&mut self, layer: usize, fresh: &[Tensor; 2]) {
        let (have, n) = (self.len as i64, fresh[0].size()[1]);
        for (kept, fresh) in self.layers[layer].iter_mut().zip(fresh) {
            let [heads, capacity, dim] = [kept.size()[0], kept.size()[1], kept.size()[2]];
            if have + n > capacity {
                let wider = ((have + n).max(2 * capacity) as usize).next_multiple_of(BLOCK) as i64;
                let grown = Tensor::zeros([heads, wider, dim], (kept.kind(), kept.device()));
                grown.narrow(1, 0, capacity).copy_(kept);
                *kept = grown;
            }
            kept.narrow(1, have, n).copy_(fresh);
        }
    }

    /// Keys and values of `prefix` and of the first `len + fresh` own positions, padded to `width`.
    fn gather(&self, layer: usize, prefix: &[&Kv], fresh: i64, width: i64) -> [Tensor; 2] {
        [0, 1].map(|side| {
            let first = |kv: &Kv, n: usize| kv.layers[layer][side].narrow(1, 0, n as i64);
            let own = first(self, self.len + fresh as usize);
            let all: Vec<Tensor> = prefix.iter().map(|p| first(p, p.len)).chain([own]).collect();
            let all = Tensor::cat(&all, 1);
            all.constant_pad_nd([0, 0, 0, width - all.size()[1]])
        })
    }

    /// A copy of some positions.
    fn part(&self, from: usize, len: usize) -> Kv {
        let copy = |t: &Tensor| t.narrow(1, from as i64, len as i64).copy();
        Kv { layers: self.layers.iter().map(|[k, v]| [copy(k), copy(v)]).collect(), len }
    }
}

impl Backend for Tensors {
    type Kv = Kv;

    fn block_positions(&self) -> usize {
        BLOCK
    }

    fn block_bytes(&self) -> usize {
        let c = &self.config;
        2 * c.layers * c.kv_heads * c.head_dim * BLOCK * self.kind.elt_size_in_bytes()
    }

    fn empty(&self) -> Kv {
        let shape = [self.config.kv_heads as i64, 0, self.config.head_dim as i64];
        let tensor = || Tensor::zeros(shape, (self.kind, self.device));
        Kv { layers: (0..self.config.layers).map(|_| [tensor(), tensor()]).collect(), len: 0 }
    }

    fn split(&mut self, kv: &mut Kv, positions: usize) -> Kv {
        let first = kv.part(0, positions);
        *kv = kv.part(positions, kv.len - positions);
        first
    }

    fn recycle(&mut self, _kv: Kv) {}

    fn forward(&mut self, runs: &mut [Run<'_, Kv>]) -> Result<(), EngineError> {
        let started = Instant::now();
        let _no_grad = tch::no_grad_guard();
        self.logits = self.pass(runs);
        self.profile.gemm += started.elapsed();
        Ok(())
    }

    fn choose(&mut self, choices: &[Choice<'_>]) -> Vec<Option<Drawn>> {
        let started = Instant::now();
        let vocabulary = self.config.vocab_size;
        let Ok(logits) = view::slice::<f32>(&self.logits) else { return vec![None; choices.len()] };
        let mut work = Workspace::default();
        let one = |(choice, row): (&Choice<'_>, &[f32])| match choice {
            Choice::Draw(sampling, uniform) => draw(Isa::detect(), row, sampling, *uniform, &mut work),
            Choice::Given(token) => score(Isa::detect(), row, *token, &mut work),
        };
        let drawn = choices.iter().zip(logits.chunks_exact(vocabulary)).map(one).collect();
        self.profile.sampler += started.elapsed();
        drawn
    }

    fn set_weights(&mut self, tensors: &[(String, Tensor)]) -> Result<(), String> {
        let _no_grad = tch::no_grad_guard();
        for (name, tensor) in tensors {
            let place = self
                .weights
                .get_mut(name)
                .ok_or_else(|| format!("tensor `{name}` has no place in the engine"))?;
            place.copy_(tensor);
        }
        Ok(())
    }

    fn profile(&mut self) -> &mut Profile {
        &mut self.profile
    }
}
