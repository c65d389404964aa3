//! Losses of a critic.

use super::format::{Case, Check, Numbers};
use super::losses::{gradient, reduction_of, tensor};
use tch::{Kind, Tensor};
use whet_algorithm::{Reduction, reduction};
use whet_trainer::loss::{ValueError, ValueLoss, value};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "loss_value_verl" => verl,
        "loss_value_slime" => slime,
        "loss_value_areal" => areal,
        "loss_value_others" => others,
        _ => return None,
    })
}

struct Values {
    leaf: Tensor,
    mask: Vec<Vec<bool>>,
    lengths: Vec<usize>,
}

impl Values {
    fn new(case: &Case) -> Values {
        let mask = case.mask();
        let lengths = mask.iter().map(|row| row.iter().filter(|&&m| m).count()).collect();
        Values { leaf: tensor(&case.flat("values")).set_requires_grad(true), mask, lengths }
    }

    fn loss(&self, case: &Case, loss: ValueLoss) -> Tensor {
        value(loss, &self.leaf, &tensor(&case.flat("old_values")), &tensor(&case.flat("returns"))).0
    }

    fn numbers(&self, loss: &Tensor, weights: &[f64], prefix: &str) -> Numbers {
        let rows = self.mask.iter().zip(weights);
        let flat: Vec<f64> = rows
            .flat_map(|(row, &w)| row.iter().map(move |&m| if m { w } else { 0.0 }).collect::<Vec<_>>())
            .collect();
        let total = (loss * tensor(&flat)).sum(Kind::Double);
        vec![
            (format!("{prefix}loss"), vec![total.double_value(&[])]),
            (format!("{prefix}grad_values"), gradient(&total, &self.leaf)),
        ]
    }
}

fn squared(clip: Option<f64>, factor: f64) -> ValueLoss {
    ValueLoss { clip, error: ValueError::Squared, factor }
}

fn verl(case: &Case) -> Result<Numbers, String> {
    let values = Values::new(case);
    let loss = values.loss(case, squared(case.maybe("clip"), 0.5));
    let columns = values.mask[0].len() as f64;
    let mut weights =
        reduction_of(case.text("agg"), columns).weights(&values.lengths, reduction::trained(&values.lengths));
    if let (Some(ranks), Some(tokens)) = (case.maybe("kw.dp_size"), case.maybe("kw.batch_num_tokens")) {
        weights =
            Reduction::TokenSum.weights(&values.lengths, 0).iter().map(|w| w * ranks / tokens).collect();
    }
    Ok(values.numbers(&loss, &weights, ""))
}

fn slime(case: &Case) -> Result<Numbers, String> {
    let values = Values::new(case);
    let loss = values.loss(case, squared(case.maybe("clip"), 1.0));
    let reduction =
        if case.flag("per_token") { Reduction::TokenSum } else { Reduction::SequenceMeanTokenMean };
    Ok(values.numbers(&loss, &reduction.weights(&values.lengths, 1), ""))
}

fn areal(case: &Case) -> Result<Numbers, String> {
    let values = Values::new(case);
    let (error, factor) = match case.text("kind") {
        "huber" => (ValueError::Huber { delta: 10.0 }, 1.0),
        _ => (ValueError::Squared, 0.5),
    };
    let loss = values.loss(case, ValueLoss { clip: case.maybe("clip"), error, factor });
    Ok(values.numbers(&loss, &Reduction::TokenMean.weights(&values.lengths, 0), ""))
}

fn others(case: &Case) -> Result<Numbers, String> {
    let values = Values::new(case);
    let loss = values.loss(case, squared(case.maybe("clip"), 0.5));
    let trained = reduction::trained(&values.lengths);
    let mut numbers = Vec::new();
    for (name, reduction) in [
        ("openrlhf_token", Reduction::TokenMean),
        ("openrlhf_sample", Reduction::SequenceMeanTokenMean),
        ("lightrft", Reduction::SequenceMeanTokenMean),
        ("nemo", Reduction::TokenMean),
    ] {
        let sequences = if name == "lightrft" { values.mask.len() } else { trained };
        let weights = reduction.weights(&values.lengths, sequences);
        numbers.extend(values.numbers(&loss, &weights, &format!("{name}.")));
    }
    Ok(numbers)
}
