//! The one line that a step leaves on the terminal.

use crate::sparkline;

/// Width of the curve, in bars.
const CURVE: usize = 10;

/// What the line says.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLine {
    /// This step, counted from 1.
    pub step: u64,
    /// The run's last step.
    pub steps: u64,
    /// Mean reward of every step so far, this one last.
    pub rewards: Vec<f64>,
    /// Mean KL estimate against the reference, where the loss has one, else against the rollout policy.
    pub kl: f64,
    /// Groups trained on and groups sampled, where dynamic sampling makes them differ.
    pub groups: Option<[usize; 2]>,
    /// Mean response length in tokens.
    pub length: f64,
    /// Seconds in all, then in rollout, in reward calls that rollout did not hide, in training.
    pub seconds: [f64; 4],
}

/// Renders the line; `colour` adds ANSI codes.
pub fn step_line(line: &StepLine, colour: bool) -> String {
    let reward = line.rewards.last().copied().unwrap_or(f64::NAN);
    let before = line.rewards.len().checked_sub(2).map(|i| line.rewards[i]);
    let delta = before.map_or(f64::NAN, |b| reward - b);
    // The parenthesis keeps its place on the first step, so that columns stay aligned.
    let sign = if delta < 0.0 { "" } else { "+" };
    let delta_text = if delta.is_finite() { format!("({sign}{})", short(delta, 2)) } else { " ".repeat(7) };
    let reward_text = format!("{:>5}", short(reward, 2));
    let (reward_text, delta_text) = if colour {
        let hue = if delta < -0.005 { "31" } else { "32" };
        (format!("\u{1b}[1m{reward_text}\u{1b}[0m"), format!("\u{1b}[{hue}m{delta_text}\u{1b}[0m"))
    } else {
        (reward_text, delta_text)
    };
    // Adding 0 turns a negative zero, which would print its sign, into a plain one.
    let kl = short((line.kl * 1000.0).round() / 1000.0 + 0.0, 3);
    let curve = sparkline(&line.rewards, CURVE);
    let pad = " ".repeat(CURVE.saturating_sub(curve.chars().count()));
    let groups = line.groups.map_or_else(String::new, |[used, all]| format!("  groups {used}/{all:<3}"));
    let width = line.steps.to_string().len();
    let [all, rollout, scoring, train] = line.seconds;
    let split = format!("(rollout {rollout:.1} · reward {scoring:.2} · train {train:.1})");
    let split = if colour { format!("\u{1b}[2m{split}\u{1b}[0m") } else { split };
    format!(
        "  step {:>width$}/{}  {curve}{pad}  reward {reward_text} {delta_text}  kl {kl}{groups}  len {:>3.0}  {all:>4.1} s  {split}",
        line.step, line.steps, line.length,
    )
}

/// A number as a column holds it: `-` where there is none, and powers of ten where it would fill the line.
pub(crate) fn short(number: f64, decimals: usize) -> String {
    match number {
        n if n.is_nan() => "-".to_owned(),
        n if n.abs() < 1e6 => format!("{n:.decimals$}"),
        n => format!("{n:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u64, rewards: &[f64]) -> StepLine {
        let seconds = [8.9, 3.9, 0.01, 4.7];
        StepLine {
            step,
            steps: 60,
            rewards: rewards.to_vec(),
            kl: 0.0041,
            groups: None,
            length: 21.2,
            seconds,
        }
    }

    #[test]
    fn a_step_is_one_line_as_people_know_it() {
        let text = step_line(&line(12, &[0.1, 0.3, 0.59, 0.61]), false);
        assert_eq!(
            text,
            "  step 12/60  ▁▄██        reward  0.61 (+0.02)  kl 0.004  len  21   8.9 s  (rollout 3.9 · reward 0.01 · train 4.7)"
        );
    }

    #[test]
    fn steps_are_aligned_from_the_first_on() {
        let column = |text: String| text.chars().take_while(|c| *c != 'k').count();
        assert_eq!(
            column(step_line(&line(1, &[0.1]), false)),
            column(step_line(&line(12, &[0.1, 0.2]), false))
        );
    }

    #[test]
    fn a_reward_below_zero_and_a_tiny_kl_keep_the_columns() {
        let below = StepLine { kl: -1e-7, ..line(3, &[-0.2, -0.1]) };
        let above = line(3, &[0.2, 0.1]);
        let [below, above] = [below, above].map(|l| step_line(&l, false));
        assert!(below.contains("kl 0.000"), "{below}");
        assert_eq!(below.chars().count(), above.chars().count());
    }

    #[test]
    fn numbers_that_are_none_or_beyond_all_measure_stay_short() {
        let none = step_line(&StepLine { kl: f64::NAN, ..line(1, &[f64::NAN]) }, false);
        assert!(none.contains("reward     -  ") && none.contains("kl -  "), "{none}");
        let huge = step_line(&line(2, &[1.0, -1e300]), false);
        assert!(huge.contains("reward -1.0e300 (-1.0e300)"), "{huge}");
    }

    #[test]
    fn with_dynamic_sampling_the_line_says_how_many_groups_it_took() {
        let text = step_line(&StepLine { groups: Some([8, 21]), ..line(2, &[0.5, 0.4]) }, false);
        assert!(text.contains("groups 8/21"), "{text}");
    }

    #[test]
    fn without_colour_there_is_no_escape_code() {
        assert!(!step_line(&line(2, &[0.5, 0.4]), false).contains('\u{1b}'));
        assert!(step_line(&line(2, &[0.5, 0.4]), true).contains("\u{1b}[31m"));
    }
}
