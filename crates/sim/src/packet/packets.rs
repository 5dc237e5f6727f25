//! Packets under way: plain values of 16 bytes in one array, named by index.

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A segment of a TCP flow: `number` is its sequence number in segments.
    Data,
    /// Acknowledges all segments below `number`.
    Ack,
    /// Opens a connection.
    Syn,
    /// Answers it.
    SynAck,
    /// A datagram that asks; `number` counts the requests of its flow.
    Request,
    /// A datagram that answers.
    Response,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Its flow (for MPTCP its subflow), by place in the tables of endpoints.
    pub flow: u32,
    /// What its kind says.
    pub number: u32,
    /// Where it is: a place in [`super::paths::Paths`], that of the link it is on.
    pub place: u32,
    /// Bytes on the wire.
    pub len: u16,
    pub kind: Kind,
    pub flags: u8,
}

/// Its transport understands congestion marks.
pub(super) const ECT: u8 = 1;
/// A queue marked it, or an acknowledgement echoes that.
pub(super) const CE: u8 = 2;
/// It repeats what was sent before.
pub(super) const REPEAT: u8 = 4;

/// All packets under way.
#[derive(Debug)]
pub(super) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
    limit: u64,
}

impl Packets {
    /// At the most so many at once, as many as the wheel can tell apart.
    pub fn new(limit: u64) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit }
    }

    #[inline]
    pub fn add(&mut self, packet: Packet) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = packet;
            slot
        } else {
            assert!((self.slots.len() as u64) < self.limit, "more than {} packets under way at once", self.limit);
            self.slots.push(packet);
            self.slots.len() as u32 - 1
        }
    }

    #[inline]
    pub fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// How many there are.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub fn as_ptr(&self, slot: u32) -> *const Packet {
        self.slots.as_ptr().wrapping_add(slot as usize)
    }
}

impl std::ops::Index<u32> for Packets {
    type Output = Packet;
    #[inline]
    fn index(&self, slot: u32) -> &Packet {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Packets {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Packet {
        &mut self.slots[slot as usize]
    }
}
