//! What a recipe's task, critic and teacher do, in formulas.

use crate::formula::{number, times};
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
            let (beta, smoothing) = (times(dpo.beta), dpo.label_smoothing);
            let loss = match (dpo.loss, smoothing > 0.0) {
                (DpoLoss::Sigmoid, false) => format!("-log σ({beta}h)"),
                (DpoLoss::Sigmoid, true) => {
                    let (right, wrong) = (times(1.0 - smoothing), times(smoothing));
                    format!("-{right}log σ({beta}h) - {wrong}log σ(-{beta}h)")
                }
                (DpoLoss::Hinge, _) => format!("max(0, 1 - {beta}h)"),
                (DpoLoss::Ipo, _) => format!("(h - {})²", number(0.5 / dpo.beta)),
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
        let value = if critic.huber > 0.0 {
            format!("huber(V - R, {})", number(critic.huber))
        } else {
            "(V - R)²".into()
        };
        let clip = match critic.value_clip > 0.0 {
            true => format!(
                ", or that of V kept within {} of its old value, whichever is larger",
                number(critic.value_clip)
            ),
            false => String::new(),
        };
        lines.push(("critic", format!("½ {value}{clip}; mean over tokens; R = A + V, the returns")));
        let updates = critic.epochs * critic.minibatches;
        let plural = if updates == 1 { "update" } else { "updates" };
        let alone = match critic.critic_only_steps {
            0 => String::new(),
            1 => "; alone in the first step".to_owned(),
            steps => format!("; alone for the first {steps} steps"),
        };
        let text = format!("{updates} {plural} per step, learning rate {:e}{alone}", critic.learning_rate);
        lines.push(("", text));
    }
    if let Some(loss) = recipe.teacher.as_ref().and_then(|teacher| teacher.loss.as_ref()) {
        let divergence = match loss.divergence {
            TeacherDivergence::Reverse => "KL(π || teacher)".to_owned(),
            TeacherDivergence::Forward => "KL(teacher || π)".to_owned(),
            TeacherDivergence::Jensen => {
                let (beta, rest) = (number(loss.beta), number(1.0 - loss.beta));
                format!(
                    "[{beta} · KL(teacher || M) + {rest} · KL(π || M)], M = {beta} · teacher + {rest} · π"
                )
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
        lines.push(("teacher", format!("{}{divergence}, {over}; {how}", times(loss.coefficient))));
    }
    lines
}
