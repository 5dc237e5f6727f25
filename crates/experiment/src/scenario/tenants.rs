//! `[traffic] pattern = "tenants"` with `[[tenant]]`, `[switches]` and `[overlay]`: tenants' shuffles over switches that learn addresses
//! (NetLord section 5).

use toml::Value;
use weft_fabric::traffic::tenants::ShuffleLoad;
use weft_fabric::{Bytes, Duration, Fabric, HostId};
use weft_sim::packet::bridged::{Addresses, FibConfig, Load, Tenants};

use crate::error::{KeyError, Problem};
use crate::scenario::keys::{Keys, Numbers};

/// The pattern's name.
pub const TENANTS: &str = "tenants";
/// The overlay's name.
pub const NETLORD: &str = "netlord";

/// `[traffic]` of this pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantLoad {
    /// Bytes of a transfer.
    pub size: Bytes,
    /// Incoming transfers of a VM at a time.
    pub incoming: u32,
    /// From a refusal to the next attempt.
    pub pause: Duration,
    /// Over how long a time the VMs begin.
    pub start_spread: Duration,
    /// How often the shuffle is repeated; 0: nothing is sent, and only metrics of the plan are computed.
    pub trials: u32,
    /// Pause between two trials.
    pub gap: Duration,
    /// How much smaller the simulated network is than the described one.
    pub scale: Scale,
}

/// A smaller network with the same ratio of table misses to frames. Tenants, rates of links, entries of tables, and the rate and the queue of
/// their learning are multiplied by the factor; times, frames and transfers are as they were, and so is the rate of each VM. Buffers of ports
/// are multiplied by its square root: a link that n flows share needs the bandwidth-delay product divided by the square root of n (Appenzeller,
/// Keslassy and McKeown, "Sizing router buffers").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(f64);

/// Tenants, switches and overlay of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSpec {
    /// `[[tenant]]`.
    pub tenants: Vec<TenantTable>,
    /// `[switches]`.
    pub fib: FibConfig,
    /// Whose addresses switches see: as `[overlay]` sets.
    pub addresses: Addresses,
}

/// One `[[tenant]]`: so many that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantTable {
    /// How many.
    pub count: u32,
    /// The hosts of each; `None`: all.
    pub hosts: Option<Vec<u32>>,
    /// VMs of each on each host.
    pub vms_per_host: u32,
    /// Where it stands, for errors.
    key: String,
}

impl TenantLoad {
    /// Reads `[traffic]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let load = Self {
            size: keys.or("size", Bytes(10_000_000))?,
            incoming: keys.or("incoming", 3)?,
            pause: keys.or("pause", Duration::from_ms(10))?,
            start_spread: keys.or("start_spread", Duration::from_secs(1))?,
            trials: keys.or("trials", 1)?,
            gap: keys.or("gap", Duration::from_secs(320))?,
            scale: Scale(keys.or("scale", 1.0)?),
        };
        keys.has("pattern");
        keys.done()?;
        keys.check_not_zero("size", load.size, "a transfer of 0 bytes", "write a size such as \"10MB\"")?;
        keys.check_not_zero("incoming", load.incoming, "every VM would refuse everything", "write 3, as NetLord")?;
        keys.check_range("trials", load.trials, 0..=MOST_TRIALS, "write 3, as NetLord")?;
        match load.scale {
            Scale(it) if it > 0.0 && it <= 1.0 => Ok(load),
            Scale(it) => Err(keys.error("scale", format!("a network times {it}"), "write a number above 0 and at most 1")),
        }
    }

    /// The load; `duration` is the limit of a trial.
    pub fn load(&self, duration: Duration, warmup: Duration) -> Load {
        let Self { size, incoming, pause, start_spread, trials, gap, .. } = *self;
        Load { bytes: size, incoming, pause, start_spread, trials, duration, gap, warmup }
    }

    /// What each VM does in a trial.
    pub const fn shuffle(&self) -> ShuffleLoad {
        let Self { size, incoming, pause, start_spread, .. } = *self;
        ShuffleLoad { size, incoming, pause, start_spread }
    }
}

impl Scale {
    /// The described network itself.
    pub const WHOLE: Self = Self(1.0);

    /// The network with links of these rates.
    pub fn network(self, fabric: Fabric) -> Fabric {
        fabric.scaled(self.0)
    }

    /// A smaller table, of whole buckets.
    pub fn fib(self, fib: FibConfig) -> FibConfig {
        let ways = fib.ways.unwrap_or(1);
        if ways == 0 || !fib.entries.is_multiple_of(ways) {
            return fib; // it is refused
        }
        FibConfig {
            entries: self.count(fib.entries / ways).max(1).min(fib.entries / ways) * ways,
            learn_rate: fib.learn_rate.map(|rate| self.count(rate).max(1)),
            learn_queue: self.count(fib.learn_queue),
            ..fib
        }
    }

    /// A smaller buffer of a port.
    pub fn buffer(self, buffer: Bytes) -> Bytes {
        Bytes((buffer.0 as f64 * libm::sqrt(self.0)).round() as u64)
    }

    fn count(self, of: u32) -> u32 {
        (f64::from(of) * self.0).round() as u32
    }
}

impl TenantSpec {
    /// Reads `[[tenant]]`, `[switches]` and `[overlay]`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(root: &Keys<'_>) -> Result<Self, KeyError> {
        let tenants = root.tables("tenant")?.iter().map(TenantTable::read).collect::<Result<Vec<_>, _>>()?;
        if tenants.is_empty() {
            return Err(root.error("tenant", "there are no tenants", "add `[[tenant]]` with count = 10"));
        }
        Ok(Self { tenants, fib: read_switches(&root.table("switches")?)?, addresses: read_overlay(&root.table("overlay")?)? })
    }

    /// The tenants on a fabric.
    ///
    /// # Errors
    /// Hosts that it does not have, and fractions of tenants.
    pub fn on(&self, fabric: &Fabric, scale: Scale) -> Result<Vec<Tenants>, KeyError> {
        self.tenants.iter().map(|t| t.on(fabric, scale)).collect()
    }

    /// VMs of a server.
    pub fn vms_per_host(&self) -> u64 {
        self.tenants.iter().map(|t| u64::from(t.count) * u64::from(t.vms_per_host)).sum()
    }
}

impl TenantTable {
    fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let table = Self {
            count: keys.or("count", 1)?,
            hosts: keys.opt::<Numbers>("hosts")?.map(|n| n.0),
            vms_per_host: keys.or("vms_per_host", 1)?,
            key: keys.path_of("").trim_end_matches('.').to_owned(),
        };
        // What only the lab knows: `lab_tenants` reads it.
        for key in ["id", "name", "limit"] {
            keys.has(key);
        }
        keys.done()?;
        for (key, value) in [("count", table.count), ("vms_per_host", table.vms_per_host)] {
            keys.check_not_zero(key, value, "nobody is there", "write 1 or more")?;
        }
        Ok(table)
    }

    fn on(&self, fabric: &Fabric, scale: Scale) -> Result<Tenants, KeyError> {
        let count = scale.count(self.count);
        if (f64::from(self.count) * scale.0 - f64::from(count)).abs() > 1e-6 {
            let message = format!("{} tenants times a `traffic.scale` of {} are not a whole number", self.count, scale.0);
            return Err(KeyError::new(format!("{}.count", self.key), message, "choose a scale such as 0.1"));
        }
        let last = fabric.host_count() as u32 - 1;
        let mut hosts: Vec<u32> = self.hosts.clone().unwrap_or_else(|| (0..=last).collect());
        hosts.sort_unstable();
        hosts.dedup();
        if let Some(&host) = hosts.iter().find(|&&h| h > last) {
            let key = format!("{}.hosts", self.key);
            return Err(KeyError::at(key, Problem::NoHost { host, hosts: fabric.host_count() }));
        }
        Ok(Tenants { count, hosts: hosts.into_iter().map(HostId).collect(), vms_per_host: self.vms_per_host })
    }
}

pub(super) fn read_switches(keys: &Keys<'_>) -> Result<FibConfig, KeyError> {
    let fib = FibConfig {
        entries: keys.or("fib_entries", FIB_ENTRIES)?,
        ways: keys.opt("fib_ways")?,
        ageing: keys.or("fib_ageing", Duration::from_secs(300))?,
        learn_rate: keys.opt("learn_rate")?,
        learn_queue: keys.or("learn_queue", 1_000)?,
    };
    // Of the lab alone.
    keys.has("core");
    keys.done()?;
    keys.check_not_zero("fib_ageing", fib.ageing, "switches would forget at once", "write a time such as \"300s\"")?;
    let help = "leave it out for switches that learn at once";
    keys.check_not_zero("learn_rate", fib.learn_rate.unwrap_or(1), "switches would never learn", help)?;
    Ok(fib)
}

fn read_overlay(keys: &Keys<'_>) -> Result<Addresses, KeyError> {
    let netlord = keys.word("kind", &[("none", false), (NETLORD, true)], false)?;
    let addresses = keys.word("addresses", &[("vm", Addresses::Vm), ("host", Addresses::Host)], Addresses::Vm)?;
    let is_given = keys.has("addresses");
    // Of the lab alone.
    for key in ["tenants", "provider", "locations"] {
        keys.has(key);
    }
    keys.done()?;
    match netlord {
        true if is_given => {
            let message = "with NetLord switches see the addresses of edge switches";
            Err(keys.error("addresses", message, "leave it out, or write kind = \"none\""))
        }
        true => Ok(Addresses::Edge),
        false => Ok(addresses),
    }
}

/// Whether a scenario's traffic is of this pattern.
pub fn is_pattern(root: &Keys<'_>) -> bool {
    root.table("traffic").is_ok_and(|t| t.raw().get("pattern").and_then(Value::as_str) == Some(TENANTS))
}

/// 64K.
const FIB_ENTRIES: u32 = 65_536;
const MOST_TRIALS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rates_are_divided_and_buffers_by_the_square_root() {
        let fib = FibConfig {
            entries: 65_536,
            ways: None,
            ageing: Duration::from_secs(300),
            learn_rate: Some(400),
            learn_queue: 1_000,
        };
        assert_eq!(
            Scale(0.01).fib(fib),
            FibConfig { entries: 655, learn_rate: Some(4), learn_queue: 10, ..fib },
            "the ageing stays: it is a time"
        );
        assert_eq!(Scale::WHOLE.fib(fib), fib);
        let buckets = FibConfig { ways: Some(4), ..fib };
        assert_eq!(Scale(0.01).fib(buckets).entries, 656, "whole buckets");
        assert_eq!(Scale(0.0001).fib(FibConfig { entries: 100, ..fib }).entries, 1, "no table becomes none");
        assert_eq!(Scale(0.01).buffer(Bytes(500_000)), Bytes(50_000));
    }
}
