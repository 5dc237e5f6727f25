//! A priority queue that shows what it is about to give.
//!
//! ```text
//!   push ---> [ heap: all others ] ---up to 16 at once---> [ front, in order ] ---> pop
//! ```
//! The caller can fetch what it needs for many entries at once, so that the processor waits for many cache lines at a time. What is pushed later and comes
//! earlier is moved to the front as well.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An entry: the bits of a key that is not negative, which order like the key, and a number.
pub(crate) type Entry = (u32, u32);

/// Entries in ascending order, equal ones by number.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    /// The first one last.
    front: Vec<Entry>,
    /// What the latest advance has moved to the front.
    news: Vec<Entry>,
}

impl Queue {
    /// Adds an entry.
    pub fn push(&mut self, entry: Entry) {
        self.heap.push(Reverse(entry));
    }

    /// The first entry.
    pub fn peek(&self) -> Option<Entry> {
        let heap = self.heap.peek().map(|&Reverse(entry)| entry);
        match (heap, self.front.last().copied()) {
            (Some(heap), Some(front)) => Some(heap.min(front)),
            (heap, front) => heap.or(front),
        }
    }

    /// Takes the first entry.
    pub fn pop(&mut self) -> Option<Entry> {
        let first = self.peek()?;
        if self.front.last() == Some(&first) { self.front.pop() } else { self.heap.pop().map(|Reverse(entry)| entry) }
    }

    /// If the first entry is not in front: moves it there, with others that are about to come, and returns these.
    pub fn advance(&mut self) -> &[Entry] {
        self.news.clear();
        let last = self.front.first().copied();
        if self.peek() == self.front.last().copied() {
            return &self.news;
        }
        while self.news.len() < AT_ONCE
            && let Some(Reverse(entry)) = self.heap.peek().copied()
            && last.is_none_or(|last| entry < last)
        {
            self.heap.pop();
            self.news.push(entry);
        }
        self.front.extend(&self.news);
        self.front.sort_unstable_by_key(|&entry| Reverse(entry));
        &self.news
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.front.clear();
    }
}

/// So many links, their flows and the links of these fit into a cache of the first level.
const AT_ONCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// With and without a front, entries come in order.
        #[test]
        fn it_is_a_sorted_list(steps in proptest::collection::vec((0u8..4, 0u32..1_000, 0u32..3), 1..400)) {
            let mut queue = Queue::default();
            let mut plain: Vec<Entry> = Vec::new();
            for (step, key, number) in steps {
                match step {
                    0 | 1 => {
                        queue.push((key, number));
                        plain.push((key, number));
                        plain.sort_unstable_by_key(|&entry| Reverse(entry));
                    }
                    2 => prop_assert_eq!(queue.pop(), plain.pop()),
                    _ => {
                        let news = queue.advance();
                        prop_assert!(news.first().is_none_or(|first| Some(first) == plain.last()) && news.is_sorted());
                    }
                }
                prop_assert_eq!(queue.peek(), plain.last().copied());
            }
        }
    }
}
