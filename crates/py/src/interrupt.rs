//! Ctrl-C while a simulation runs: the work goes on in a thread of its own, and Python's thread looks for signals.
//!
//! ```text
//!   Python's thread:  wait 50 ms, look for signals, wait ...  --stop--> Stop
//!   worker:           run ........ on_progress: Stop set? unwind ........ (partial results are removed on the way)
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::{PyResult, Python};

/// Set when the user wants the work to end.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

/// What the worker unwinds with; it is no bug, and nothing is printed on stderr.
struct Interrupted;

impl Stop {
    /// Ends the work of this thread if the user wants that.
    pub fn check(&self) {
        if self.0.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Interrupted));
        }
    }
}

/// Runs `work` without the interpreter lock; it should call [`Stop::check`] now and then.
///
/// # Errors
/// The exception of the signal handler, such as `KeyboardInterrupt`.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> T + Send) -> PyResult<T> {
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let (done, ended) = channel();
        let stop_of_work = &stop;
        scope.spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(stop_of_work)));
            let _ = done.send(outcome);
        });
        let mut ended = ended;
        let mut signal = Ok(());
        loop {
            let message;
            (message, ended) = py.detach(move || (ended.recv_timeout(LOOK_FOR_SIGNALS), ended));
            match message {
                Ok(Ok(value)) => return signal.map(|()| value),
                Ok(Err(payload)) if payload.is::<Interrupted>() => {
                    return signal.map(|()| unreachable!("only a signal stops it"));
                }
                Ok(Err(payload)) => resume_unwind(payload),
                Err(RecvTimeoutError::Disconnected) => unreachable!("the worker always sends"),
                Err(RecvTimeoutError::Timeout) if signal.is_ok() => {
                    signal = py.check_signals();
                    stop.0.store(signal.is_err(), Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    })
}

const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);
