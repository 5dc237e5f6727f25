//! htsim's `.topo`: a fat-tree of three tiers, or a leaf-spine of two, by its parameters.
//!
//! ```text
//! Nodes 16                       # hosts
//! Tiers 3                        # 2 or 3
//! Podsize 4                      # hosts of a pod; all of them in a leaf-spine
//! Tier 0                         # ToRs; 1 is the next tier up, 2 the cores
//! Downlink_speed_Gbps 10         # whole Gbps
//! Radix_Down 2                   # cables down of a switch
//! Radix_Up 2                     # cables up; not in the highest tier
//! Downlink_Latency_ns 1000
//! Oversubscribed 1               # capacity down over capacity up, whole; 1 if absent
//! Bundle 1                       # parallel cables to each switch below; 1 if absent
//! Switch_Latency_ns, Queue_Down, Queue_Up       # have no place in a fabric: left out, and noted
//! ```
//! Keys are read in any case, `#` begins a comment line. ToR t of a pod is linked to all of its aggregation switches; the one at
//! position p of its pod to the cores p, p + A, p + 2A, ... where a pod has A of them. Hosts, switches and cables are numbered as
//! htsim numbers them. What htsim refuses is refused.

use crate::formats::FormatError;
use crate::formats::topology::assemble::check_counts;
use crate::formats::topology::{Imported, shorten};
use crate::time::Duration;
use crate::topology::shapes::Cabling;
use crate::topology::{Fabric, FabricBuilder, FabricError};
use crate::units::BitsPerSec;

/// A checked file. Tier 0 is that of the ToRs, as in htsim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topo {
    pub hosts: u32,
    pub pod_size: u32,
    /// Two or three.
    pub tiers: Vec<Tier>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tier {
    pub speed_gbps: u32,
    pub radix_down: u32,
    /// 0 in the highest tier.
    pub radix_up: u32,
    pub latency_ns: u32,
    pub oversubscribed: u32,
    pub bundle: u32,
}

impl Topo {
    pub fn pods(&self) -> u32 {
        self.hosts / self.pod_size
    }

    pub fn tors_per_pod(&self) -> u32 {
        self.pod_size / self.tiers[0].radix_down
    }

    pub fn aggs_per_pod(&self) -> u32 {
        self.tiers[0].radix_up / self.tiers[1].bundle
    }

    pub fn cores_per_agg(&self) -> u32 {
        self.tiers.get(2).map_or(0, |core| self.tiers[1].radix_up / core.bundle)
    }

    /// The rules of htsim that tie the numbers together.
    ///
    /// # Errors
    /// The tier at fault (`None` for the header), the rule, and the remedy.
    pub fn check(&self) -> Result<(), (Option<usize>, String, &'static str)> {
        let broken = |tier: Option<usize>, message: String, help: &'static str| Err((tier, message, help));
        let [tor, agg] = [self.tiers[0], self.tiers[1]];
        if !self.hosts.is_multiple_of(self.pod_size) {
            return broken(
                None,
                format!("{} nodes make no whole pods of {}", self.hosts, self.pod_size),
                "make Nodes a multiple of Podsize",
            );
        }
        if self.tiers.len() == 2 && self.pods() != 1 {
            return broken(None, "a fabric of 2 tiers is one pod".to_owned(), "set Podsize to Nodes");
        }
        if !self.pod_size.is_multiple_of(tor.radix_down) {
            return broken(
                Some(0),
                format!("a pod of {} hosts has no whole ToRs of {}", self.pod_size, tor.radix_down),
                "make Podsize a multiple of Radix_Down",
            );
        }
        if tor.bundle != 1 {
            return broken(Some(0), "hosts have one cable each".to_owned(), "set Bundle of tier 0 to 1");
        }
        for (upper, above) in self.tiers.iter().enumerate().skip(1) {
            if !self.tiers[upper - 1].radix_up.is_multiple_of(above.bundle) {
                return broken(
                    Some(upper),
                    format!("bundles of {} do not make Radix_Up of tier {}", above.bundle, upper - 1),
                    "make Radix_Up a multiple of Bundle",
                );
            }
        }
        let down = u64::from(self.tors_per_pod()) * u64::from(agg.bundle);
        if u64::from(agg.radix_down) != down {
            let message =
                format!("the {} ToRs of a pod, {} cables each, need a Radix_Down of {down}", self.tors_per_pod(), agg.bundle);
            return broken(Some(1), message, "correct Radix_Down of tier 1, or Radix_Down of tier 0, Bundle or Podsize");
        }
        if let Some(core) = self.tiers.get(2) {
            let down = u64::from(self.pods()) * u64::from(core.bundle);
            if u64::from(core.radix_down) != down {
                let message = format!(
                    "a core has an aggregation switch in each of {} pods, {} cables each: a Radix_Down of {down}",
                    self.pods(),
                    core.bundle
                );
                return broken(Some(2), message, "correct Radix_Down of tier 2, or Podsize or Bundle");
            }
        }
        self.check_ratios()
    }

    fn check_ratios(&self) -> Result<(), (Option<usize>, String, &'static str)> {
        for (t, pair) in self.tiers.windows(2).enumerate() {
            let down = u128::from(pair[0].radix_down) * u128::from(pair[0].speed_gbps);
            let up = u128::from(pair[0].radix_up) * u128::from(pair[1].speed_gbps);
            if down != up * u128::from(pair[0].oversubscribed) {
                let message = format!("Oversubscribed {} but {down} Gbps down and {up} Gbps up", pair[0].oversubscribed);
                return Err((Some(t), message, "make Oversubscribed the ratio of the two; htsim knows whole ratios only"));
            }
            if t == 0 && pair[0].radix_down / pair[0].radix_up != pair[0].oversubscribed {
                let message = format!(
                    "Oversubscribed {} but Radix_Down / Radix_Up = {} / {}",
                    pair[0].oversubscribed, pair[0].radix_down, pair[0].radix_up
                );
                return Err((Some(t), message, "htsim wants them equal in tier 0: give hosts and ToR uplinks the same speed"));
            }
        }
        Ok(())
    }

    /// Hosts, switches and cables.
    fn counts(&self) -> [u64; 3] {
        let [pods, tors, aggs, up] =
            [self.pods(), self.tors_per_pod(), self.aggs_per_pod(), self.cores_per_agg()].map(u128::from);
        let [tor_up, agg_up] = [0, 1].map(|t| u128::from(self.tiers[t].radix_up));
        let cables = u128::from(self.hosts) + pods * (tors * tor_up + aggs * agg_up);
        // Any of these may be out of range, but each is far below 2^128.
        [u128::from(self.hosts), pods * (tors + aggs) + aggs * up, cables].map(|n| u64::try_from(n).unwrap_or(u64::MAX))
    }

    fn build(&self) -> Result<Fabric, FabricError> {
        let [tors, aggs, cores] = [self.tors_per_pod(), self.aggs_per_pod(), self.cores_per_agg()];
        let (pods, leaf_spine) = (self.pods(), self.tiers.len() == 2);
        let mut b = FabricBuilder::new(format!("htsim topology, {} hosts, {} tiers", self.hosts, self.tiers.len()));
        // Below the spines of a leaf-spine, a leaf is a pod of its own.
        let pod_of_tor = |t: u32| if leaf_spine { t } else { t / tors };
        let tor_switches: Vec<_> = (0..pods * tors).map(|t| b.switch(format!("edge{t}"), 1, Some(pod_of_tor(t)))).collect();
        let upper = if leaf_spine { "core" } else { "agg" };
        let agg_switches: Vec<_> =
            (0..pods * aggs).map(|a| b.switch(format!("{upper}{a}"), 2, (!leaf_spine).then_some(a / aggs))).collect();
        let core_switches: Vec<_> = (0..aggs * cores).map(|c| b.switch(format!("core{c}"), 3, None)).collect();
        let links: Vec<Cabling> = self.tiers.iter().map(Tier::cabling).collect();
        for h in 0..self.hosts {
            let tor = h / self.tiers[0].radix_down;
            let host = b.host(format!("h{h}"), Some(pod_of_tor(tor)));
            b.cable(host, tor_switches[tor as usize], links[0].rate, links[0].delay);
        }
        for (t, &tor) in (0u32..).zip(&tor_switches) {
            for a in 0..aggs * self.tiers[1].bundle {
                let agg = t / tors * aggs + a / self.tiers[1].bundle;
                b.cable(tor, agg_switches[agg as usize], links[1].rate, links[1].delay);
            }
        }
        for (a, &agg) in (0u32..).zip(&agg_switches) {
            for c in 0..if leaf_spine { 0 } else { self.tiers[1].radix_up } {
                let core = a % aggs + aggs * (c / self.tiers[2].bundle);
                b.cable(agg, core_switches[core as usize], links[2].rate, links[2].delay);
            }
        }
        b.build()
    }
}

impl Tier {
    fn cabling(&self) -> Cabling {
        Cabling {
            rate: BitsPerSec(u64::from(self.speed_gbps) * 1_000_000_000),
            delay: Duration::from_ns(u64::from(self.latency_ns)),
        }
    }
}

pub(super) fn is_header_key(word: &str) -> bool {
    HEADER_KEYS.iter().any(|k| k.eq_ignore_ascii_case(word))
}

pub(super) fn read(text: &str) -> Result<Imported, FormatError> {
    let (file, notes) = File::read(text)?;
    let topo = file.topo()?;
    topo.check().map_err(|(tier, message, help)| {
        let line = tier.map_or(file.header[2].map_or(1, |v| v.line), |t| file.tiers[t].as_ref().map_or(1, |tier| tier.line));
        FormatError::new(line, message, help)
    })?;
    let [hosts, switches, cables] = topo.counts();
    check_counts(1, hosts, switches, cables)?;
    let fabric = topo.build().map_err(|e| FormatError::new(1, e.to_string(), "check the numbers of the file"))?;
    Ok(Imported { fabric, notes })
}

/// A number and where it stands.
#[derive(Clone, Copy)]
struct Value {
    line: usize,
    number: u32,
}

/// The numbers of a file by [`HEADER_KEYS`] and [`TIER_KEYS`].
struct File {
    header: [Option<Value>; HEADER_KEYS.len()],
    tiers: [Option<FileTier>; 3],
    last_line: usize,
}

struct FileTier {
    line: usize,
    values: [Option<Value>; TIER_KEYS.len()],
}

const MAX_GBPS: u64 = BitsPerSec::MAX_READ.0 / 1_000_000_000;
const HEADER_KEYS: [&str; 3] = ["Nodes", "Tiers", "Podsize"];
const TIER_KEYS: [&str; 9] = [
    "Downlink_speed_Gbps",
    "Radix_Down",
    "Radix_Up",
    "Downlink_Latency_ns",
    "Oversubscribed",
    "Bundle",
    "Switch_Latency_ns",
    "Queue_Down",
    "Queue_Up",
];
/// From here on, the values of [`TIER_KEYS`] have no place in a fabric.
const FIRST_LEFT_OUT: usize = 6;

impl File {
    fn read(text: &str) -> Result<(Self, Vec<String>), FormatError> {
        let mut file =
            Self { header: [None; HEADER_KEYS.len()], tiers: [None, None, None], last_line: text.lines().count().max(1) };
        let mut current: Option<usize> = None;
        let mut notes = Vec::new();
        for (line, words) in text.lines().enumerate().map(|(i, l)| (i + 1, l.split_whitespace().collect::<Vec<_>>())) {
            let (key, number) = match words[..] {
                [] => continue,
                [key, ..] if key.starts_with('#') => continue,
                [key, number] => (key, number),
                [key, ..] => {
                    return Err(FormatError::new(
                        line,
                        format!("`{}` needs one number", shorten(key)),
                        "write a key and a whole number on each line",
                    ));
                }
            };
            let number: u32 = number.parse().map_err(|_| {
                let message = format!("`{}` is not a whole number", shorten(number));
                FormatError::new(line, message, "htsim reads whole numbers only: use another unit or value")
            })?;
            if key.eq_ignore_ascii_case("Tier") {
                current = Some(file.begin_tier(line, number)?);
                continue;
            }
            let keys: &[&str] = if current.is_some() { &TIER_KEYS } else { &HEADER_KEYS };
            let Some(i) = keys.iter().position(|k| k.eq_ignore_ascii_case(key)) else {
                let message = format!("`{}` is not known here", shorten(key));
                return Err(FormatError::new(line, message, format!("the keys are {}", keys.join(", "))));
            };
            let slot = match current {
                None => &mut file.header[i],
                Some(t) => &mut file.tiers[t].as_mut().expect("begun").values[i],
            };
            if slot.replace(Value { line, number }).is_some() {
                return Err(FormatError::new(line, format!("`{}` is given twice", keys[i]), "remove one of the lines"));
            }
            if current.is_some() && i >= FIRST_LEFT_OUT && number > 0 {
                notes.push(format!("line {line}: {} has no place in a fabric, and is left out", keys[i]));
            }
        }
        Ok((file, notes))
    }

    fn begin_tier(&mut self, line: usize, number: u32) -> Result<usize, FormatError> {
        let tier = number as usize;
        match self.tiers.get_mut(tier) {
            None => Err(FormatError::new(line, format!("there is no tier {number}"), "the tiers are 0, 1 and 2")),
            Some(Some(first)) => Err(FormatError::new(
                line,
                format!("tier {number} begins on line {} already", first.line),
                "describe each tier once",
            )),
            Some(slot) => {
                *slot = Some(FileTier { line, values: [None; TIER_KEYS.len()] });
                Ok(tier)
            }
        }
    }

    fn topo(&self) -> Result<Topo, FormatError> {
        let header = |i: usize| {
            let missing = || FormatError::new(1, format!("`{}` is missing", HEADER_KEYS[i]), "give it before the first `Tier`");
            positive(HEADER_KEYS[i], self.header[i].ok_or_else(missing)?)
        };
        let [hosts, tiers, pod_size] = [header(0)?, header(1)?, header(2)?];
        check_counts(self.header[0].map_or(1, |v| v.line), u64::from(hosts), 0, 0)?;
        if !(2..=3).contains(&tiers) {
            let line = self.header[1].map_or(1, |v| v.line);
            return Err(FormatError::new(line, format!("{tiers} tiers"), "htsim knows fabrics of 2 and 3 tiers"));
        }
        let tiers = tiers as usize;
        if let Some(extra) = self.tiers[tiers..].iter().flatten().next() {
            return Err(FormatError::new(
                extra.line,
                format!("a tier above the {tiers} of the header"),
                "remove it, or correct `Tiers`",
            ));
        }
        let tiers = (0..tiers).map(|t| self.tier(t, t + 1 == tiers)).collect::<Result<_, _>>()?;
        Ok(Topo { hosts, pod_size, tiers })
    }

    fn tier(&self, t: usize, highest: bool) -> Result<Tier, FormatError> {
        let Some(tier) = &self.tiers[t] else {
            return Err(FormatError::new(
                self.last_line,
                format!("tier {t} is missing"),
                format!("describe it below a line `Tier {t}`"),
            ));
        };
        let needed = |i: usize| {
            let missing = || FormatError::new(tier.line, format!("tier {t} has no `{}`", TIER_KEYS[i]), "add it below this line");
            positive(TIER_KEYS[i], tier.values[i].ok_or_else(missing)?)
        };
        let optional = |i: usize| tier.values[i].map_or(Ok(1), |v| positive(TIER_KEYS[i], v));
        let radix_up = match (highest, tier.values[2]) {
            (false, _) => needed(2)?,
            (true, None) => 0,
            (true, Some(v)) => return Err(FormatError::new(v.line, "the highest tier has no cables up", "remove the line")),
        };
        let speed_gbps = needed(0)?;
        if let (true, Some(v)) = (u64::from(speed_gbps) > MAX_GBPS, tier.values[0]) {
            let message = format!("Downlink_speed_Gbps {speed_gbps}: a link has at most {MAX_GBPS}");
            return Err(FormatError::new(v.line, message, "the unit is Gbps: write 10 for 10Gbps"));
        }
        Ok(Tier {
            speed_gbps,
            radix_down: needed(1)?,
            radix_up,
            latency_ns: needed(3)?,
            oversubscribed: optional(4)?,
            bundle: optional(5)?,
        })
    }
}

fn positive(key: &str, value: Value) -> Result<u32, FormatError> {
    if value.number == 0 {
        return Err(FormatError::new(
            value.line,
            format!("`{key}` is 0"),
            "htsim takes 0 for a missing value: give it 1 or more",
        ));
    }
    Ok(value.number)
}
