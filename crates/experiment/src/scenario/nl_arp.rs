//! `[traffic] pattern = "nl-arp"`: servers that announce their VMs to each other, or look them up in a directory (NetLord, sections 3.9 and 4.2).

use weft_fabric::Duration;
use weft_sim::netlord::Means;

use crate::error::KeyError;
use crate::scenario::keys::Keys;

/// The pattern's name.
pub const NL_ARP: &str = "nl-arp";

/// The traffic of the pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct NlArpLoad {
    /// How servers learn.
    pub means: Means,
    /// VMs, spread evenly over the fabric's hosts.
    pub vms: u32,
    /// VMs of a tenant.
    pub vms_per_tenant: u32,
    /// VMs that boot per second until all have, before the measurement.
    pub boots_per_s: f64,
    /// VMs that move, or reboot elsewhere, per second.
    pub moves_per_s: f64,
    /// First packets from a VM to another of its tenant, per second.
    pub sends_per_s: f64,
    /// Fraction of the broadcasts that is lost, independently at each server.
    pub loss: f64,
    /// One way, from server to server.
    pub latency: Duration,
}

impl NlArpLoad {
    /// Reads `[traffic]` of this pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let load = Self {
            means: keys.word("locations", &[("push", Means::Push), ("pull", Means::Pull)], Means::Push)?,
            vms: keys.or("vms", 100_000)?,
            vms_per_tenant: keys.or("vms_per_tenant", 74)?,
            boots_per_s: keys.or("boots_per_s", 100_000.0)?,
            moves_per_s: keys.or("moves_per_s", 0.0)?,
            sends_per_s: keys.or("sends_per_s", 0.0)?,
            loss: keys.or("loss", 0.0)?,
            latency: keys.or("latency", Duration::from_us(50))?,
        };
        keys.done()?;
        load.check(keys)?;
        Ok(load)
    }

    fn check(&self, keys: &Keys<'_>) -> Result<(), KeyError> {
        keys.check_range("vms", self.vms, 2..=4_000_000, "write vms = 1_000_000")?;
        keys.check_range("vms_per_tenant", self.vms_per_tenant, 2..=self.vms, "leave it out for 74")?;
        for (key, rate, least) in [
            ("boots_per_s", self.boots_per_s, 1.0),
            ("moves_per_s", self.moves_per_s, 0.0),
            ("sends_per_s", self.sends_per_s, 0.0),
        ] {
            keys.check_range(key, rate, least..=1e7, "write a number such as 164_000")?;
        }
        if self.moves_per_s + self.sends_per_s <= 0.0 {
            return Err(keys.error("moves_per_s", "nothing happens", "add `moves_per_s` or `sends_per_s`"));
        }
        keys.check_range("loss", self.loss, 0.0..=1.0, "write 0.1 for 10 %")
    }
}
