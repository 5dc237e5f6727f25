//! What the links carried: per layer as a distribution and by switch, per link where the fabric is drawn in full.

use serde::Serialize;
use weft_fabric::record::{LinkSample, Outcome};
use weft_fabric::time::PS_PER_S;
use weft_fabric::{Fabric, LinkId};

use super::significant;
use super::sketch::Sketch;

/// The load of a run's links. Utilisation is the mean over the whole run, in ten-thousandths of the capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkUse {
    /// By the sketch's layers; empty if nothing is known.
    pub layers: Vec<LayerUse>,
    /// The most used links, the busiest first.
    pub busiest: Vec<BusyLink>,
    /// Of each link, in units of [`LinkUse::unit_bytes`]; only where the sketch has its wiring.
    pub bytes: Vec<u32>,
    /// Such that the largest count has six or seven digits, or all are exact.
    pub unit_bytes: f64,
    /// Utilisation over time; only of small fabrics, and if the world recorded it.
    pub frames: Option<Frames>,
}

/// One layer, by direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LayerUse {
    /// Links towards the higher tier, or all links of a layer inside one tier.
    pub up: Spread,
    /// Links towards the lower tier.
    pub down: Spread,
}

/// How the load of a set of links is spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Number of links.
    pub links: u64,
    /// Bytes over all of them.
    pub bytes: f64,
    /// Mean utilisation.
    pub mean: u16,
    /// Links that are used to 95 % or more.
    pub full: u64,
    /// Utilisation at evenly spaced ranks, ascending, smallest and largest included.
    pub quantiles: Vec<u16>,
    /// Utilisation of each tile as a whole.
    pub tile_means: Vec<u16>,
    /// Utilisation of each tile's busiest link.
    pub tile_maxima: Vec<u16>,
}

/// One of the most used links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusyLink {
    /// `from-to`.
    pub name: String,
    /// Index of its layer.
    pub layer: usize,
    /// Towards the higher tier, or inside one.
    pub up: bool,
    /// Utilisation.
    pub utilisation: u16,
    /// Bytes that it carried.
    pub bytes: u64,
}

/// Utilisation of every link over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// Length of each in seconds; the first begins at 0.
    pub width_s: f64,
    /// Number of frames.
    pub count: usize,
    /// In percent of the capacity: `percent[frame * links + link]`.
    pub percent: Vec<u8>,
}

impl LinkUse {
    /// Sums up the links of a run.
    pub fn new(fabric: &Fabric, sketch: &Sketch, outcome: &Outcome) -> Self {
        let seconds = outcome.ended.as_secs_f64();
        if outcome.links.is_empty() || seconds <= 0.0 {
            return Self::default();
        }
        let uses: Vec<Use> = outcome.links.iter().map(|l| Use::new(fabric, l.id, l.bytes.0, seconds)).collect();
        let (bytes, unit_bytes) = if sketch.wiring.is_some() { quantised(&uses) } else { (Vec::new(), 1.0) };
        Self {
            layers: layer_uses(fabric, sketch, &uses),
            busiest: busiest(fabric, sketch, &uses),
            bytes,
            unit_bytes,
            frames: if sketch.wiring.is_some() { Frames::new(fabric, outcome) } else { None },
        }
    }
}

/// One link while they are summed up.
#[derive(Clone, Copy)]
struct Use {
    id: LinkId,
    bytes: u64,
    fraction: f64,
}

impl Use {
    fn new(fabric: &Fabric, id: LinkId, bytes: u64, seconds: f64) -> Self {
        Self { id, bytes, fraction: bytes as f64 * 8.0 / (fabric.link(id).capacity.as_f64() * seconds) }
    }
}

fn quantised(uses: &[Use]) -> (Vec<u32>, f64) {
    let most = uses.iter().map(|u| u.bytes).max().unwrap_or(0);
    let unit = most.div_ceil(LARGEST_COUNT).max(1);
    // What carried anything at all must not look idle.
    let count = |bytes: u64| ((bytes + unit / 2) / unit).max(u64::from(bytes > 0)) as u32;
    (uses.iter().map(|u| count(u.bytes)).collect(), unit as f64)
}

fn layer_uses(fabric: &Fabric, sketch: &Sketch, uses: &[Use]) -> Vec<LayerUse> {
    let mut members: Vec<[Vec<(u32, Use)>; 2]> = vec![Default::default(); sketch.layers.len()];
    for &used in uses {
        let place = sketch.place(fabric, used.id);
        members[place.layer][usize::from(!place.up)].push((place.switch, used));
    }
    std::iter::zip(&sketch.layers, members)
        .map(|(layer, [up, down])| LayerUse { up: Spread::new(fabric, layer, &up), down: Spread::new(fabric, layer, &down) })
        .collect()
}

impl Spread {
    fn new(fabric: &Fabric, layer: &super::sketch::Layer, links: &[(u32, Use)]) -> Self {
        if links.is_empty() {
            return Self::default();
        }
        let mut sorted: Vec<f64> = links.iter().map(|(_, u)| u.fraction).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len();
        let shown = count.min(MAX_QUANTILES);
        let rank = |i: usize| if shown == 1 { 0 } else { i * (count - 1) / (shown - 1) };
        let mut tiles = vec![(0.0, 0.0, 0.0f64); layer.tiles.len()];
        for (switch, used) in links {
            let (carried, could, most) = &mut tiles[layer.tile_of(*switch)];
            let capacity = fabric.link(used.id).capacity.as_f64();
            *carried += used.fraction * capacity;
            *could += capacity;
            *most = most.max(used.fraction);
        }
        Self {
            links: count as u64,
            bytes: significant(links.iter().map(|(_, u)| u.bytes as f64).sum(), 6),
            mean: ten_thousandths(sorted.iter().sum::<f64>() / count as f64),
            full: (count - sorted.partition_point(|&f| f < FULL)) as u64,
            quantiles: (0..shown).map(|i| ten_thousandths(sorted[rank(i)])).collect(),
            tile_means: tiles
                .iter()
                .map(|&(carried, could, _)| ten_thousandths(if could > 0.0 { carried / could } else { 0.0 }))
                .collect(),
            tile_maxima: tiles.iter().map(|&(.., most)| ten_thousandths(most)).collect(),
        }
    }
}

fn busiest(fabric: &Fabric, sketch: &Sketch, uses: &[Use]) -> Vec<BusyLink> {
    let mut order: Vec<Use> = uses.iter().copied().filter(|u| u.bytes > 0).collect();
    order.sort_by(|a, b| b.fraction.total_cmp(&a.fraction).then(a.id.cmp(&b.id)));
    let listed = order.into_iter().take(MAX_BUSIEST);
    listed
        .map(|u| {
            let place = sketch.place(fabric, u.id);
            let (layer, up) = (place.layer, place.up);
            BusyLink { name: fabric.link_name(u.id), layer, up, utilisation: ten_thousandths(u.fraction), bytes: u.bytes }
        })
        .collect()
}

impl Frames {
    /// Means over frames of equal length, from the recorded spans.
    fn new(fabric: &Fabric, outcome: &Outcome) -> Option<Self> {
        let links = fabric.links().len();
        let end = outcome.ended.as_ps();
        let span = span_ps(&outcome.link_series, end);
        let spans = span.map_or(outcome.link_series.len() as u64, |ps| end.div_ceil(ps));
        let count = MAX_FRAMES.min(spans as usize).min(MAX_FRAME_VALUES / links);
        if count < MIN_FRAMES {
            return None;
        }
        let width = end as f64 / count as f64;
        let mut sums = vec![0.0f64; count * links];
        let (mut previous, mut current) = (0, 0);
        for sample in &outcome.link_series {
            let at = sample.at.as_ps();
            if at != current {
                (previous, current) = (current, at);
            }
            let from = span.map_or(previous, |ps| at.saturating_sub(1) / ps * ps) as f64;
            let (first, last) = ((from / width) as usize, ((at as f64 / width) as usize).min(count - 1));
            for frame in first..=last {
                let overlap = (at as f64).min((frame + 1) as f64 * width) - from.max(frame as f64 * width);
                sums[frame * links + sample.link.index()] += sample.utilisation * overlap.max(0.0) / width;
            }
        }
        let percent = sums.into_iter().map(|u| (u * 100.0).round().clamp(0.0, 255.0) as u8).collect();
        Some(Self { width_s: significant(width / PS_PER_S as f64, 9), count, percent })
    }
}

/// Length of the recorded spans, all but the last of which are equal: the greatest common divisor of their ends, as spans in
/// which no link was used are left out. `None` if they are not equal: then each reaches back to the one before it.
fn span_ps(series: &[LinkSample], end: u64) -> Option<u64> {
    let divisor = series.iter().map(|s| s.at.as_ps()).filter(|&at| at < end).fold(0, gcd);
    let span = if divisor == 0 { end } else { divisor };
    (span > 0 && end / span <= MAX_SPANS).then_some(span)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn ten_thousandths(fraction: f64) -> u16 {
    (fraction * 10_000.0).round().clamp(0.0, f64::from(u16::MAX)) as u16
}

const LARGEST_COUNT: u64 = 1_000_000;
const MAX_QUANTILES: usize = 160;
const MAX_BUSIEST: usize = 12;
const FULL: f64 = 0.95;
const MIN_FRAMES: usize = 2;
const MAX_FRAMES: usize = 60;
const MAX_FRAME_VALUES: usize = 40_000;
/// Worlds record at most 1,000 spans; more than this are of unequal length.
const MAX_SPANS: u64 = 4_000;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::record::LinkRecord;
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::{BitsPerSec, Bytes, Duration, Instant};

    fn fabric(k: u32) -> Fabric {
        fat_tree(k, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).expect("k is even")
    }

    /// A run of 8 s, in which a link of 1 Gbps carries at most a gigabyte.
    fn outcome(fabric: &Fabric, bytes: impl Fn(usize) -> u64) -> Outcome {
        let links =
            (0..fabric.links().len()).map(|i| LinkRecord { id: LinkId::from(i), bytes: Bytes(bytes(i)), drops: 0 }).collect();
        Outcome { links, ended: Instant::ZERO + Duration::from_secs(8), ..Outcome::default() }
    }

    #[test]
    fn utilisation_is_bytes_over_capacity_and_time() {
        let fabric = fabric(4);
        let links = LinkUse::new(&fabric, &Sketch::new(&fabric), &outcome(&fabric, |i| if i == 0 { 1_000_000_000 } else { 0 }));
        let nics = &links.layers[0];
        assert_eq!((nics.up.links, nics.up.mean, nics.up.full), (16, 625, 1));
        assert_eq!((nics.up.quantiles[0], nics.up.quantiles[15]), (0, 10_000));
        assert_eq!((nics.up.tile_means[0], nics.up.tile_maxima[0], nics.down.tile_maxima[0]), (5_000, 10_000, 0));
        let busy = BusyLink { name: "h0-edge0".to_owned(), layer: 0, up: true, utilisation: 10_000, bytes: 1_000_000_000 };
        assert_eq!(links.busiest, [busy]);
    }

    #[test]
    fn counts_of_bytes_are_near_and_never_hide_traffic() {
        let fabric = fabric(4);
        let run = outcome(&fabric, |i| [0, 1, 123_456_789, 999_999_999][i % 4]);
        let links = LinkUse::new(&fabric, &Sketch::new(&fabric), &run);
        for (link, &count) in run.links.iter().zip(&links.bytes) {
            assert!((f64::from(count) * links.unit_bytes - link.bytes.0 as f64).abs() <= links.unit_bytes);
            assert_eq!(count == 0, link.bytes.0 == 0);
        }
    }

    #[test]
    fn large_fabrics_are_summed_up_alone() {
        let fabric = fabric(16);
        let links = LinkUse::new(&fabric, &Sketch::new(&fabric), &outcome(&fabric, |i| i as u64));
        assert!(links.bytes.is_empty() && links.frames.is_none());
        assert_eq!(links.layers[1].up.tile_means.len(), 128);
        assert_eq!(links.layers[1].up.quantiles.len(), MAX_QUANTILES);
        assert_eq!(links.busiest.len(), MAX_BUSIEST);
    }

    #[test]
    fn no_records_give_no_layers() {
        let fabric = fabric(4);
        assert_eq!(LinkUse::new(&fabric, &Sketch::new(&fabric), &Outcome::default()), LinkUse::default());
    }

    fn percent_of_link(samples: &[(u64, f64)]) -> (f64, Vec<u8>) {
        let fabric = fabric(4);
        let sample = |&(ms, utilisation)| LinkSample { at: Instant::ZERO + Duration::from_ms(ms), link: LinkId(5), utilisation };
        let run = Outcome { link_series: samples.iter().map(sample).collect(), ..outcome(&fabric, |_| 0) };
        let frames = Frames::new(&fabric, &run).expect("small enough");
        (frames.width_s, (0..frames.count).map(|f| frames.percent[f * fabric.links().len() + 5]).collect())
    }

    #[test]
    fn frames_leave_silent_spans_empty() {
        let frames = percent_of_link(&[(1_000, 1.0), (2_000, 0.5), (7_000, 0.25)]);
        assert_eq!(frames, (1.0, vec![100, 50, 0, 0, 0, 0, 25, 0]));
    }

    #[test]
    fn the_last_span_may_be_shorter() {
        let frames = percent_of_link(&[(3_000, 0.8), (6_000, 0.0), (8_000, 0.8)]);
        assert_eq!(frames.1, [80, 10, 60]);
    }

    #[test]
    fn unequal_spans_reach_back_to_the_one_before() {
        let frames = percent_of_link(&[(1_001, 1.0), (2_000, 1.0), (5_003, 0.5), (7_000, 0.5), (8_000, 0.0)]);
        assert_eq!(frames.1, [100, 63, 50, 50, 19]);
    }
}
