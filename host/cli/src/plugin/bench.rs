//! `whet plugin bench`: what a plugin's calls cost on this machine.

use super::{PluginFile, Terms, plugin_host, rows};
use crate::words::out;
use anyhow::{Result, bail, ensure};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use whet_plugin_host::{
    AdvantagePlugin, Batch, CallError, FilterPlugin, Kind, RewardPlugin, ScoredGroup, Stats,
};
use whet_trajectory::{FinishReason, Group, GroupId, Message, Role, Sample, SampleId};

/// Samples of the group that is measured when no file is given.
const SAMPLES: usize = 8;
/// Bytes of each of its responses.
const RESPONSE_BYTES: usize = 1024;
/// Calls before the measured ones.
const WARM_UP: usize = 50;

/// Flags of `whet plugin bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// A standard plugin's name, or the path of a `.wasm` file.
    plugin: String,
    /// Lines of JSON as for `whet plugin run`. Default: one group of 8 responses of 1 KiB.
    #[arg(long, short, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Seconds to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    terms: Terms,
}

/// A plugin of any kind.
enum Plugin {
    Reward(RewardPlugin),
    Filter(FilterPlugin),
    Advantage(AdvantagePlugin),
}

/// Measures calls on one thread, one group at a time.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    ensure!(args.seconds > 0.0 && args.seconds <= 600.0, "--seconds must be above 0 and at most 600");
    let file = PluginFile::read(&args.plugin)?;
    let usage = args.terms.usage()?;
    let host = plugin_host();
    let kinds = host.inspect(&file.bytes).map_err(|e| file.refused(e))?.kinds;
    let start = Instant::now();
    let plugin = match kinds.first() {
        Some(Kind::Reward) => host.reward(&file.bytes, &usage).map(Plugin::Reward),
        Some(Kind::Filter) => host.filter(&file.bytes, &usage).map(Plugin::Filter),
        Some(Kind::Advantage) => host.advantage(&file.bytes, &usage).map(Plugin::Advantage),
        Some(Kind::Environment) | None => bail!("{} is no plugin that can be measured", file.path.display()),
    };
    let plugin = plugin.map_err(|e| file.refused(e))?;
    let load = start.elapsed();
    let groups = match &args.input {
        Some(path) => rows::open(path)?.groups,
        None => vec![example()],
    };
    let calls = measure(&plugin, &groups, Duration::from_secs_f64(args.seconds))?;
    out(calls.report(&args.plugin, load, args.json))?;
    Ok(ExitCode::SUCCESS)
}

/// What was measured.
struct Calls {
    /// Sorted.
    times: Vec<Duration>,
    samples: usize,
    total: Duration,
    instantiate: Duration,
}

fn measure(plugin: &Plugin, groups: &[Group], budget: Duration) -> Result<Calls> {
    let rewards: Vec<Vec<Option<f64>>> = groups.iter().map(|g| example_rewards(g.samples.len())).collect();
    let batches: Vec<Batch> = groups.iter().map(batch).collect();
    let call = |i: usize| -> Result<(), CallError> {
        let i = i % groups.len();
        match plugin {
            Plugin::Reward(plugin) => plugin.score_once(&groups[i]).map(drop),
            Plugin::Filter(plugin) => {
                plugin.keep_groups(&[ScoredGroup { group: &groups[i], rewards: &rewards[i] }]).map(drop)
            }
            Plugin::Advantage(plugin) => plugin.estimate(&batches[i]).map(drop),
        }
    };
    for i in 0..WARM_UP {
        call(i)?;
    }
    let before = plugin.stats();
    let (mut times, mut samples) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < budget {
        let i = times.len();
        let call_start = Instant::now();
        call(i)?;
        times.push(call_start.elapsed());
        samples += groups[i % groups.len()].samples.len();
    }
    let total = start.elapsed();
    let after = plugin.stats();
    let calls = u32::try_from(after.calls - before.calls).unwrap_or(u32::MAX).max(1);
    let instantiate = (after.instantiate_time - before.instantiate_time) / calls;
    times.sort();
    Ok(Calls { times, samples, total, instantiate })
}

impl Plugin {
    fn stats(&self) -> Stats {
        match self {
            Plugin::Reward(plugin) => plugin.stats(),
            Plugin::Filter(plugin) => plugin.stats(),
            Plugin::Advantage(plugin) => plugin.stats(),
        }
    }
}

impl Calls {
    /// The time that a share of the calls stayed within.
    fn quantile(&self, share: f64) -> Duration {
        let index = (self.times.len() as f64 * share) as usize;
        self.times.get(index.min(self.times.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn report(&self, plugin: &str, load: Duration, as_json: bool) -> String {
        let us = |d: Duration| (d.as_nanos() as f64 / 10.0).round() / 100.0;
        let per_second = |n: usize| (n as f64 / self.total.as_secs_f64()).round();
        let (p50, p99) = (us(self.quantile(0.5)), us(self.quantile(0.99)));
        let (calls, samples) = (per_second(self.times.len()), per_second(self.samples));
        let per_call = self.samples as f64 / self.times.len().max(1) as f64;
        if as_json {
            let result = json!({
                "plugin": plugin,
                "calls": self.times.len(),
                "samples_per_call": per_call,
                "calls_per_second": calls,
                "samples_per_second": samples,
                "p50_us": p50,
                "p99_us": p99,
                "instantiate_us": us(self.instantiate),
                "load_ms": us(load) / 1000.0,
            });
            return format!("{result:#}");
        }
        format!(
            "plugin       {plugin}\n\
             calls        {} of {per_call:.1} samples, one thread\n\
             throughput   {calls} calls/s, {samples} samples/s\n\
             call         p50 {p50} us, p99 {p99} us\n\
             instantiate  {} us on average, part of every call\n\
             load         {:.1} ms",
            self.times.len(),
            us(self.instantiate),
            us(load) / 1000.0,
        )
    }
}

/// A group as a training step has it: reasoning of a kilobyte, then an answer.
fn example() -> Group {
    let sample = |i: usize| {
        let answer = format!("So the answer is {}.", 40 + i);
        let mut response =
            "First we add the two numbers, then we compare the result with the rest. ".repeat(16);
        response.truncate(RESPONSE_BYTES - answer.len());
        response.push_str(&answer);
        Sample {
            id: SampleId(format!("bench/{i}")),
            completion: vec![Message::text(Role::Assistant, response.clone())],
            response,
            finish: FinishReason::Stop,
            prompt_tokens: 32,
            response_tokens: 256,
            turns: 1,
            environment_rewards: Vec::new(),
        }
    };
    Group {
        id: GroupId("bench".into()),
        prompt: vec![Message::text(Role::User, "What is 21 + 21?")],
        label: Some("42".into()),
        metadata: serde_json::Map::new(),
        samples: (0..SAMPLES).map(sample).collect(),
    }
}

/// Rewards that are not all equal.
fn example_rewards(samples: usize) -> Vec<Option<f64>> {
    (0..samples).map(|i| Some((i % 2) as f64)).collect()
}

/// The group as a batch of one group.
fn batch(group: &Group) -> Batch {
    let tokens: usize = group.samples.iter().map(|s| s.response_tokens as usize).sum();
    Batch {
        sample_ids: group.samples.iter().map(|s| s.id.0.clone()).collect(),
        groups: vec![0; group.samples.len()],
        rewards: (0..group.samples.len()).map(|i| (i % 2) as f32).collect(),
        lengths: group.samples.iter().map(|s| s.response_tokens).collect(),
        mask: vec![1; tokens],
        rollout_logprobs: vec![-0.5; tokens],
        ..Batch::default()
    }
}
