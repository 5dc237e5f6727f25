//! SIGTERM and SIGINT end the agent, SIGHUP reloads its configuration: they make descriptors readable, so that an event loop wakes.

use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signals that the agent handles.
#[derive(Debug)]
pub struct Signals {
    end: UnixStream,
    reload: UnixStream,
}

impl Signals {
    /// Takes the signals from here on.
    ///
    /// # Errors
    /// What the system says.
    pub fn take() -> std::io::Result<Self> {
        Ok(Self { end: of(&[SIGTERM, SIGINT])?, reload: of(&[SIGHUP])? })
    }

    /// What becomes readable.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.end.as_raw_fd(), self.reload.as_raw_fd()]
    }

    /// Whether one has come that ends the program.
    pub fn has_come(&mut self) -> bool {
        self.end.read(&mut [0; 8]).is_ok_and(|count| count > 0)
    }

    /// Whether the configuration is to be reloaded.
    pub fn wants_reload(&mut self) -> bool {
        self.reload.read(&mut [0; 8]).is_ok_and(|count| count > 0)
    }
}

/// A stream that becomes readable when one of the signals comes.
fn of(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}
