//! What a recipe's task, critic and teacher do, in formulas.

use crate::section::{DpoLoss, Recipe, RestOfTokens, Task, TeacherDivergence, TopTokens, Turns};

/// Lines of name and text; of a task other than "rl" all there is to say about its loss.
pub fn explain(recipe: &Recipe) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    match recipe.task {
        Task::Rl => {}
        Task::Sft => {
            let turns = recipe.sft.as_ref().map_or(Turns::All, |sft| sft.turns);
            let which = if turns == Turns::All { "all turns" } else { "the last turn" };
            lines.push((
                "loss",
                format!("-log π(token), mean over the tokens of {which} of the assistant in the batch"),
            ));
        }
        Task::Dpo => {
            let dpo = recipe.dpo.clone().unwrap_or_default();
            let (beta, smoothing) = (dpo.beta, dpo.label_smoothing);
            let loss = match (dpo.loss, smoothing > 0.0) {
                (DpoLoss::Sigmoid, false) => format!("-log σ({beta} h)"),
                (DpoLoss::Sigmoid, true) => {
                    format!("-{} log σ({beta} h) - {smoothing} log σ(-{beta} h)", 1.0 - smoothing)
                }
                (DpoLoss::Hinge, _) => format!("max(0, 1 - {beta} h)"),
                (DpoLoss::Ipo, _) => format!("(h - {})²", 0.5 / beta),
            };
            let of =
                if dpo.loss == DpoLoss::Ipo { "mean log-probability of a token" } else { "log-probability" };
            let h = "h = [log π(chosen) - log π_ref(chosen)] - [log π(rejected) - log π_ref(rejected)]";
            lines.push(("loss", format!("{loss}, mean over pairs\n{h}, each the {of} of the answer")));
        }
        Task::RewardModel => {
            let text = "-log σ(score(chosen) - score(rejected)), mean over pairs\nscore = w · hidden state of the last token";
            lines.push(("loss", text.to_owned()));
        }
    }
    if let Some(critic) = &recipe.critic {
        let value =
            if critic.huber > 0.0 { format!("huber(V - R, {})", critic.huber) } else { "(V - R)²".into() };
        let clip = match critic.value_clip > 0.0 {
            true => format!(
                ", or that of V kept within {} of its old value, whichever is larger",
                critic.value_clip
            ),
            false => String::new(),
        };
        lines.push(("critic", format!("½ {value}{clip}; mean over tokens; R = A + V by `value-lambda`")));
        let updates = critic.epochs * critic.minibatches;
        lines.push((
            "",
            format!(
                "{updates} updates per step, learning rate {:e}; alone for the first {} steps",
                critic.learning_rate, critic.critic_only_steps
            ),
        ));
    }
    if let Some(loss) = recipe.teacher.as_ref().and_then(|teacher| teacher.loss.as_ref()) {
        let divergence = match loss.divergence {
            TeacherDivergence::Reverse => "KL(π || teacher)".to_owned(),
            TeacherDivergence::Forward => "KL(teacher || π)".to_owned(),
            TeacherDivergence::Jensen => {
                let beta = loss.beta;
                let rest = 1.0 - beta;
                format!("{beta} KL(teacher || M) + {rest} KL(π || M),  M = {beta} teacher + {rest} π")
            }
        };
        let over = match (loss.top_k, loss.tokens) {
            (0, _) => "over the whole vocabulary".to_owned(),
            (k, tokens) => {
                let whose = if tokens == TopTokens::Teacher { "teacher" } else { "policy" };
                let rest = match loss.rest {
                    RestOfTokens::Bin => "the rest as one more outcome",
                    RestOfTokens::Renormalise => "without the rest",
                    RestOfTokens::Drop => "the rest left out",
                };
                format!("over the {k} likeliest tokens of the {whose}, {rest}")
            }
        };
        let how = if recipe.teacher_alone() { "the whole loss" } else { "added to the loss" };
        lines.push(("teacher", format!("{} · {divergence}, {over}; {how}", loss.coefficient)));
    }
    lines
}
