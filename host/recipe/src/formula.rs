//! The formula of a kind as one recipe has it: numbers in place of options' names, and in words what an option chooses.
//!
//! Must not know what stands around a formula: the lines are put together in [`crate::algorithms`].

use crate::definition::definition;
use crate::section::{
    Alignment, Correction, Estimator, GaeSteps, Gaps, Loss, Measure, Over, Reduction, Region, Rejection,
    Scale, Singleton, Span, Surrogate, Variance, WeightLevel,
};
use serde::Serialize;
use serde_json::Value;

/// How rewards become the advantage of an answer or a token.
pub(crate) fn estimator(estimator: &Estimator) -> String {
    use Estimator as E;
    let usual = || defined("estimator", estimator);
    let mut text = match *estimator {
        E::GroupRelative { scale: Scale::None, .. } => {
            "A_i = r_i - b_i, b the {baseline} of the group".to_owned()
        }
        E::PassAtK { scale: Scale::None, .. } => "A_best = r_best - r_second; all others 0".to_owned(),
        E::Normalised { mean, deviation, leave_one_out, variance, .. } => {
            normalised(mean, deviation, leave_one_out, variance)
        }
        E::Otb { alignment: Alignment::Trained, .. } => {
            usual().replace("that have token t", "that have a t-th sampled token")
        }
        E::Gae { length_adaptive: Some(_), .. } => {
            usual().replace("{lambda}", "λ")
                + "; λ = 1 - 1 / max({length-adaptive} · n, 1) in an answer of n tokens"
        }
        E::Distillation { coefficient, rewards } => {
            let more = if rewards { " + the rewards' group-relative advantage" } else { "" };
            match coefficient {
                1.0 => format!("A_t = log p_teacher - log p_old{more}"),
                _ => format!("A_t = {{coefficient}} · (log p_teacher - log p_old){more}"),
            }
        }
        _ => usual(),
    };
    match *estimator {
        E::GroupRelative { singleton: Singleton::Reward, .. }
        | E::Opo { singleton: Singleton::Reward }
        | E::Gpg { singleton: Singleton::Reward, .. } => text += "; a group with one score keeps its reward",
        E::Otb { zero_tail: true, .. } => text += "; no baseline where only the longest answer reaches",
        E::Gae { value_lambda, steps, .. } => {
            if value_lambda.is_some() {
                text = text.replace("learns A + V", "learns A + V with λ = {value-lambda}");
            }
            if steps == GaeSteps::Turn {
                text += "; t counts turns";
            }
        }
        _ => {}
    }
    if let E::Returns { gaps: Gaps::Step, .. } | E::Gae { gaps: Gaps::Step, .. } = estimator {
        text += "; tokens that were not sampled are steps too";
    }
    filled(&text, estimator)
}

/// The quotient of two statistics, each of the step or the group, or left out.
fn normalised(mean: Span, deviation: Span, leave_one_out: bool, variance: Variance) -> String {
    let over = |span| if span == Span::Group { "the group" } else { "the step" };
    let others = if leave_one_out { " without r_i" } else { "" };
    let centred = match mean {
        Span::None => "r_i".to_owned(),
        span => format!("(r_i - mean of {}{others})", over(span)),
    };
    let by = if variance == Variance::Sample { "1/(n - 1)" } else { "1/n" };
    match deviation {
        Span::None => format!("A_i = {}", centred.trim_start_matches('(').trim_end_matches(')')),
        span => format!("A_i = {centred} / (s + {{eps}}), s the deviation of {} with {by}", over(span)),
    }
}

/// The policy-gradient term of a token.
pub(crate) fn loss(loss: &Loss) -> String {
    let usual = || defined("loss", loss);
    let text = match *loss {
        Loss::Clip { dual, cap, .. } => {
            let free = if cap.is_some() { "max(-A min(r, {cap})," } else { "max(-A r," };
            let most = if dual.is_some() { "; at most -{dual} A where A < 0" } else { "" };
            usual().replace("max(-A r,", free) + most
        }
        Loss::Cispo { by_sign: true, .. } => {
            "-sg(min(r, {high}) where A ≥ 0, else max(r, {low})) A lp".to_owned()
        }
        Loss::Dppo { region, surrogate, drift, .. } => {
            let summed = if surrogate == Surrogate::Ratio { "-A r" } else { "-A sg(min(r, {cap})) lp" };
            let inside = match region {
                Region::Absolute => "|p - p_old| ≤ {high}",
                Region::TotalVariation | Region::BinaryKl => {
                    "p is in its {region} region ({low} down, {high} up)"
                }
            };
            let drift = if drift > 0.0 { "; plus {drift} · (log r)²" } else { "" };
            format!("{summed} where {inside} or comes back, else 0{drift}")
        }
        Loss::Vespo { detached: true, .. } => usual().replace("-φ A", "-sg(φ) A"),
        _ => usual(),
    };
    filled(&text, loss)
}

/// From tokens to the loss of a batch; `longest` is what a length is where none is given.
pub(crate) fn reduction(reduction: Reduction, longest: usize) -> String {
    let given = match reduction {
        Reduction::SeqMeanTokenSumNorm { length } => {
            Reduction::SeqMeanTokenSumNorm { length: Some(length.unwrap_or(longest as f64)) }
        }
        other => other,
    };
    filled(&defined("reduction", &given), &given)
}

/// The weight on the policy-gradient term.
pub(crate) fn correction(correction: Correction) -> String {
    let text = defined("correction", &correction);
    let (level, normalise) = match correction {
        Correction::Tis { level, normalise, .. }
        | Correction::Clamp { level, normalise, .. }
        | Correction::Mis { level, normalise, .. } => (level, normalise),
        Correction::None | Correction::Icepop { .. } | Correction::SeqMaskTis { .. } => {
            (WeightLevel::Token, false)
        }
    };
    let w = match level {
        WeightLevel::Token => "w = p_old / p_rollout of the token",
        WeightLevel::Sequence => "w = p_old / p_rollout of the whole answer",
        WeightLevel::Geometric => "w the geometric mean of p_old / p_rollout over the answer",
    };
    let divided = if normalise { "; divided by its mean over the batch" } else { "" };
    filled(&format!("{}; {w}{divided}", text.replace("; w by {level}", "")), &correction)
}

/// Where the policy-gradient term is left out.
pub(crate) fn rejection(rule: &Rejection) -> String {
    let text = match *rule {
        Rejection::Mismatch { measure, over, low, .. } => {
            let low = if low.is_some() { " or below {low}" } else { "" };
            let (name, meaning) = match measure {
                Measure::Ratio => ("p_old / p_rollout", ""),
                Measure::K1 => ("p_rollout / p_old", ""),
                Measure::K2 => ("k2", "; k2 = d² / 2, d = log p_old - log p_rollout"),
                Measure::K3 => ("k3", "; k3 = exp(d) - d - 1, d = log p_old - log p_rollout"),
                Measure::Binary => ("two-outcome divergence", ""),
            };
            let ratio = matches!(measure, Measure::Ratio | Measure::K1);
            let of = match (over, ratio) {
                (Over::Token, _) => "at tokens whose",
                (Over::SequenceMean, true) => "in answers whose geometric mean of",
                (Over::SequenceMean, false) => "in answers whose mean",
                (Over::SequenceSum, true) => "in answers whose product of",
                (Over::SequenceSum, false) => "in answers whose summed",
                (Over::SequenceMax, _) => "in answers whose greatest",
            };
            format!("0 {of} {name} is above {{high}}{low}{meaning}")
        }
        _ => defined("rejection", rule),
    };
    filled(&text, rule)
}

/// The formula as the definition has it.
fn defined<T: Serialize>(part: &str, kind: &T) -> String {
    let kind = crate::preset::kind_of(kind);
    definition(part, &kind).map_or(kind, |definition| definition.formula.to_owned())
}

/// A formula with a kind's options in their holes.
fn filled<T: Serialize>(text: &str, kind: &T) -> String {
    let value = serde_json::to_value(kind).unwrap_or_default();
    let options = value.as_object().into_iter().flatten();
    options.fold(text.to_owned(), |text, (name, value)| put(&text, &format!("{{{name}}}"), value))
}

/// A formula with one value in its hole: `1 - 0.2` is written as the 0.8 that a person wants to read, and a factor or
/// divisor of 1 not at all.
fn put(text: &str, hole: &str, value: &Value) -> String {
    let mut text = text.to_owned();
    if let Some(found) = value.as_f64() {
        for (sign, sum) in [("1 - ", 1.0 - found), ("1 + ", 1.0 + found)] {
            text = text.replace(&format!("{sign}{hole}"), &number(sum));
        }
        if found == 1.0 {
            text = text.replace(&format!("{hole} · "), "").replace(&format!(" / {hole}"), "");
        }
    }
    text.replace(hole, &shown(value))
}

/// `0.5 · `, and nothing for 1: what stands before the second factor of a product.
pub(crate) fn times(factor: f64) -> String {
    if factor == 1.0 { String::new() } else { format!("{} · ", number(factor)) }
}

/// A number as people write it: without the last binary digits of a sum, very small and very large ones with an exponent.
pub(crate) fn number(number: f64) -> String {
    let number: f64 = format!("{number:.11e}").parse().unwrap_or(number);
    match number.abs() {
        0.0 | 1e-3..1e6 => format!("{number}"),
        _ => format!("{number:e}"),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text == "leave-one-out" => "leave-one-out mean".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(found) => found.as_f64().map_or_else(|| found.to_string(), number),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    #[test]
    fn numbers_read_as_in_a_paper() {
        let low = serde_json::json!(3e-4);
        assert_eq!(
            put("clip(r, 1 - {low}, 1 + {low}), 1 - 2 p", "{low}", &low),
            "clip(r, 0.9997, 1.0003), 1 - 2 p"
        );
        let one = serde_json::json!(1.0);
        assert_eq!(put("x + {gamma} · 0.95 · y, z / {gamma}, 1/n", "{gamma}", &one), "x + 0.95 · y, z, 1/n");
        for (found, read) in [(0.1 + 0.2, "0.3"), (1e-7, "1e-7"), (1e6, "1e6"), (0.0, "0"), (-0.5, "-0.5")] {
            assert_eq!(number(found), read);
        }
    }

    #[test]
    fn variants_that_options_choose_are_told_in_words() {
        let read = |text: &str| -> Estimator {
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
        };
        for (text, formula) in [
            (
                r#"{"kind":"group-relative","baseline":"leave-one-out","scale":"none","eps":1e-6,"singleton":"zero"}"#,
                "A_i = r_i - b_i, b the leave-one-out mean of the group",
            ),
            (
                r#"{"kind":"gae","gamma":1.0,"lambda":0.95,"value-lambda":1.0,"steps":"token","gaps":"skip"}"#,
                "A_t = δ_t + 0.95 · A_(t+1), δ_t = ρ_t + V_(t+1) - V_t; the critic learns A + V with λ = 1",
            ),
            (
                r#"{"kind":"normalised","mean":"batch","deviation":"none","leave-one-out":true,"variance":"sample","eps":1e-5}"#,
                "A_i = r_i - mean of the step without r_i",
            ),
            (
                r#"{"kind":"distillation","coefficient":1.0,"rewards":false}"#,
                "A_t = log p_teacher - log p_old",
            ),
        ] {
            assert_eq!(estimator(&read(text)), formula);
        }
        let mismatch =
            |low, over| rejection(&Rejection::Mismatch { measure: Measure::Ratio, over, low, high: 2.0 });
        assert_eq!(mismatch(None, Over::Token), "0 at tokens whose p_old / p_rollout is above 2");
        assert_eq!(
            mismatch(Some(0.5), Over::SequenceMean),
            "0 in answers whose geometric mean of p_old / p_rollout is above 2 or below 0.5"
        );
    }

    /// Every other value that an option may have, by the type of the one it has.
    fn others(name: &str, value: &Value) -> Vec<Value> {
        let words: &[&str] = match name {
            "baseline" => &["mean", "leave-one-out"],
            "scale" => &["group", "others", "batch", "none"],
            "singleton" => &["zero", "reward"],
            "mean" | "deviation" => &["batch", "group", "none"],
            "variance" => &["sample", "population"],
            "gaps" => &["skip", "step"],
            "steps" => &["token", "turn"],
            "alignment" => &["position", "trained"],
            "region" => &["total-variation", "binary-kl", "absolute"],
            "surrogate" => &["detached", "ratio"],
            "level" => &["token", "sequence", "geometric"],
            "measure" => &["ratio", "k1", "k2", "k3", "binary"],
            "over" => &["token", "sequence-mean", "sequence-sum", "sequence-max"],
            "against" => &["old", "rollout"],
            _ => &[],
        };
        match value {
            Value::Bool(flag) => vec![(!flag).into()],
            Value::Number(_) | Value::Null => vec![0.123.into()],
            Value::Array(_) => vec![vec![0.123, 0.456].into()],
            value => words.iter().map(|word| Value::from(*word)).filter(|word| word != value).collect(),
        }
    }

    /// Changes the options of a kind one by one; `absent` are those that a kind may leave out.
    fn told<T: Serialize + DeserializeOwned>(
        all: &[T],
        absent: &[(&str, &str)],
        text: impl Fn(&T) -> String,
    ) {
        for kind in all {
            let plain = text(kind);
            assert!(!plain.contains(['{', '}']), "a hole is left: {plain}");
            let mut value = serde_json::to_value(kind).unwrap_or_default();
            let name = value["kind"].as_str().unwrap_or_default().to_owned();
            for (_, option) in absent.iter().filter(|(of, _)| *of == name) {
                value[*option] = Value::Null;
            }
            let options: Vec<(String, Value)> =
                value.as_object().into_iter().flatten().map(|(n, v)| (n.clone(), v.clone())).collect();
            for (option, usual) in options.iter().filter(|(option, _)| option != "kind") {
                let changed = others(option, usual);
                assert!(!changed.is_empty(), "{name}: no other value is known for `{option}`");
                for other in changed {
                    let mut value = value.clone();
                    value[option.as_str()] = other.clone();
                    let kind: T =
                        serde_json::from_value(value).unwrap_or_else(|e| panic!("{name}.{option}: {e}"));
                    let text = text(&kind);
                    assert_ne!(text, plain, "{name}: `{option} = {other}` is not told");
                    assert!(!text.contains(['{', '}']), "a hole is left: {text}");
                }
            }
        }
    }

    #[test]
    fn every_option_of_every_kind_is_told_where_it_is_not_the_usual_one() {
        told(&Estimator::all(), &[("gae", "value-lambda"), ("gae", "length-adaptive")], estimator);
        told(&Loss::all(), &[("clip", "dual"), ("clip", "cap")], loss);
        told(&Correction::all(), &[], |kind| correction(*kind));
        told(&Rejection::all(), &[("mismatch", "low")], rejection);
        told(&Reduction::all(), &[("seq-mean-token-sum-norm", "length")], |kind| reduction(*kind, 7));
    }
}
