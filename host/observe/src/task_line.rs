//! The one line that a step leaves on the terminal where nothing is sampled.

use crate::sparkline;
use crate::step_line::short;

/// Width of the curve, in bars.
const CURVE: usize = 10;

/// What the line says.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskLine<'a> {
    /// This step, counted from 1.
    pub step: u64,
    /// The run's last step.
    pub steps: u64,
    /// The loss of every step so far, this one last.
    pub losses: &'a [f64],
    /// One more number, with its name.
    pub number: (&'a str, f64),
    /// Seconds of the step.
    pub seconds: f64,
}

/// Renders the line; `colour` adds ANSI codes. A loss that falls is green.
pub fn task_line(line: &TaskLine<'_>, colour: bool) -> String {
    let loss = line.losses.last().copied().unwrap_or(f64::NAN);
    let before = line.losses.len().checked_sub(2).map(|i| line.losses[i]);
    let delta = before.map_or(f64::NAN, |b| loss - b);
    let sign = if delta < 0.0 { "" } else { "+" };
    let delta_text = if delta.is_finite() { format!("({sign}{})", short(delta, 3)) } else { " ".repeat(8) };
    let loss_text = format!("{:>7}", short(loss, 3));
    let (loss_text, delta_text) = if colour {
        let hue = if delta > 0.0005 { "31" } else { "32" };
        (format!("\u{1b}[1m{loss_text}\u{1b}[0m"), format!("\u{1b}[{hue}m{delta_text}\u{1b}[0m"))
    } else {
        (loss_text, delta_text)
    };
    let curve = sparkline(line.losses, CURVE);
    let pad = " ".repeat(CURVE.saturating_sub(curve.chars().count()));
    let width = line.steps.to_string().len();
    let (name, number) = line.number;
    format!(
        "  step {:>width$}/{}  {curve}{pad}  loss {loss_text} {delta_text}  {name} {}  {:>4.1} s",
        line.step,
        line.steps,
        short(number, 3),
        line.seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_whose_columns_keep_their_place() {
        let line = |losses: &[f64]| {
            let line = TaskLine {
                step: losses.len() as u64,
                steps: 60,
                losses,
                number: ("perplexity", 10.074),
                seconds: 1.24,
            };
            task_line(&line, false)
        };
        assert_eq!(
            line(&[3.0, 2.5, 2.31]),
            "  step  3/60  █▃▁         loss   2.310 (-0.190)  perplexity 10.074   1.2 s"
        );
        assert_eq!(line(&[3.0]).chars().count(), line(&[3.0, 2.5]).chars().count());
    }
}
