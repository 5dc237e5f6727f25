//! The SACK option: ranges of segments that have arrived beyond a hole (RFC 2018), and duplicates (RFC 2883).

/// The most blocks of an acknowledgement without timestamps (RFC 2018 section 3).
pub(super) const MAX_BLOCKS: usize = 4;

/// The blocks of an acknowledgement: the one that has changed comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::packet) struct Blocks {
    len: u8,
    blocks: [(u32, u32); MAX_BLOCKS],
}

impl Blocks {
    pub(super) fn push(&mut self, block: (u32, u32)) {
        self.blocks[self.len()] = block;
        self.len += 1;
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..self.len()]
    }

    /// Bytes of the option with two of padding before it.
    pub fn bytes(&self) -> u16 {
        if self.is_empty() { 0 } else { 4 + 8 * u16::from(self.len) }
    }

    /// The blocks besides that of a duplicate.
    pub(super) fn reported(&self, duplicate: bool) -> &[(u32, u32)] {
        &self.as_slice()[usize::from(duplicate)..]
    }

    /// Whether the first block of an acknowledgement of all below `number` reports a duplicate (RFC 2883 section 4).
    pub(super) fn has_duplicate(&self, number: u32) -> bool {
        match *self.as_slice() {
            [first, ..] if first.1 <= number => true,
            [first, second, ..] => second.0 <= first.0 && first.1 <= second.1,
            _ => false,
        }
    }
}
