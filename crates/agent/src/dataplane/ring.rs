//! Reads the ring buffer of events.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use parking_lot::Mutex;

use super::{PlaneError, Result};

/// Events per read, at most, so that a flood of them leaves time for other work.
const BATCH: usize = 1024;

/// The reading end of the events' map.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    buffer: RingBuffer<'static>,
    read: Arc<Mutex<Vec<T>>>,
}

impl<T: Send + 'static> Ring<T> {
    /// The reading end of a map whose events are read so.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`] if it is no ring buffer, or has a reader.
    pub fn new(map: &MapHandle, read_event: fn(&[u8]) -> Option<T>) -> Result<Self> {
        let fail = || PlaneError::bpf("read map", "events");
        let read = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let keep = move |bytes: &[u8]| {
            match read_event(bytes) {
                Some(event) => sink.lock().push(event),
                None => tracing::warn!(bytes = bytes.len(), "an event of another build is left out"),
            }
            0
        };
        builder.add(map, keep).map_err(fail())?;
        Ok(Self { buffer: builder.build().map_err(fail())?, read })
    }

    /// Readable when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the buffer owns the descriptor, and is borrowed for as long.
        unsafe { BorrowedFd::borrow_raw(self.buffer.epoll_fd()) }
    }

    /// Takes the events that are there, up to a bound.
    ///
    /// # Errors
    /// [`PlaneError::System`] if the kernel refuses.
    pub fn take(&self) -> Result<Vec<T>> {
        let taken = self.buffer.consume_raw_n(BATCH);
        if taken < 0 {
            return Err(PlaneError::system("read map", "events")(std::io::Error::from_raw_os_error(-taken)));
        }
        Ok(std::mem::take(&mut *self.read.lock()))
    }
}
