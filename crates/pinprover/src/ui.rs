//! What the user sees: results on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::EnvFilter;

use crate::error::Error;

/// The bar on the screen, if there is one: log lines step around it.
static BAR: Mutex<Option<Shown>> = Mutex::new(None);

struct Shown {
    bar: ProgressBar,
    /// The current step.
    what: String,
}

fn shown() -> MutexGuard<'static, Option<Shown>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bar() -> Option<ProgressBar> {
    shown().as_ref().map(|shown| shown.bar.clone())
}

/// Shows how far the current step is, behind its name, until the next call or the next step. `None`: the name alone.
/// Without a bar on the screen nothing is done, and `detail` is not called.
pub(crate) fn detail(detail: impl FnOnce() -> Option<String>) {
    if let Some(shown) = shown().as_ref() {
        shown.detail(detail());
    }
}

impl Shown {
    fn detail(&self, detail: Option<String>) {
        self.bar.set_message(match detail {
            Some(detail) => format!("{}: {detail}", self.what),
            None => self.what.clone(),
        });
    }
}

/// How far something with a known end is, as a bar of ten characters and in percent.
pub(crate) fn part(done: u64, all: u64) -> String {
    const WIDTH: usize = 10;
    let part = if all == 0 { 1.0 } else { (done as f64 / all as f64).min(1.0) };
    let filled = (part * WIDTH as f64) as usize;
    format!("[{}{}] {:.0} %", "=".repeat(filled), " ".repeat(WIDTH - filled), part * 100.0)
}

/// How a command talks.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    json: bool,
    quiet: bool,
}

impl Ui {
    /// `json`: results as one JSON object. `quiet`: no progress bar.
    pub fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// Whether results are JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Prints a command's result: `value` as one JSON object, or the text.
    ///
    /// A reader that went away (a closed pipe) is no error: the command has done its work.
    ///
    /// # Errors
    /// [`Error::Io`] if standard output cannot be written for another reason, a full disk for instance.
    pub fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Error> {
        let mut line =
            if self.json { serde_json::to_string(value).expect("results are plain data") } else { text() };
        line.push('\n');
        let mut stdout = io::stdout().lock();
        match stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
            Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::io("write", Path::new("standard output"))(cause))
            }
            _ => Ok(()),
        }
    }

    /// Prints a warning on standard error, whatever `RUST_LOG` says.
    pub fn warn(&self, text: &str) {
        let print = || {
            let _ = writeln!(io::stderr(), "warning: {text}");
        };
        match bar() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Prints the error on standard error and, for programs, as the JSON object that takes the result's place.
    pub fn failure(&self, error: &Error) {
        // If standard error is gone there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: {error}");
        if self.json {
            let failure = Failure {
                ok: false,
                error: ErrorObject {
                    kind: error.kind(),
                    exit_code: error.exit_code(),
                    message: error.to_string(),
                },
            };
            let _ = self.result(&failure, String::new);
        }
    }

    /// A bar for work in `steps` steps. It shows only where standard error is a terminal.
    pub fn progress(&self, steps: u64) -> Progress {
        let visible = !self.quiet && io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(steps) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} [{bar:20}] {pos}/{len} {msg} ({elapsed})");
        bar.set_style(style.expect("the template is a constant").progress_chars("=> "));
        if visible {
            bar.enable_steady_tick(Duration::from_millis(120));
            *shown() = Some(Shown { bar: bar.clone(), what: String::new() });
        }
        Progress { bar, visible }
    }
}

#[derive(Serialize)]
struct Failure {
    ok: bool,
    error: ErrorObject,
}

#[derive(Serialize)]
struct ErrorObject {
    kind: &'static str,
    exit_code: u8,
    message: String,
}

/// A bar on the screen, or nothing. It goes with the value.
pub struct Progress {
    bar: ProgressBar,
    visible: bool,
}

impl Progress {
    /// Does one step of the work, and says how long it took.
    pub fn step<T>(&self, what: &str, work: impl FnOnce() -> T) -> (T, Duration) {
        self.bar.set_message(what.to_owned());
        if let Some(shown) = shown().as_mut().filter(|_| self.visible) {
            shown.what = what.to_owned();
        }
        tracing::info!("{what}");
        let start = Instant::now();
        let done = work();
        let elapsed = start.elapsed();
        tracing::info!("{what}: done in {:.3} s", elapsed.as_secs_f64());
        self.bar.inc(1);
        (done, elapsed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if self.visible {
            *shown() = None;
        }
    }
}

/// Sends logs to standard error, filtered by `RUST_LOG`, warnings and errors if it is not set.
///
/// # Errors
/// [`Error::Configuration`] if `RUST_LOG` is not a filter.
pub fn start_logging() -> Result<(), Error> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .map_err(|e| Error::Configuration(format!("RUST_LOG={text:?} is not a log filter: {e}")))?,
        Ok(_) | Err(std::env::VarError::NotPresent) => EnvFilter::new("warn"),
        Err(std::env::VarError::NotUnicode(text)) => {
            return Err(Error::Configuration(format!("RUST_LOG={text:?} is not a log filter: not UTF-8")));
        }
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(AroundBar)
        .with_ansi(io::stderr().is_terminal())
        .finish();
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|e| Error::Configuration(format!("cannot start logging: {e}")))?;
    crate::bench::listen::install();
    Ok(())
}

/// Standard error, with the bar out of the way while a line is written.
struct AroundBar;

impl<'a> MakeWriter<'a> for AroundBar {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for AroundBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bar() {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Rows of text in columns, the first column to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A duration in seconds for people: `0.012 s`, `3.456 s`.
pub fn seconds(duration: Duration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}

/// A path in JSON: what is not UTF-8 in it is replaced.
pub(crate) fn path<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows =
            [vec!["phase".into(), "time".into()], vec!["msm".into(), "1.5 s".into()], vec!["x".into()]];
        assert_eq!(table(&rows), "phase   time\nmsm    1.5 s\nx");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn parts_of_something() {
        assert_eq!(part(0, 8), "[          ] 0 %");
        assert_eq!(part(4, 8), "[=====     ] 50 %");
        assert_eq!(part(8, 8), "[==========] 100 %");
        assert_eq!(part(9, 8), part(0, 0));
    }

    #[test]
    fn a_detail_stands_behind_the_step() {
        let shown = Shown { bar: ProgressBar::hidden(), what: "prove".to_owned() };
        shown.detail(Some("half".to_owned()));
        assert_eq!(shown.bar.message(), "prove: half");
        shown.detail(None);
        assert_eq!(shown.bar.message(), "prove");
    }
}
