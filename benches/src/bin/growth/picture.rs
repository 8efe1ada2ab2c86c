//! The curves as a picture.

use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;
use superstep_benches::Error;

use crate::measure::{Curve, Point};

const SIZE: (u32, u32) = (1200, 1240);
const FONT: &str = "sans-serif";
/// Told apart by people who see colours in other ways, too (Okabe and Ito).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// A line through the points of a curve.
struct Line<'a> {
    label: String,
    color: RGBColor,
    points: Vec<(f64, f64)>,
    curve: &'a Curve,
}

/// What a chart shows.
struct Chart<'a> {
    title: String,
    unit: &'a str,
    lines: Vec<Line<'a>>,
    /// A thin line to compare with.
    ideal: Option<(String, Vec<(f64, f64)>)>,
}

/// Draws stored bytes, and the processor time of a turn, by the number of turns; both axes logarithmic.
pub(crate) fn draw(file: &Path, curves: &[Curve]) -> Result<(), Error> {
    let Some(first) = curves.first() else {
        return Ok(());
    };
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (above, below) = root.split_vertically(SIZE.1 * 55 / 100);
    let ideal = first
        .points
        .iter()
        .map(|point| (point.turns as f64, point.payload as f64));
    let about = format!(
        "{:?}, {} bytes each, {:?}",
        first.state, first.payload, first.saver
    );
    let bytes = Chart {
        title: format!("What a thread stores ({about})"),
        unit: "stored bytes",
        lines: match curves {
            [alone] => by_kind(alone),
            curves => lines(
                curves,
                |point| point.sizes.total() as f64,
                |curve| {
                    let factor = curve
                        .points
                        .last()
                        .map_or(0.0, |last| last.sizes.total() as f64 / last.payload as f64);
                    format!("{}: {factor:.1} times the text", curve.policy)
                },
            ),
        },
        ideal: Some(("the text itself".into(), ideal.collect())),
    };
    chart(&above, &bytes)?;
    let time = Chart {
        title: "What a turn costs".into(),
        unit: "processor time of a turn, µs",
        lines: lines(
            curves,
            |point| point.cpu_us,
            |curve| {
                let last = curve.points.last().map_or(0.0, |last| last.cpu_us);
                format!("{}: {last:.0} µs at the end", curve.policy)
            },
        ),
        ideal: None,
    };
    chart(&below, &time)?;
    root.present()?;
    Ok(())
}

fn lines<'a>(
    curves: &'a [Curve],
    value: impl Fn(&Point) -> f64,
    label: impl Fn(&Curve) -> String,
) -> Vec<Line<'a>> {
    let lines = curves.iter().zip(COLORS.iter().cycle());
    lines
        .map(|(curve, color)| Line {
            label: label(curve),
            color: *color,
            points: curve
                .points
                .iter()
                .map(|point| (point.turns as f64, value(point)))
                .collect(),
            curve,
        })
        .collect()
}

/// One figure of a point.
type Measure = fn(&Point) -> u64;

fn by_kind(curve: &Curve) -> Vec<Line<'_>> {
    let kinds: [(&str, Measure); 5] = [
        ("all", |point| point.sizes.total()),
        ("values and snapshots", |point| point.sizes.values),
        ("writes", |point| point.sizes.logs),
        ("headers", |point| point.sizes.headers),
        ("tasks", |point| point.sizes.tasks),
    ];
    let lines = kinds.iter().zip(COLORS);
    lines
        .map(|((label, value), color)| {
            let points = curve
                .points
                .iter()
                .map(|point| (point.turns as f64, value(point) as f64));
            Line {
                label: format!("{}: {label}", curve.policy),
                color,
                points: points.filter(|(_, value)| *value > 0.0).collect(),
                curve,
            }
        })
        .collect()
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    shown: &Chart<'_>,
) -> Result<(), Error> {
    let ideal = shown.ideal.iter().flat_map(|(_, points)| points);
    let all: Vec<(f64, f64)> = shown
        .lines
        .iter()
        .flat_map(|line| &line.points)
        .chain(ideal)
        .copied()
        .collect();
    let turns = shown
        .lines
        .iter()
        .flat_map(|line| &line.curve.points)
        .map(|point| point.turns as f64);
    let end = turns.fold(2.0, f64::max);
    let low = all
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::MAX, f64::min)
        .max(1.0);
    let high = all.iter().map(|(_, value)| *value).fold(2.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&shown.title, (FONT, 28))
        .margin(24)
        .x_label_area_size(56)
        .y_label_area_size(96)
        .build_cartesian_2d((1.0..end).log_scale(), (low * 0.7..high * 1.6).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("turns")
        .y_desc(shown.unit)
        .axis_desc_style((FONT, 20))
        .label_style((FONT, 16))
        .light_line_style(WHITE)
        .x_label_formatter(&|turns| short(*turns))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    if let Some((label, points)) = &shown.ideal {
        let style = BLACK.stroke_width(1);
        chart
            .draw_series(DashedLineSeries::new(points.iter().copied(), 6, 4, style))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    for line in &shown.lines {
        let style = line.color.stroke_width(3);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 17))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// A number with a prefix for thousands, millions and so on.
fn short(value: f64) -> String {
    let (value, prefix) = match value {
        value if value >= 1e9 => (value / 1e9, " G"),
        value if value >= 1e6 => (value / 1e6, " M"),
        value if value >= 1e3 => (value / 1e3, " k"),
        value => (value, ""),
    };
    format!("{value:.0}{prefix}")
}
