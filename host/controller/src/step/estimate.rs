//! From rewards to advantages by the recipe's estimator; knows nothing of plugins or of the trainer.
//!
//! Estimators of outcomes give every token of an answer the same advantage; the others work token by
//! token. All read the same columns.

use whet_algorithm::group::{batch_relative, gpg, group_relative_trimmed, max_rl, opo, pass_at_k};
use whet_algorithm::tokens::{Gae, distil, length_adaptive_lambda, remax, returns, terminal_rewards};
use whet_algorithm::{
    Alignment, Baseline, Normalisation, Scale, Singleton, Span, Trajectory, Variance, gdpo, group_relative,
    optimal_token_baseline,
};
use whet_recipe::{self as recipe, Estimator};

/// An answer with a score. Its scores count in its group, whether or not it is trained on.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Number of its prompt's group.
    pub group: u32,
    /// Its reward, shaped.
    pub reward: f64,
    /// The reward's parts, where the estimator normalises each by itself; NaN where it has none.
    pub components: Vec<f64>,
    /// The reward of the greedy answer to its prompt, where the estimator compares with that.
    pub greedy: f64,
    /// Tokens of the answer.
    pub length: usize,
    /// What is known of its tokens, if it is trained on.
    pub tokens: Option<Tokens>,
}

/// What is known of an answer's tokens; lists have one entry each, or none where nobody reads them.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// Which were sampled.
    pub mask: Vec<bool>,
    /// What the reward loses at each by the divergence from the reference, in units of reward.
    pub penalty: Vec<f64>,
    /// Log-probability under the trainer before the update.
    pub log_prob: Vec<f64>,
    /// `Σ p²` of the distribution each was drawn from.
    pub squares: Vec<f64>,
    /// The critic's values.
    pub values: Vec<f64>,
    /// Log-probability under the teacher.
    pub teacher: Vec<f64>,
}

/// Advantages by answer and token, and what a critic learns; empty for answers that are not trained on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// One per token.
    pub advantages: Vec<Vec<f64>>,
    /// The values that a critic should have had; empty without one.
    pub returns: Vec<Vec<f64>>,
}

/// Applies the estimator to the answers of a step; `weights` has one factor per component.
pub fn estimate(estimator: &Estimator, answers: &[Answer], weights: &[f64]) -> Estimate {
    let plain = |advantages| Estimate { advantages, returns: Vec::new() };
    match *estimator {
        Estimator::Returns { gamma, gaps } => plain(each(answers, |answer, tokens| {
            returns(&token_rewards(answer, tokens), gap_mask(tokens, gaps), gamma)
        })),
        Estimator::Remax => plain(each(answers, |answer, tokens| {
            remax(&token_rewards(answer, tokens), &tokens.mask, answer.greedy)
        })),
        Estimator::Gae { gamma, lambda, value_lambda, length_adaptive, steps, gaps } => {
            let with = |answer: &Answer, tokens: &Tokens, lambda: f64| {
                let gae = Gae { gamma, lambda, bootstrap: 0.0 };
                let rewards = token_rewards(answer, tokens);
                match steps {
                    recipe::GaeSteps::Token => {
                        gae.advantages(&rewards, &tokens.values, gap_mask(tokens, gaps))
                    }
                    recipe::GaeSteps::Turn => {
                        gae.turn_advantages(&rewards, &tokens.values, &turns(&tokens.mask))
                    }
                }
            };
            let of_policy = |answer: &Answer, tokens: &Tokens| {
                let trained = tokens.mask.iter().filter(|&&m| m).count();
                with(answer, tokens, length_adaptive.map_or(lambda, |a| length_adaptive_lambda(a, trained)))
            };
            let of_critic = |answer: &Answer, tokens: &Tokens| {
                let advantages = match value_lambda {
                    Some(lambda) => with(answer, tokens, lambda),
                    None => of_policy(answer, tokens),
                };
                advantages.iter().zip(&tokens.values).map(|(a, v)| a + v).collect()
            };
            Estimate { advantages: each(answers, of_policy), returns: each(answers, of_critic) }
        }
        Estimator::Otb { alignment, zero_tail, eps } => plain(otb(answers, alignment, zero_tail, eps)),
        Estimator::Distillation { coefficient, rewards } => {
            let base = match rewards {
                true => broadcast(answers, &outcome(&Estimator::group_relative(), answers, weights)),
                false => each(answers, |_, tokens| vec![0.0; tokens.mask.len()]),
            };
            let one = |(answer, base): (&Answer, Vec<f64>)| match &answer.tokens {
                Some(tokens) => distil(&base, &tokens.log_prob, &tokens.teacher, coefficient),
                None => base,
            };
            plain(answers.iter().zip(base).map(one).collect())
        }
        _ => plain(broadcast(answers, &outcome(estimator, answers, weights))),
    }
}

/// Advantages of whole answers, by the estimators that know no tokens.
fn outcome(estimator: &Estimator, answers: &[Answer], weights: &[f64]) -> Vec<f64> {
    let groups: Vec<u32> = answers.iter().map(|a| a.group).collect();
    let rewards: Vec<f64> = answers.iter().map(Answer::outcome).collect();
    match *estimator {
        Estimator::GroupRelative { baseline, scale: over, eps, singleton: alone } => {
            group_relative(&rewards, &groups, base(baseline), scale(over, eps), singleton(alone))
        }
        Estimator::GroupTrimmed { trim, eps } => group_relative_trimmed(&rewards, &groups, trim, eps),
        Estimator::BatchRelative { eps } => batch_relative(&rewards, eps),
        Estimator::Normalised { mean, deviation, leave_one_out, variance, eps } => Normalisation {
            mean: span(mean),
            leave_one_out,
            deviation: span(deviation),
            variance: match variance {
                recipe::Variance::Sample => Variance::Sample,
                recipe::Variance::Population => Variance::Population,
            },
            eps,
        }
        .apply(&rewards, &vec![true; rewards.len()], &groups),
        Estimator::Opo { singleton: alone } => {
            let lengths: Vec<usize> = answers.iter().map(|a| a.length).collect();
            opo(&rewards, &lengths, &groups, singleton(alone))
        }
        Estimator::Gpg { norm, singleton: alone } => gpg(&rewards, &groups, norm, singleton(alone)),
        Estimator::PassAtK { scale: over, eps } => pass_at_k(&rewards, &groups, scale(over, eps)),
        Estimator::MaxRl => max_rl(&rewards, &groups),
        Estimator::Gdpo { baseline, eps, batch_eps } => {
            let column = |k: usize| answers.iter().map(|a| a.components[k]).collect::<Vec<f64>>();
            let columns: Vec<Vec<f64>> = (0..weights.len()).map(column).collect();
            gdpo(&columns, weights, &groups, base(baseline), eps, batch_eps)
        }
        Estimator::Returns { .. }
        | Estimator::Remax
        | Estimator::Gae { .. }
        | Estimator::Otb { .. }
        | Estimator::Distillation { .. } => vec![0.0; answers.len()],
    }
}

fn otb(answers: &[Answer], alignment: recipe::Alignment, zero_tail: bool, eps: f64) -> Vec<Vec<f64>> {
    let (trajectories, groups): (Vec<Trajectory>, Vec<u32>) = answers
        .iter()
        .filter_map(|answer| {
            let tokens = answer.tokens.as_ref()?;
            let trajectory = Trajectory {
                rewards: token_rewards(answer, tokens),
                mask: tokens.mask.clone(),
                old: tokens.log_prob.clone(),
                squares: tokens.squares.clone(),
                weights: None,
            };
            Some((trajectory, answer.group))
        })
        .unzip();
    let alignment = match alignment {
        recipe::Alignment::Position => Alignment::Position,
        recipe::Alignment::Trained => Alignment::Trained,
    };
    let (advantages, _) = optimal_token_baseline(&trajectories, &groups, alignment, zero_tail, eps);
    let mut found = advantages.into_iter();
    answers.iter().map(|a| a.tokens.as_ref().and_then(|_| found.next()).unwrap_or_default()).collect()
}

impl Answer {
    /// The reward of the whole answer, less its tokens' penalties.
    fn outcome(&self) -> f64 {
        self.reward - self.tokens.as_ref().map_or(0.0, |t| t.penalty.iter().sum())
    }
}

/// The reward on the last sampled token, and every token's penalty.
fn token_rewards(answer: &Answer, tokens: &Tokens) -> Vec<f64> {
    let penalty = (!tokens.penalty.is_empty()).then_some(&tokens.penalty[..]);
    terminal_rewards(answer.reward, penalty, 1.0, &tokens.mask)
}

fn each(answers: &[Answer], formula: impl Fn(&Answer, &Tokens) -> Vec<f64>) -> Vec<Vec<f64>> {
    answers.iter().map(|a| a.tokens.as_ref().map_or_else(Vec::new, |tokens| formula(a, tokens))).collect()
}

fn broadcast(answers: &[Answer], advantages: &[f64]) -> Vec<Vec<f64>> {
    let one = |(answer, advantage): (&Answer, &f64)| {
        vec![*advantage; answer.tokens.as_ref().map_or(0, |tokens| tokens.mask.len())]
    };
    answers.iter().zip(advantages).map(one).collect()
}

fn gap_mask(tokens: &Tokens, gaps: recipe::Gaps) -> Option<&[bool]> {
    (gaps == recipe::Gaps::Skip).then_some(&tokens.mask[..])
}

/// The turn of every sampled token: a run of them without others between.
fn turns(mask: &[bool]) -> Vec<Option<u32>> {
    let mut turn = 0;
    let next = |t: usize| {
        turn += u32::from(mask[t] && t > 0 && !mask[t - 1]);
        mask[t].then_some(turn)
    };
    (0..mask.len()).map(next).collect()
}

fn base(baseline: recipe::Baseline) -> Baseline {
    match baseline {
        recipe::Baseline::Mean => Baseline::Mean,
        recipe::Baseline::LeaveOneOut => Baseline::LeaveOneOut,
    }
}

fn scale(scale: recipe::Scale, eps: f64) -> Scale {
    match scale {
        recipe::Scale::Group => Scale::Group { eps },
        recipe::Scale::Others => Scale::Others { eps },
        recipe::Scale::Batch => Scale::Batch { eps },
        recipe::Scale::None => Scale::None,
    }
}

fn singleton(singleton: recipe::Singleton) -> Singleton {
    match singleton {
        recipe::Singleton::Zero => Singleton::Zero,
        recipe::Singleton::Reward => Singleton::Reward,
    }
}

fn span(span: recipe::Span) -> Option<Span> {
    match span {
        recipe::Span::Batch => Some(Span::Batch),
        recipe::Span::Group => Some(Span::Group),
        recipe::Span::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups of two answers with three tokens each, of which the middle one was not sampled.
    fn answers() -> Vec<Answer> {
        let tokens = || Tokens {
            mask: vec![true, false, true],
            log_prob: vec![-1.0; 3],
            squares: vec![0.3; 3],
            values: vec![0.25, 9.0, 0.5],
            teacher: vec![-0.5; 3],
            ..Tokens::default()
        };
        [1.0, 0.0, 0.5, 1.0]
            .iter()
            .enumerate()
            .map(|(n, &reward)| Answer {
                group: n as u32 / 2,
                reward,
                components: vec![reward, 1.0 - reward],
                greedy: 0.25,
                length: 2 + n,
                tokens: Some(tokens()),
            })
            .collect()
    }

    #[test]
    fn for_every_estimator_each_trained_answer_gets_a_finite_advantage_per_token() {
        for estimator in Estimator::all() {
            let mut answers = answers();
            answers[3].tokens = None;
            let found = estimate(&estimator, &answers, &[1.0, 0.5]);
            let lengths: Vec<usize> = found.advantages.iter().map(Vec::len).collect();
            assert_eq!(lengths, [3, 3, 3, 0], "{estimator:?}");
            let finite = found.advantages.iter().flatten().all(|a| a.is_finite());
            assert!(finite, "{estimator:?}: {found:?}");
            let learns = found.advantages.iter().flatten().any(|a| *a != 0.0);
            assert!(learns, "{estimator:?}");
        }
    }

    #[test]
    fn an_answer_that_is_not_trained_on_still_counts_in_its_group() {
        let mut answers = answers();
        answers[1].tokens = None;
        let found = estimate(&Estimator::group_relative(), &answers, &[]);
        assert!((found.advantages[0][0] - 0.5f64.sqrt()).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn a_penalty_reaches_outcomes_as_its_sum_and_returns_where_it_lies() {
        let mut answers = answers();
        if let Some(tokens) = &mut answers[0].tokens {
            tokens.penalty = vec![0.1, 0.0, 0.3];
        }
        let gaps = recipe::Gaps::Skip;
        let returns = estimate(&Estimator::Returns { gamma: 1.0, gaps }, &answers, &[]).advantages;
        let expected = [1.0 - 0.4, 0.0, 1.0 - 0.3];
        assert!(returns[0].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{returns:?}");
        let none = Estimator::GroupRelative {
            baseline: recipe::Baseline::Mean,
            scale: recipe::Scale::None,
            eps: 0.0,
            singleton: recipe::Singleton::Zero,
        };
        let outcome = estimate(&none, &answers, &[]).advantages;
        assert!((outcome[0][0] - 0.3).abs() < 1e-12, "{outcome:?}");
    }

    #[test]
    fn a_turn_is_what_was_sampled_without_a_gap() {
        let mask = [false, true, true, false, true];
        assert_eq!(turns(&mask), [None, Some(1), Some(1), None, Some(2)]);
    }

    #[test]
    fn the_critic_learns_with_its_own_decay() {
        let gae = |value_lambda| Estimator::Gae {
            gamma: 1.0,
            lambda: 0.0,
            value_lambda,
            length_adaptive: None,
            steps: recipe::GaeSteps::Token,
            gaps: recipe::Gaps::Skip,
        };
        let found = estimate(&gae(Some(1.0)), &answers(), &[]);
        assert!((found.advantages[0][0] - 0.25).abs() < 1e-12 && (found.returns[0][0] - 1.0).abs() < 1e-12);
        let same = estimate(&gae(None), &answers(), &[]);
        assert!((same.returns[0][0] - 0.5).abs() < 1e-12, "{same:?}");
    }
}
