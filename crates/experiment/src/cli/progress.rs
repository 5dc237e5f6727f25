//! Progress of long work on stderr: a bar on a terminal, a line every ten seconds in a pipe.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::estimate::about;
use crate::wall::Stopwatch;

/// Progress of several runs.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    parts: Arc<Mutex<Vec<f64>>>,
    lines: Option<Lines>,
}

/// The thread that prints lines; it ends when the sender is dropped.
#[derive(Debug)]
struct Lines {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

const STEPS: u64 = 1_000;
/// From one line to the next.
const EVERY: Duration = Duration::from_secs(10);

impl Bar {
    /// Progress of that many runs.
    pub fn new(runs: usize) -> Self {
        // `stderr` draws only on a terminal.
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed} elapsed, {eta} left  {msg}");
        bar.set_style(style.expect("a template of known keys"));
        let parts = Arc::new(Mutex::new(vec![0.0; runs]));
        let lines = if std::io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_secs(1));
            None
        } else {
            Some(Lines::start(Arc::clone(&parts)))
        };
        Self { bar, parts, lines }
    }

    /// Reports how much of a run is done, from 0 to 1.
    pub fn update(&self, run: usize, part: f64) {
        let mut parts = self.parts.lock().expect("no drawing panics");
        parts[run] = part;
        self.bar.set_position((mean(&parts) * STEPS as f64) as u64);
        if parts.len() > 1 {
            self.bar.set_message(runs_done(&parts));
        }
    }

    /// Removes the bar and ends the lines.
    pub fn finish(self) {
        self.bar.finish_and_clear();
        if let Some(Lines { stop, thread }) = self.lines {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Lines {
    fn start(parts: Arc<Mutex<Vec<f64>>>) -> Self {
        let (stop, stopped) = channel();
        let clock = Stopwatch::start();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{}", line(clock.seconds(), &parts.lock().expect("no drawing panics")));
            }
        });
        Self { stop, thread }
    }
}

/// `40 s: 23 % done, 1 of 3 runs, about 2 min left`.
fn line(elapsed_s: f64, parts: &[f64]) -> String {
    let done = mean(parts);
    let runs = if parts.len() > 1 { format!(", {}", runs_done(parts)) } else { String::new() };
    // The first percent is too little to extrapolate from.
    let left = if done > 0.01 { format!(", {} left", about(elapsed_s * (1.0 - done) / done)) } else { String::new() };
    format!("{elapsed_s:.0} s: {:.0} % done{runs}{left}", done * 100.0)
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len().max(1) as f64
}

fn runs_done(parts: &[f64]) -> String {
    format!("{} of {} runs", parts.iter().filter(|p| **p >= 1.0).count(), parts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_and_left() {
        assert_eq!(line(40.0, &[0.25]), "40 s: 25 % done, about 2 min left");
        assert_eq!(line(60.2, &[1.0, 0.5, 0.0]), "60 s: 50 % done, 1 of 3 runs, about 60 s left");
        assert_eq!(line(10.0, &[0.0]), "10 s: 0 % done");
    }
}
