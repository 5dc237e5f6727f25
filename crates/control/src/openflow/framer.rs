//! Messages out of a stream of bytes. A message is at most 65,535 bytes by its own field, so no more than that is kept of an unfinished one.

use super::error::ParseError;
use super::message::{HEADER, Header};

/// Cuts a stream into messages. Call [`Framer::pop`] until None after each [`Framer::push`].
#[derive(Clone, Debug, Default)]
pub struct Framer {
    bytes: Vec<u8>,
    /// Where the next message begins in `bytes`.
    start: usize,
}

impl Framer {
    /// An empty one.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0 }
    }

    /// Appends what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes of the next message, if they are all there.
    ///
    /// # Errors
    /// A length that is less than the header's: the stream cannot be read any further.
    pub fn pop(&mut self) -> Result<Option<&[u8]>, ParseError> {
        let rest = &self.bytes[self.start..];
        if rest.len() < HEADER {
            return Ok(None);
        }
        let length = usize::from(Header::parse(rest)?.length);
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.start;
        self.start += length;
        Ok(Some(&self.bytes[start..start + length]))
    }

    /// Bytes received and not yet returned.
    pub const fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_however_the_bytes_arrive() {
        let stream = [vec![4, 2, 0, 8, 0, 0, 0, 1], vec![4, 2, 0, 10, 0, 0, 0, 2, 7, 7], vec![6, 3, 0, 8, 0, 0, 0, 3]].concat();
        for size in 1..=stream.len() {
            let (mut framer, mut popped) = (Framer::new(), Vec::new());
            for part in stream.chunks(size) {
                framer.push(part);
                while let Some(message) = framer.pop().expect("right lengths") {
                    popped.push(message.to_vec());
                }
            }
            assert_eq!(popped.iter().map(Vec::len).collect::<Vec<_>>(), [8, 10, 8], "in parts of {size} bytes");
            assert_eq!((popped.concat(), framer.pending()), (stream.clone(), 0));
        }
    }

    #[test]
    fn a_length_below_the_header_is_an_error() {
        let mut framer = Framer::new();
        framer.push(&[4, 2, 0, 7, 0, 0, 0]);
        assert_eq!(framer.pop(), Ok(None));
        framer.push(&[1]);
        assert_eq!(framer.pop(), Err(ParseError::Length { part: "a message", given: 7 }));
    }
}
