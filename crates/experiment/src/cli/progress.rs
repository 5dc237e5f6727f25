//! A progress bar on a terminal, nothing in a pipe.

use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of several runs in one bar.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    parts: Mutex<Vec<f64>>,
}

const STEPS: u64 = 1_000;

impl Bar {
    /// A bar for so many runs.
    pub fn new(runs: usize) -> Self {
        // `stderr` draws only on a terminal.
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} elapsed, {eta} to go  {msg}");
        bar.set_style(style.expect("a template of known keys"));
        Self { bar, parts: Mutex::new(vec![0.0; runs]) }
    }

    /// A run is so far.
    pub fn update(&self, run: usize, part: f64) {
        let mut parts = self.parts.lock().expect("no drawing panics");
        parts[run] = part;
        let done = parts.iter().filter(|p| **p >= 1.0).count();
        self.bar.set_position((parts.iter().sum::<f64>() / parts.len() as f64 * STEPS as f64) as u64);
        if parts.len() > 1 {
            self.bar.set_message(format!("{done} of {} runs", parts.len()));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
