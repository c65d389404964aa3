//! Critic, reward model, preferences, imitation and distillation: each learns, and each batch has one gradient
//! however it is cut.

use super::{model, options, sample, trainer};
use crate::loss::distillation::{Divergence, Rest, divergence};
use crate::loss::{PreferenceLoss, ValueError, ValueLoss};
use crate::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use tch::{Device, Kind, Tensor};
use whet_algorithm::Reduction;
use whet_model::{Decoder, Packed, Weights};
use whet_trajectory::{GroupId, SampleId, WeightVersion};

const LOSS: ValueLoss = ValueLoss { clip: Some(0.2), error: ValueError::Squared, factor: 0.5 };

/// Samples that begin alike for so long that they share rows, with gaps in their masks.
fn samples(shapes: &[(u32, usize)]) -> Vec<TrainSample> {
    let make = |(number, &(group, length)): (usize, &(u32, usize))| {
        let prompt = (0..18 + group).map(|t| (t * 5 + 2) % 23);
        let response = (0..length as u32).map(|t| (t * 7 + number as u32) % 23);
        let tokens: Vec<u32> = prompt.chain(response).collect();
        let mask = (0..tokens.len()).map(|t| t >= 18 + group as usize && (t + number) % 4 != 3).collect();
        TrainSample::given(SampleId(number.to_string()), GroupId(group.to_string()), tokens, mask)
    };
    shapes.iter().enumerate().map(make).collect()
}

fn goals(samples: &[TrainSample]) -> Vec<Goal> {
    let list = |s: &TrainSample, scale: f32| {
        let number: f32 = s.id.0.parse().unwrap_or(0.0);
        (0..s.tokens.len()).map(|t| ((t as f32 + number) * scale).sin()).collect()
    };
    samples.iter().map(|s| Goal { old: list(s, 0.3), returns: list(s, 0.7) }).collect()
}

/// A critic whose head is not zero, so that the layers below it learn from the first update on.
fn critic(options: TrainOptions) -> ValueModel {
    let (config, mut weights) = model();
    let head: Vec<f64> = (0..16).map(|i| f64::from(i - 8) * 0.1).collect();
    weights.insert("score.weight".into(), Tensor::from_slice(&head).view([1, 16]));
    ValueModel::new(&config, weights, options).expect("a critic")
}

fn double(budget: usize, recompute: bool) -> TrainOptions {
    TrainOptions {
        kind: Kind::Double,
        micro_batch_tokens: budget,
        gradient_checkpointing: recompute,
        ..TrainOptions::default()
    }
}

/// Largest difference of two gradients, relative to the norm of the first.
fn distance(a: Vec<(String, Tensor)>, b: Vec<(String, Tensor)>) -> f64 {
    let b: BTreeMap<String, Tensor> = b.into_iter().collect();
    let square = |t: &Tensor| t.to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
    let difference: f64 = a.iter().map(|(name, t)| square(&(t - &b[name]))).sum();
    (difference / a.iter().map(|(_, t)| square(t)).sum::<f64>()).sqrt()
}

fn told(samples: &[TrainSample], top: usize) -> HashMap<SampleId, Told> {
    let (config, weights) = other();
    let teacher = Decoder::new(&config, &weights).expect("a decoder");
    let one = |s: &TrainSample| {
        let packed = Packed::sequences(&[&s.tokens], Device::Cpu).expect("a sequence");
        let log_probs = teacher.logits(&teacher.hidden(&packed)).log_softmax(-1, Kind::Double);
        let (values, ids) = log_probs.topk(top as i64, -1, true, true);
        let flat = |t: &Tensor| Vec::<f64>::try_from(t.to_kind(Kind::Double).view([-1])).expect("numbers");
        // Row t says what follows token t.
        let mut told = Told { top, ids: vec![0; top], logprobs: vec![-1.0; top] };
        told.ids.extend(flat(&ids).iter().map(|&id| id as u32));
        told.logprobs.extend(flat(&values).iter().map(|&lp| lp as f32));
        told.ids.truncate(s.tokens.len() * top);
        told.logprobs.truncate(s.tokens.len() * top);
        (s.id.clone(), told)
    };
    samples.iter().map(one).collect()
}

/// Another model of the same shape.
fn other() -> (whet_model::Config, Weights) {
    let (config, weights) = model();
    (config, weights.into_iter().map(|(n, t)| (n, (t.roll([3], [0]) * 0.9).to_kind(Kind::Double))).collect())
}

fn towards<'a>(teacher: Teacher<'a>, kind: Divergence, support: Support, rest: Rest) -> Distillation<'a> {
    Distillation { divergence: kind, support, rest, coefficient: 0.7, teacher }
}

fn divergences() -> [(Divergence, Support, Rest); 6] {
    [
        (Divergence::Reverse, Support::All, Rest::Dropped),
        (Divergence::Forward, Support::All, Rest::Dropped),
        (Divergence::Jensen { teacher: 0.3 }, Support::All, Rest::Dropped),
        (Divergence::Reverse, Support::Student { top: 5 }, Rest::Bin),
        (Divergence::Forward, Support::Teacher { top: 5 }, Rest::Renormalised),
        (Divergence::Jensen { teacher: 0.5 }, Support::Teacher { top: 3 }, Rest::Bin),
    ]
}

/// The gradient of some loss over samples, by parameter.
type GradientOf<'a> = &'a dyn Fn(&[TrainSample], TrainOptions) -> Vec<(String, Tensor)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn for_every_split_and_order_of_a_batch_each_loss_has_the_same_gradient(
        shapes in prop::collection::vec((0u32..3, 1usize..14), 2..8),
        budget in 4usize..120, turn in 0usize..8, recompute: bool, which in 0usize..6
    ) {
        tch::set_num_threads(1);
        let batch = samples(&shapes);
        prop_assume!(batch.iter().any(|s| s.loss_mask.contains(&true)));
        let mut turned = batch.clone();
        turned.rotate_left(turn % batch.len());
        let cuts = [(&batch, double(10_000, false)), (&turned, double(budget, recompute))];
        let compare = |gradient: GradientOf<'_>| {
            let [whole, cut] = cuts.clone().map(|(samples, options)| gradient(samples, options));
            distance(whole, cut)
        };
        let value = compare(&|samples, options| {
            let mut critic = critic(options);
            critic.forward_backward(samples, &goals(samples), LOSS, Reduction::TokenMean).expect("a gradient");
            critic.gradients()
        });
        prop_assert!(value < 1e-12, "critic: {value:e}");
        let imitation = compare(&|samples, options| {
            let mut trainer = trainer(options);
            trainer.imitate(samples, Reduction::TokenMean).expect("a gradient");
            trainer.gradients()
        });
        prop_assert!(imitation < 1e-12, "imitation: {imitation:e}");
        let (config, weights) = other();
        let teacher = Frozen::new(&config, &weights).expect("a teacher");
        let (kind, support, rest) = divergences()[which];
        let distilled = compare(&|samples, options| {
            let mut trainer = trainer(options);
            let distillation = towards(Teacher::Model(&teacher), kind, support, rest);
            trainer
                .forward_backward_towards(samples, &LossOptions::default(), &distillation)
                .expect("a gradient");
            trainer.gradients()
        });
        prop_assert!(distilled < 1e-12, "distillation: {distilled:e}");
    }

    #[test]
    fn for_every_split_pairs_have_the_same_gradient(
        lengths in prop::collection::vec((1usize..9, 1usize..9), 1..6), budget in 4usize..90, which in 0usize..3
    ) {
        tch::set_num_threads(1);
        let loss = [
            PreferenceLoss::Sigmoid { beta: 0.3, smoothing: 0.1 },
            PreferenceLoss::Ipo { beta: 0.3 },
            PreferenceLoss::Hinge { beta: 0.3 },
        ][which];
        let pairs: Vec<Pair> = lengths.iter().enumerate().map(|(n, &(a, b))| pair(n, a, b)).collect();
        let reference: Vec<PairLogProbs> =
            (0..pairs.len()).map(|n| PairLogProbs { chosen: -9.0 - n as f64, rejected: -8.0 }).collect();
        let preferred = [10_000, budget].map(|budget| {
            let mut trainer = trainer(double(budget, false));
            let metrics = trainer.prefer(&pairs, &reference, loss).expect("a gradient");
            assert_eq!(metrics.pairs, pairs.len());
            trainer.gradients()
        });
        let [whole, cut] = preferred;
        // All pairs may be beyond the hinge's corner, and then there is no gradient.
        let norm: f64 = whole.iter().map(|(_, t)| t.norm().double_value(&[])).sum();
        prop_assert!(norm == 0.0 || distance(whole, cut) < 1e-12);
        let texts: Vec<TextPair> = pairs.iter().map(text).collect();
        let [whole, cut] = [10_000, budget].map(|budget| {
            let mut model = critic(double(budget, false));
            model.compare(&texts).expect("a gradient");
            model.gradients()
        });
        let apart = distance(whole, cut);
        prop_assert!(apart < 1e-12, "{apart:e}");
    }
}

fn pair(number: usize, chosen: usize, rejected: usize) -> Pair {
    let answer = |length: usize, first: u32| {
        let prompt = (0..17).map(|t| (t * 3 + number as u32) % 23);
        let tokens: Vec<u32> = prompt.chain((0..length as u32).map(|t| (first + t) % 23)).collect();
        let mask = (0..tokens.len()).map(|t| t >= 17).collect();
        TrainSample::given(SampleId(number.to_string()), GroupId(number.to_string()), tokens, mask)
    };
    Pair { chosen: answer(chosen, 4), rejected: answer(rejected, 15) }
}

fn text(pair: &Pair) -> TextPair {
    TextPair { chosen: pair.chosen.tokens.clone(), rejected: pair.rejected.tokens.clone() }
}

#[test]
fn a_critics_gradient_is_that_of_autograd_over_the_plain_formula() {
    tch::set_num_threads(1);
    let batch = samples(&[(0, 6), (1, 3), (0, 9)]);
    let goals = goals(&batch);
    let mut model = critic(double(40, false));
    let metrics = model.forward_backward(&batch, &goals, LOSS, Reduction::TokenMean).expect("a gradient");
    let weights: Weights = model
        .weights()
        .into_iter()
        .map(|(n, t)| (n, t.copy().to_kind(Kind::Double).set_requires_grad(true)))
        .collect();
    let decoder = Decoder::new(&super::model().0, &weights).expect("a decoder");
    let (mut total, mut count) = (Tensor::zeros([], (Kind::Double, Device::Cpu)), 0.0);
    for (sample, goal) in batch.iter().zip(&goals) {
        let packed = Packed::sequences(&[&sample.tokens], Device::Cpu).expect("a sequence");
        let values = decoder.hidden(&packed).matmul(&weights["score.weight"].tr()).squeeze_dim(1);
        for t in (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]) {
            let (v, old, goal) =
                (values.get(t as i64 - 1), f64::from(goal.old[t]), f64::from(goal.returns[t]));
            let clipped = old + (&v - old).clamp(-0.2, 0.2);
            total += ((&v - goal).square()).maximum(&(clipped - goal).square()) * 0.5;
            count += 1.0;
        }
    }
    let loss = total / count;
    assert!((loss.double_value(&[]) - metrics.loss).abs() < 1e-12);
    let gradients = model.gradients();
    let leaves: Vec<&Tensor> = gradients.iter().map(|(name, _)| &weights[name]).collect();
    let expected = Tensor::run_backward(&[loss], &leaves, false, false);
    for ((name, found), expected) in gradients.iter().zip(expected) {
        // The padding token's row aside, which this configuration does not have.
        let apart = (found - expected).abs().max().double_value(&[]);
        assert!(apart < 1e-12, "{name}: {apart:e}");
    }
}

#[test]
fn a_critic_starts_at_zero_and_learns_its_returns() {
    tch::set_num_threads(1);
    let batch = samples(&[(0, 6), (1, 5), (2, 7)]);
    let (config, weights) = model();
    let mut critic = ValueModel::new(&config, weights, options()).expect("a critic");
    assert!(critic.values(&batch).expect("values").iter().flatten().all(|&v| v == 0.0));
    let error = |critic: &ValueModel| -> f64 {
        let values = critic.values(&batch).expect("values");
        let pairs = batch.iter().zip(&values).zip(goals(&batch));
        pairs
            .flat_map(|((s, v), g)| {
                (0..v.len()).filter(|&t| s.loss_mask[t]).map(move |t| v[t] - g.returns[t]).collect::<Vec<_>>()
            })
            .map(|x| f64::from(x * x))
            .sum()
    };
    let before = error(&critic);
    let loss = ValueLoss { clip: None, ..LOSS };
    let (config, weights) = model();
    let rounded = TrainOptions { kind: Kind::BFloat16, ..options() };
    let mut in_bf16 = ValueModel::new(&config, weights, rounded).expect("a critic");
    in_bf16.forward_backward(&batch, &goals(&batch), loss, Reduction::TokenMean).expect("a gradient");
    assert!(!in_bf16.optimiser_step().skipped);
    for _ in 0..30 {
        critic.forward_backward(&batch, &goals(&batch), loss, Reduction::TokenMean).expect("a gradient");
        assert!(!critic.optimiser_step().skipped);
    }
    assert!(error(&critic) < before * 0.2, "{before} to {}", error(&critic));
    assert_eq!(critic.version(), WeightVersion(30));
}

#[test]
fn a_critic_that_was_saved_and_loaded_goes_on_as_one_that_was_not() {
    tch::set_num_threads(1);
    let dir = tempfile::tempdir().expect("a folder");
    let batch = samples(&[(0, 6), (1, 5)]);
    let train = |critic: &mut ValueModel, steps: usize| {
        for _ in 0..steps {
            critic.forward_backward(&batch, &goals(&batch), LOSS, Reduction::TokenMean).expect("a gradient");
            critic.optimiser_step();
        }
    };
    let mut straight = critic(options());
    train(&mut straight, 5);
    let mut first = critic(options());
    train(&mut first, 2);
    first.save(&dir.path().join("critic")).expect("saved");
    let mut second = critic(options());
    second.load(&dir.path().join("critic")).expect("loaded");
    train(&mut second, 3);
    let values = |critic: &ValueModel| critic.values(&batch).expect("values");
    assert_eq!(values(&straight), values(&second));
    // A policy's checkpoint is none of a critic's.
    let policy = trainer(options());
    policy.save(&dir.path().join("policy")).expect("saved");
    let error = critic(options()).load(&dir.path().join("policy")).expect_err("no score");
    assert!(matches!(error, TrainError::Checkpoint(CheckpointError::Incompatible { .. })), "{error}");
}

#[test]
fn a_goal_that_is_no_number_is_refused_before_anything_is_computed() {
    let batch = samples(&[(0, 6)]);
    let mut goals = goals(&batch);
    goals[0].returns[0] = f32::NAN;
    critic(options()).forward_backward(&batch, &goals, LOSS, Reduction::TokenMean).expect("a masked NaN");
    goals[0].returns[18] = f32::NAN;
    let error =
        critic(options()).forward_backward(&batch, &goals, LOSS, Reduction::TokenMean).expect_err("a NaN");
    assert!(error.to_string().contains("`returns` is NaN at trained token 18"), "{error}");
}

#[test]
fn preferences_are_learnt_by_every_loss_and_by_a_reward_model() {
    tch::set_num_threads(1);
    let pairs: Vec<Pair> = (0..4).map(|n| pair(n, 3 + n, 5)).collect();
    for loss in [
        PreferenceLoss::Sigmoid { beta: 0.1, smoothing: 0.0 },
        PreferenceLoss::Hinge { beta: 0.1 },
        PreferenceLoss::Ipo { beta: 0.1 },
    ] {
        let mut trainer = trainer(options());
        let reference = trainer.pair_logprobs(&pairs).expect("log-probabilities");
        let first = trainer.prefer(&pairs, &reference, loss).expect("a gradient");
        // Nothing is preferred where the policy is the reference.
        assert!(first.margin.abs() < 1e-4 && (first.loss - loss.value(0.0).0).abs() < 1e-3, "{first:?}");
        trainer.optimiser_step();
        for _ in 0..6 {
            trainer.prefer(&pairs, &reference, loss).expect("a gradient");
            trainer.optimiser_step();
        }
        let last = trainer.prefer(&pairs, &reference, loss).expect("a gradient");
        assert!(last.accuracy == 1.0 && last.margin > 0.05 && last.loss < first.loss, "{loss:?}: {last:?}");
    }
    let texts: Vec<TextPair> = pairs.iter().map(text).collect();
    let (config, weights) = model();
    for lora in [None, Some(LoraOptions { rank: 2, ..LoraOptions::default() })] {
        let options = TrainOptions { lora, ..options() };
        let weights = weights.iter().map(|(n, t)| (n.clone(), t.copy())).collect();
        let mut judge = ValueModel::new(&config, weights, options).expect("a reward model");
        let first = judge.compare(&texts).expect("a gradient");
        assert_eq!((first.accuracy, first.margin), (0.5, 0.0));
        judge.optimiser_step();
        for _ in 0..12 {
            judge.compare(&texts).expect("a gradient");
            judge.optimiser_step();
        }
        let scores = |pick: fn(&TextPair) -> Vec<u32>| {
            judge.scores(&texts.iter().map(pick).collect::<Vec<_>>()).expect("scores")
        };
        let (chosen, rejected) = (scores(|p| p.chosen.clone()), scores(|p| p.rejected.clone()));
        assert!(chosen.iter().zip(&rejected).all(|(c, r)| c > r), "{chosen:?} {rejected:?}");
        assert!(judge.weights().iter().any(|(name, t)| name == "score.weight" && t.size() == [1, 16]));
    }
}

#[test]
fn imitation_lowers_the_cross_entropy_of_what_is_imitated() {
    tch::set_num_threads(1);
    let batch = samples(&[(0, 6), (1, 5)]);
    let mut trainer = trainer(options());
    let before = trainer.cross_entropy(&batch).expect("a number");
    for step in 0..10 {
        let metrics = trainer.imitate(&batch, Reduction::TokenMean).expect("a gradient");
        if step == 0 {
            assert!(
                (metrics.loss - before).abs() < 1e-6 && metrics.loss == metrics.cross_entropy,
                "{metrics:?}"
            );
        }
        trainer.optimiser_step();
    }
    assert!(trainer.cross_entropy(&batch).expect("a number") < before * 0.5);
}

#[test]
fn a_divergence_over_the_vocabulary_is_that_of_the_plain_distributions() {
    tch::set_num_threads(1);
    let batch = samples(&[(0, 6), (1, 5), (0, 4)]);
    let (config, weights) = other();
    let teacher = Frozen::new(&config, &weights).expect("a teacher");
    for (kind, support, rest) in divergences() {
        let mut trainer = trainer(double(50, false));
        let loss =
            LossOptions { reduction: Reduction::TokenMean, temperature: 0.8, ..LossOptions::default() };
        let distillation = towards(Teacher::Model(&teacher), kind, support, rest);
        let found = trainer.forward_backward_towards(&batch, &loss, &distillation).expect("a gradient");
        let student: Weights =
            trainer.weights().into_iter().map(|(n, t)| (n, t.copy().set_requires_grad(true))).collect();
        let rows = |config: &whet_model::Config, weights: &Weights, s: &TrainSample| {
            let decoder = Decoder::new(config, weights).expect("a decoder");
            let packed = Packed::sequences(&[&s.tokens], Device::Cpu).expect("a sequence");
            let at: Vec<i64> =
                (0..s.tokens.len()).filter(|&t| s.loss_mask[t]).map(|t| t as i64 - 1).collect();
            let logits = decoder.logits(&decoder.hidden(&packed)).index_select(0, &Tensor::from_slice(&at));
            (logits / 0.8).log_softmax(-1, Kind::Double)
        };
        let (mut total, mut count) = (Tensor::zeros([], (Kind::Double, Device::Cpu)), 0);
        for sample in &batch {
            let (p, q) = (rows(&config, &student, sample), rows(&config, &weights, sample));
            let ids = match support {
                Support::All => None,
                Support::Teacher { top } => Some(q.topk(top as i64, -1, true, false).1),
                Support::Student { top } => Some(p.topk(top as i64, -1, true, false).1),
            };
            let among =
                |t: &Tensor| ids.as_ref().map_or_else(|| t.shallow_clone(), |ids| t.gather(1, ids, false));
            total += divergence(kind, rest, &among(&p), &among(&q)).sum(Kind::Double);
            count += sample.trained();
        }
        let mean = total / count as f64;
        let expected = mean.double_value(&[]);
        assert!(
            (found.teacher - expected).abs() < 1e-10,
            "{kind:?}: {} instead of {expected}",
            found.teacher
        );
        assert!((found.loss - 0.7 * expected).abs() < 1e-10);
        let gradients = trainer.gradients();
        let leaves: Vec<&Tensor> = gradients.iter().map(|(name, _)| &student[name]).collect();
        let expected = Tensor::run_backward(&[mean * 0.7], &leaves, false, false);
        for ((name, found), expected) in gradients.iter().zip(expected) {
            let apart = (found - expected).abs().max().double_value(&[]);
            assert!(apart < 1e-10, "{kind:?} {name}: {apart:e}");
        }
    }
}

#[test]
fn what_a_teacher_elsewhere_says_teaches_as_the_teacher_does_here() {
    tch::set_num_threads(1);
    let batch = samples(&[(0, 6), (1, 5), (0, 4)]);
    let (config, weights) = other();
    let teacher = Frozen::new(&config, &weights).expect("a teacher");
    let lists = told(&batch, 4);
    let support = Support::Teacher { top: 4 };
    let gradient = |teacher: Teacher<'_>| {
        let mut trainer = trainer(double(60, false));
        let distillation = towards(teacher, Divergence::Reverse, support, Rest::Bin);
        trainer.forward_backward_towards(&batch, &LossOptions::default(), &distillation).expect("a gradient");
        trainer.gradients()
    };
    // The lists are f32.
    assert!(distance(gradient(Teacher::Model(&teacher)), gradient(Teacher::Told(&lists))) < 1e-5);
    let some: HashMap<SampleId, Told> = lists.into_iter().take(1).collect();
    let distillation = towards(Teacher::Told(&some), Divergence::Reverse, support, Rest::Bin);
    let error = trainer(double(60, false))
        .forward_backward_towards(&batch, &LossOptions::default(), &distillation)
        .expect_err("nothing known");
    assert!(error.to_string().contains("the teacher said nothing about sample"), "{error}");
}

#[test]
fn distillation_brings_the_student_to_its_teacher() {
    tch::set_num_threads(1);
    let batch = samples(&[(0, 8), (1, 8)]);
    let (config, weights) = other();
    let weights = weights.into_iter().map(|(n, t)| (n, t.to_kind(Kind::Float))).collect();
    let teacher = Frozen::new(&config, &weights).expect("a teacher");
    for (index, (kind, support, rest)) in divergences().into_iter().enumerate() {
        // Every other one in bf16, with a teacher in f32.
        let compute = if index % 2 == 0 { Kind::Float } else { Kind::BFloat16 };
        let mut trainer = trainer(TrainOptions { kind: compute, ..options() });
        let distillation = towards(Teacher::Model(&teacher), kind, support, rest);
        let mut step = || {
            let found = trainer
                .forward_backward_towards(&batch, &LossOptions::default(), &distillation)
                .expect("a gradient");
            trainer.optimiser_step();
            found.teacher
        };
        let first = step();
        let last = (0..12).map(|_| step()).last().expect("steps");
        assert!(last < first * 0.6, "{kind:?} {support:?}: {first} to {last}");
    }
    // A policy-gradient sample of another shape still passes through the same verbs.
    assert!(trainer(options()).forward_backward(&[sample(0, 1.0)], &LossOptions::default()).is_ok());
}
