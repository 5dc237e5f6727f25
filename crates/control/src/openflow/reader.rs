//! Fields off the front of a slice, and onto the end of a vector. All integers are big-endian.

use super::error::{EmitError, ParseError};

/// Reads fields off the front of a slice; `part` is what errors name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub rest: &'a [u8],
    part: &'static str,
}

impl<'a> Reader<'a> {
    pub const fn new(rest: &'a [u8], part: &'static str) -> Self {
        Self { rest, part }
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], ParseError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(ParseError::Truncated(self.part))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `n` bytes as a reader of their own.
    pub fn sub(&mut self, n: usize, part: &'static str) -> Result<Self, ParseError> {
        self.take(n).map(|rest| Self { rest, part })
    }

    /// All that is left.
    pub const fn remainder(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.rest = &[];
        rest
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(ParseError::Truncated(self.part))?;
        self.rest = rest;
        Ok(*head)
    }

    pub fn skip(&mut self, n: usize) -> Result<(), ParseError> {
        self.take(n).map(|_| ())
    }

    pub fn u8(&mut self) -> Result<u8, ParseError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, ParseError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, ParseError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, ParseError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A number whose largest value means none.
    pub fn optional_u32(&mut self) -> Result<Option<u32>, ParseError> {
        Ok(Some(self.u32()?).filter(|&it| it != u32::MAX))
    }

    /// A counter whose largest value means that the switch does not count.
    pub fn optional_u64(&mut self) -> Result<Option<u64>, ParseError> {
        Ok(Some(self.u64()?).filter(|&it| it != u64::MAX))
    }

    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub const fn end(self) -> Result<(), ParseError> {
        if self.rest.is_empty() { Ok(()) } else { Err(ParseError::Trailing { part: self.part, left: self.rest.len() }) }
    }

    /// A type and a length that counts both, and the body; `pads` skips to the next multiple of 8.
    pub fn tlv(&mut self, pads: bool) -> Result<(u16, Self), ParseError> {
        let kind = self.u16()?;
        let given = usize::from(self.u16()?);
        let length = given.checked_sub(4).ok_or(ParseError::Length { part: self.part, given })?;
        let body = self.sub(length, self.part)?;
        if pads {
            self.skip(padding(given).min(self.rest.len()))?;
        }
        Ok((kind, body))
    }
}

/// The bytes to the next multiple of 8.
pub(super) const fn padding(length: usize) -> usize {
    length.wrapping_neg() % 8
}

/// Appends zeros until what began at `start` is a multiple of 8.
pub(super) fn pad(out: &mut Vec<u8>, start: usize) {
    zeros(out, padding(out.len() - start));
}

pub(super) fn zeros(out: &mut Vec<u8>, n: usize) {
    out.resize(out.len() + n, 0);
}

pub(super) fn put8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

pub(super) fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Writes the bytes since `start` into the 16 bits at `at`.
pub(super) fn patch_length(out: &mut [u8], start: usize, at: usize, part: &'static str) -> Result<(), EmitError> {
    let bytes = out.len() - start;
    patch(out, at, bytes, part)
}

/// Writes a length into the 16 bits at `at`.
pub(super) fn patch(out: &mut [u8], at: usize, bytes: usize, part: &'static str) -> Result<(), EmitError> {
    let max = usize::from(u16::MAX);
    let length = u16::try_from(bytes).map_err(|_| EmitError::TooLong { part, bytes, max })?;
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
