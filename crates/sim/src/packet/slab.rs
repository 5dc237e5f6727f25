//! What is under way: plain values in one array, named by index.

/// All packets, or all frames, under way.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    limit: u64,
}

impl<T: Copy> Slab<T> {
    /// The most entries at once: as many as the wheel can distinguish.
    pub fn new(limit: u64) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit }
    }

    #[inline]
    pub fn add(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = value;
            slot
        } else {
            assert!((self.slots.len() as u64) < self.limit, "more than {} packets under way at once", self.limit);
            self.slots.push(value);
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
    pub fn as_ptr(&self, slot: u32) -> *const T {
        self.slots.as_ptr().wrapping_add(slot as usize)
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}
