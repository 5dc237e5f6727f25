//! Bounded records of a run over time.

use weft_fabric::record::{LinkSample, Sample};
use weft_fabric::{Duration, Fabric, Instant, LinkId};

/// The network's samples, at most [`SAMPLES`] of them.
///
/// Delivered bytes are a polyline through the samples. When there are too many, those nearer together than a gap are left out,
/// and the gap doubles: kept samples stay exact, and each one's NIC bound becomes the mean over the time until the next,
/// so that both integrals over any span between kept samples are exact.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    kept: Vec<Sample>,
    /// The newest state; the last kept one, or later.
    current: Option<Sample>,
    /// NIC bound x time since the last kept sample, in bps x ps.
    bound_integral: f64,
    gap_ps: u64,
}

impl Samples {
    /// Appends a state. One at the same instant as the last replaces it.
    pub fn push(&mut self, new: Sample) {
        let Some(current) = self.current else {
            self.kept.push(new);
            self.current = Some(new);
            return;
        };
        let last = self.kept.last_mut().expect("the first is kept");
        self.bound_integral += current.nic_bound_bps * (new.at - current.at).as_ps() as f64;
        self.current = Some(new);
        let since = (new.at - last.at).as_ps();
        if since == 0 {
            *last = new;
        } else if since >= self.gap_ps {
            self.keep(new);
            if self.kept.len() > SAMPLES {
                self.thin();
            }
        }
    }

    /// All samples, ending with the newest.
    pub fn finish(mut self) -> Vec<Sample> {
        if let (Some(current), Some(last)) = (self.current, self.kept.last())
            && current.at > last.at
        {
            self.keep(current);
        }
        self.kept
    }

    fn keep(&mut self, new: Sample) {
        let last = self.kept.last_mut().expect("the first is kept");
        last.nic_bound_bps = self.bound_integral / (new.at - last.at).as_ps() as f64;
        self.bound_integral = 0.0;
        self.kept.push(new);
    }

    fn thin(&mut self) {
        let first = self.kept[0].at;
        let span = (self.kept[self.kept.len() - 1].at - first).as_ps();
        let gap_ps = (self.gap_ps * 2).max(span / (SAMPLES as u64 / 2)).max(1);
        let mut thinner = Self { gap_ps, ..Self::default() };
        for sample in self.kept.drain(..) {
            thinner.push(sample);
        }
        *self = thinner;
    }
}

/// Bytes of each link over spans of equal length.
///
/// The end of a run may be unknown, so spans begin short; whenever there are more than `limit`, pairs are merged and their length
/// doubles. `limit` is lowered on large fabrics so that links x samples stays below [`LINK_ROWS`].
#[derive(Debug)]
pub(crate) struct LinkSeries {
    limit: usize,
    span_ps: u64,
    /// For each whole span its links with traffic, ascending, and their bytes.
    spans: Vec<Vec<(u32, u64)>>,
    /// Bytes of each link when the last span was closed.
    before: Vec<u64>,
    closed: Instant,
    /// Scratch.
    rows: Vec<(u32, u64)>,
}

impl LinkSeries {
    /// A series of at most `samples` spans for a run that ends by `end`, and of which `expected` is the least likely length.
    /// Spans are multiples of `unit`, and reach `end / samples` exactly if the run lasts until `end` and that is a multiple too.
    pub fn new(links: usize, samples: usize, end: Instant, expected: Duration, unit: Duration) -> Self {
        let limit = samples.min(LINK_SAMPLES).min((LINK_ROWS / links.max(1)).max(LINK_SAMPLES_LEAST));
        let limit = if samples == 0 { 0 } else { limit.max(2) & !1 };
        let parts = limit.max(1) as u64;
        let unit_ps = unit.as_ps().max(1);
        let wanted_ps = (expected.as_ps() / parts).max(FIRST_SPAN_PS);
        let mut span_ps = if end == Instant::MAX { wanted_ps } else { end.as_ps().div_ceil(parts) };
        while span_ps > wanted_ps && span_ps.is_multiple_of(2 * unit_ps) {
            span_ps /= 2;
        }
        let span_ps = span_ps.checked_next_multiple_of(unit_ps).unwrap_or(unit_ps).max(unit_ps);
        Self { limit, span_ps, spans: Vec::new(), before: vec![0; links], closed: Instant::ZERO, rows: Vec::new() }
    }

    /// When the open span ends.
    pub fn due(&self) -> Option<Instant> {
        (self.limit > 0).then(|| Instant::from_ps(self.closed.as_ps().saturating_add(self.span_ps)))
    }

    /// Closes the open span at `now`, with the bytes that each link has carried so far.
    pub fn close(&mut self, now: Instant, bytes: &[u64]) {
        if self.limit == 0 || now <= self.closed {
            return;
        }
        // Whether a link had traffic is hard to predict: rows are written in any case, and kept if so.
        self.rows.resize(bytes.len(), (0, 0));
        let mut count = 0;
        for (link, (&total, before)) in (0..).zip(bytes.iter().zip(&mut self.before)) {
            self.rows[count] = (link, total - *before);
            count += usize::from(total > *before);
            *before = total;
        }
        let rows = self.rows[..count].to_vec();
        self.spans.push(rows);
        self.closed = now;
        if self.spans.len() > self.limit {
            self.merge();
        }
    }

    /// The samples; `ended` closes the last span, which may be shorter.
    pub fn finish(mut self, fabric: &Fabric, ended: Instant, bytes: &[u64]) -> Vec<LinkSample> {
        // A merge may reopen the last span, hence the loop.
        while self.limit > 0 && self.closed < ended {
            self.close(ended, bytes);
        }
        let mut samples = Vec::with_capacity(self.spans.iter().map(Vec::len).sum());
        for (i, rows) in self.spans.iter().enumerate() {
            let from = i as u64 * self.span_ps;
            let at = Instant::from_ps((from + self.span_ps).min(ended.as_ps()));
            let seconds = (at - Instant::from_ps(from)).as_secs_f64();
            samples.extend(rows.iter().map(|&(link, bytes)| {
                let link = LinkId(link);
                LinkSample { at, link, utilisation: bytes as f64 * 8.0 / (fabric.link(link).capacity.as_f64() * seconds) }
            }));
        }
        samples
    }

    fn merge(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        let mut halves = spans.into_iter();
        while let Some(first) = halves.next() {
            self.spans.push(match halves.next() {
                Some(second) => merge_rows(&first, &second),
                None => first,
            });
        }
        self.span_ps *= 2;
        // An odd number of spans leaves the last one half full: it is reopened by moving its rows into the next close.
        if self.closed.as_ps() < self.spans.len() as u64 * self.span_ps {
            let open = self.spans.pop().expect("there are spans");
            for (link, bytes) in open {
                self.before[link as usize] -= bytes;
            }
            self.closed = Instant::from_ps(self.spans.len() as u64 * self.span_ps);
        }
    }
}

fn merge_rows(a: &[(u32, u64)], b: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let mut merged = Vec::with_capacity(a.len().max(b.len()));
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let of_a = a.get(i).map_or(u32::MAX, |r| r.0);
        let of_b = b.get(j).map_or(u32::MAX, |r| r.0);
        let mut row = (of_a.min(of_b), 0);
        if of_a == row.0 {
            row.1 += a[i].1;
            i += 1;
        }
        if of_b == row.0 {
            row.1 += b[j].1;
            j += 1;
        }
        merged.push(row);
    }
    merged
}

/// The most samples of the network that are kept.
const SAMPLES: usize = 32_768;
/// The most samples of links.
const LINK_SAMPLES: usize = 1_000;
/// Fewer samples than this are of no use, however large the fabric.
const LINK_SAMPLES_LEAST: usize = 16;
/// Links x samples: bounds the memory to 32 MB.
const LINK_ROWS: usize = 2_000_000;
/// The shortest span: 100 us.
const FIRST_SPAN_PS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::BitsPerSec;
    use weft_fabric::topology::shapes::{Cabling, single_switch};

    fn sample(at_us: u64, nic: f64) -> Sample {
        let at = Instant::ZERO + Duration::from_us(at_us);
        Sample { at, delivered: at_us as f64, active: 1, nic_bound_bps: nic }
    }

    #[test]
    fn thinning_keeps_ends_and_integrals() {
        let mut samples = Samples::default();
        let count = 1_000_000;
        let mut integral = 0.0;
        for i in 0..=count {
            let nic = (i % 7) as f64;
            integral += if i < count { nic } else { 0.0 };
            samples.push(sample(i, nic));
        }
        let kept = samples.finish();
        assert!(kept.len() <= SAMPLES + 1 && kept.len() >= SAMPLES / 4, "{}", kept.len());
        assert_eq!((kept[0].at, kept[kept.len() - 1].at), (sample(0, 0.0).at, sample(count, 0.0).at));
        let of_kept: f64 = kept.windows(2).map(|w| w[0].nic_bound_bps * (w[1].at - w[0].at).as_secs_f64() * 1e6).sum();
        assert!((of_kept / integral - 1.0).abs() < 1e-9);
        assert!(kept.iter().all(|s| (s.delivered - s.at.as_secs_f64() * 1e6).abs() < 1e-6));
    }

    #[test]
    fn link_series_conserves_bytes_while_it_merges() {
        let link = Cabling { rate: BitsPerSec(8_000_000_000), delay: Duration::ZERO };
        let fabric = single_switch(2, link).unwrap();
        for (count, end) in [(1, Instant::MAX), (99, Instant::MAX), (115, Instant::MAX), (37, Instant::from_ps(70_000_000_000))] {
            let mut series = LinkSeries::new(4, 10, end, Duration::ZERO, Duration::ZERO);
            let mut bytes = vec![0u64; 4];
            let mut now = Instant::ZERO;
            for i in 0..count {
                now = series.due().unwrap();
                bytes[i % 3] += 1_000 + i as u64;
                series.close(now, &bytes);
            }
            now += Duration::from_ps(7);
            bytes[0] += 5;
            let rows = series.finish(&fabric, now, &bytes);
            let mut sums = [0.0; 4];
            let mut from = [0.0; 4];
            let mut last = 0.0;
            for row in &rows {
                let at = row.at.as_secs_f64();
                if at > last {
                    from.fill(last);
                    last = at;
                }
                sums[row.link.index()] += row.utilisation * 1e9 * (at - from[0]);
            }
            for (link, &total) in bytes.iter().enumerate() {
                assert!((sums[link] - total as f64).abs() <= 1e-6 * total as f64 + 1e-3, "{count}: {sums:?} {bytes:?}");
            }
            assert!(rows.iter().all(|r| r.link != LinkId(3)));
        }
    }
}
