//! The figures as SVG: for each size a chart of bars, grouped by how busy the host was.

use std::fmt::Write;

use prover_core::size::format_size;

use super::report::{under, Report, PATHS, REGISTERED};

/// A chart: groups of bars.
struct Chart {
    title: String,
    groups: Vec<(String, Vec<Bar>)>,
}

struct Bar {
    /// The index of its colour.
    series: usize,
    value: f64,
}

/// The colours of [`PATHS`], apart also for people who tell few colours.
const COLOURS: [&str; 4] = ["#999999", "#e69f00", "#56b4e9", "#0072b2"];

const WIDTH: f64 = 860.0;
const LEFT: f64 = 56.0;
const CHART: f64 = 220.0;
const HEAD: f64 = 84.0;
const GAP: f64 = 76.0;

/// Draws a report.
pub fn svg(report: &Report) -> String {
    let charts = charts(report);
    let values = charts.iter().flat_map(|chart| &chart.groups).flat_map(|(_, bars)| bars);
    let top = ceiling(values.map(|bar| bar.value).fold(1.0, f64::max));
    let height = HEAD + charts.len() as f64 * (CHART + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut svg, LEFT, 24.0, "start", &format!("Upload to {}, GB/s", report.device.name));
    for (index, path) in PATHS.iter().enumerate() {
        let x = LEFT + index as f64 * 200.0;
        rect(&mut svg, [x, 40.0, 12.0, 12.0], COLOURS[index], path);
        text(&mut svg, x + 18.0, 51.0, "start", path);
    }
    for (index, chart) in charts.iter().enumerate() {
        draw(&mut svg, chart, HEAD + index as f64 * (CHART + GAP), top);
    }
    svg += "</svg>\n";
    svg
}

fn charts(report: &Report) -> Vec<Chart> {
    let mut charts: Vec<Chart> = report
        .sizes()
        .into_iter()
        .map(|bytes| Chart {
            title: format!("{} a vector", format_size(bytes)),
            groups: report
                .loads()
                .into_iter()
                .map(|load| {
                    let bars = PATHS.iter().enumerate().filter_map(|(series, path)| {
                        let rate = report.rate(path, bytes, load)?;
                        Some(Bar { series, value: rate.gb_per_second })
                    });
                    (under(load), bars.collect())
                })
                .collect(),
        })
        .collect();
    if let Some(first) = report.shipped.first() {
        let series = PATHS.iter().position(|path| *path == REGISTERED).unwrap_or_default();
        charts.push(Chart {
            title: format!("a, b, c and witness of {}, from where bellperson wrote them", first.circuit),
            groups: report
                .shipped
                .iter()
                .map(|shipped| {
                    (under(shipped.copying_threads), vec![Bar { series, value: shipped.gb_per_second }])
                })
                .collect(),
        });
    }
    charts
}

fn draw(svg: &mut String, chart: &Chart, y: f64, top: f64) {
    text(svg, LEFT, y, "start", &chart.title);
    let (y, width) = (y + 12.0, WIDTH - LEFT - 16.0);
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let at = y + CHART - CHART * value / top;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>",
            LEFT + width
        );
        text(svg, LEFT - 6.0, at + 4.0, "end", &format!("{value:.0}"));
    }
    let group_width = width / chart.groups.len().max(1) as f64;
    for (index, (label, bars)) in chart.groups.iter().enumerate() {
        let middle = LEFT + group_width * (index as f64 + 0.5);
        text(svg, middle, y + CHART + 18.0, "middle", label);
        let bar_width = (group_width * 0.8 / bars.len().max(1) as f64).min(52.0);
        let first = middle - bar_width * bars.len() as f64 / 2.0;
        for (place, bar) in bars.iter().enumerate() {
            let (x, height) = (first + place as f64 * bar_width, CHART * bar.value / top);
            let title = format!("{}: {:.1} GB/s", PATHS[bar.series], bar.value);
            rect(svg, [x + 1.0, y + CHART - height, bar_width - 2.0, height], COLOURS[bar.series], &title);
            let number = format!("{:.1}", bar.value);
            text(svg, x + bar_width / 2.0, y + CHART - height - 3.0, "middle", &number);
        }
    }
}

/// A round number that is no less.
fn ceiling(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|top| *top >= value)
        .unwrap_or(value)
}

fn rect(svg: &mut String, [x, y, width, height]: [f64; 4], fill: &str, title: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"><title>{}\
         </title></rect>",
        escape(title)
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn every_figure_is_drawn_and_texts_are_escaped() {
        let svg = svg(&sample());
        assert_eq!(svg.matches("<title>").count(), 4 + 8 + 1, "legend, rates, shipped");
        assert!(svg.contains("A &lt;device&gt; &amp; more") && !svg.contains("<device>"));
        for part in ["idle", "14 threads copying", ">50.0<", ">2.5<", ">38.5<"] {
            assert!(svg.contains(part), "{part}");
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn ceilings() {
        for (value, top) in [(1.0, 1.0), (7.9, 8.0), (10.1, 20.0), (55.4, 60.0), (100.0, 100.0)] {
            assert_eq!(ceiling(value), top);
        }
    }
}
