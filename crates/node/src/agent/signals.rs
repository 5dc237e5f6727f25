//! Being told to end: SIGTERM and SIGINT make a descriptor readable, so that an event loop wakes.

use std::io::Read;
use std::os::unix::net::UnixStream;

/// The signals that end the program.
#[derive(Debug)]
pub struct Signals(UnixStream);

impl Signals {
    /// Takes the signals from here on.
    ///
    /// # Errors
    /// What the system says.
    pub fn take() -> std::io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self(reader))
    }

    /// What becomes readable.
    pub const fn descriptor(&self) -> &UnixStream {
        &self.0
    }

    /// Whether one has come.
    pub fn has_come(&mut self) -> bool {
        self.0.read(&mut [0; 8]).is_ok_and(|count| count > 0)
    }
}
