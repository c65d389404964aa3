//! Curves of runs as an SVG picture: one panel per metric, one curve per run.
//!
//! The same numbers give the same bytes, so that a picture in a repository changes only with its run.

use crate::MetricsLine;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Width of a picture, in pixels.
const WIDTH: u32 = 760;
/// Height of one panel.
const HEIGHT: u32 = 300;

/// Colours that are told apart by people with any colour vision, on white and on dark pages (Okabe and Ito 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// One metric of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The run, as the legend names it.
    pub label: String,
    /// Step and value, in the order of the steps; finite.
    pub points: Vec<(f64, f64)>,
}

/// One metric of several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The metric's name.
    pub metric: String,
    /// One per run.
    pub curves: Vec<Curve>,
}

/// A picture could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// No curve has a point.
    #[error("`{metric}` has no value that can be drawn")]
    Empty {
        /// The metric.
        metric: String,
    },
    /// The drawing library failed.
    #[error("the picture cannot be drawn: {0}")]
    Drawing(String),
}

/// The values of `metric` in a run's lines. Of a step that a resumed run did again, the last counts; numbers
/// that are not finite are left out.
pub fn curve(label: &str, lines: &[MetricsLine], metric: &str) -> Curve {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for line in lines {
        let Some(value) = line.metrics.get(metric) else { continue };
        let step = line.step as f64;
        while points.last().is_some_and(|(other, _)| *other >= step) {
            points.pop();
        }
        points.push((step, *value));
    }
    points.retain(|(_, value)| value.is_finite());
    Curve { label: label.to_owned(), points }
}

/// The running mean over the last `window` points, fewer at the start.
pub fn smoothed(points: &[(f64, f64)], window: usize) -> Vec<(f64, f64)> {
    let mean = |i: usize| {
        let part = &points[(i + 1).saturating_sub(window.max(1))..=i];
        part.iter().map(|(_, value)| value).sum::<f64>() / part.len() as f64
    };
    points.iter().enumerate().map(|(i, (step, _))| (*step, mean(i))).collect()
}

/// Draws the panels below each other. With a `window` above 1 the running means are drawn, over the pale
/// values themselves.
pub fn svg(panels: &[Panel], window: usize) -> Result<String, PlotError> {
    let mut text = String::new();
    {
        let size = (WIDTH, HEIGHT * panels.len().max(1) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        for (panel, area) in panels.iter().zip(area.split_evenly((panels.len().max(1), 1))) {
            draw(panel, window, &area)?;
        }
        area.present().map_err(drawing)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(panel: &Panel, window: usize, area: &Area<'_>) -> Result<(), PlotError> {
    let all = || panel.curves.iter().flat_map(|curve| &curve.points);
    let (x, y) = match (range(all().map(|(x, _)| *x)), range(all().map(|(_, y)| *y))) {
        (Some(x), Some(y)) => (x, y),
        _ => return Err(PlotError::Empty { metric: panel.metric.clone() }),
    };
    let room = (y.1 - y.0).max(1e-9) * 0.05;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.metric, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(64)
        .build_cartesian_2d(x.0..x.1.max(x.0 + 1.0), y.0 - room..y.1 + room)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .axis_style(BLACK.mix(0.4))
        .label_style(("sans-serif", 12))
        .x_desc("step")
        .x_label_formatter(&|step| number(*step))
        .y_label_formatter(&|value| number(*value))
        .draw()
        .map_err(drawing)?;
    for (curve, colour) in panel.curves.iter().zip(COLOURS.iter().cycle()) {
        if window > 1 {
            let pale = LineSeries::new(curve.points.iter().copied(), colour.mix(0.25));
            chart.draw_series(pale).map_err(drawing)?;
        }
        let line = LineSeries::new(smoothed(&curve.points, window), colour.stroke_width(2));
        let drawn = chart.draw_series(line).map_err(drawing)?;
        let colour = *colour;
        drawn
            .label(&curve.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    if panel.curves.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 12))
            .draw()
            .map_err(drawing)?;
    }
    Ok(())
}

/// Smallest and largest; `None` without values.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// A number as an axis shows it: as few digits as tell neighbours apart.
fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 1e5 || (size > 0.0 && size < 1e-3) => return format!("{value:.1e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn drawing(error: impl std::fmt::Display) -> PlotError {
    PlotError::Drawing(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    fn line(step: u64, value: f64) -> MetricsLine {
        MetricsLine { step, time: 0.0, metrics: Metrics::from([("reward/mean".to_owned(), value)]) }
    }

    #[test]
    fn a_step_that_was_done_again_counts_once_and_nan_is_no_point() {
        let lines = [line(1, 0.1), line(2, 0.2), line(3, 0.9), line(2, 0.3), line(3, f64::NAN), line(4, 0.4)];
        let curve = curve("run", &lines, "reward/mean");
        assert_eq!(curve.points, [(1.0, 0.1), (2.0, 0.3), (4.0, 0.4)]);
    }

    #[test]
    fn the_running_mean_looks_back_only() {
        let points = [(1.0, 0.0), (2.0, 2.0), (3.0, 4.0)];
        assert_eq!(smoothed(&points, 2), [(1.0, 0.0), (2.0, 1.0), (3.0, 3.0)]);
        assert_eq!(smoothed(&points, 1), points);
    }

    #[test]
    fn a_picture_has_a_panel_per_metric_and_a_name_per_run() {
        let curve = |label: &str, top: f64| Curve {
            label: label.into(),
            points: (1..=20).map(|i| (f64::from(i), f64::from(i) / 20.0 * top)).collect(),
        };
        let panel = |metric: &str| Panel {
            metric: metric.into(),
            curves: vec![curve("grpo", 1.0), curve("dapo <1>", 0.5)],
        };
        let text = svg(&[panel("reward/mean"), panel("loss/kl")], 5).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        for part in ["reward/mean", "loss/kl", "grpo", "dapo &lt;1&gt;", "step"] {
            assert!(text.contains(part), "{part} is missing");
        }
        // Per panel: two pale curves and two running means.
        assert!(text.matches("<polyline").count() >= 8);
        assert_eq!(svg(&[panel("reward/mean")], 5).unwrap(), svg(&[panel("reward/mean")], 5).unwrap());
    }

    #[test]
    fn a_flat_curve_and_a_single_point_are_drawn_and_none_is_an_error() {
        let panel = |points: Vec<(f64, f64)>| Panel {
            metric: "m".into(),
            curves: vec![Curve { label: "run".into(), points }],
        };
        assert!(svg(&[panel(vec![(1.0, 0.5)])], 1).is_ok());
        assert!(svg(&[panel(vec![(1.0, 0.5), (2.0, 0.5)])], 1).is_ok());
        assert!(matches!(svg(&[panel(Vec::new())], 1), Err(PlotError::Empty { .. })));
    }

    #[test]
    fn axes_show_short_numbers() {
        let shown = [0.0, 0.25, 1.0, 150.0, 2e6, 2e-5, -0.5].map(number);
        assert_eq!(shown, ["0", "0.25", "1", "150", "2.0e6", "2.0e-5", "-0.5"]);
    }
}
