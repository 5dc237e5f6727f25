//! Tenants' rates that all edge switches hold together: counts and shares between the data plane and [`SharedLimits`], reports over the special VLANs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_control::netlord::limits::{Counted, SharedLimits};
use weft_control::time::Instant;
use weft_control::wire::netlord::{Claim, MAX_CLAIMS, emit_claims, parse_claims};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::{BitsPerSec, MacAddr, TenantId};

use crate::dataplane::PlaneError;
use crate::netlord::dataplane::{Limit, SwitchPlane};
use crate::netlord::metrics;

/// An edge switch's part in the limits that it shares with others.
pub(super) struct Shares {
    own: MacAddr,
    vlans: Vec<VlanId>,
    limits: SharedLimits,
    /// What the data plane has.
    written: BTreeMap<TenantId, u64>,
    malformed: u64,
}

impl Shares {
    /// Goes on with what an earlier process left. None if the switch limits alone, or nobody by a rate.
    pub(super) fn start(
        own: Option<MacAddr>,
        vlans: Vec<VlanId>,
        limits: &[(TenantId, Limit)],
        plane: &mut SwitchPlane,
        now: Instant,
    ) -> Result<Option<Self>, PlaneError> {
        let rate = |&(tenant, limit): &(TenantId, Limit)| match limit {
            Limit::Rate { bytes_per_second, .. } => Some((tenant, bytes_per_second)),
            Limit::Deny => None,
        };
        let rates: Vec<(TenantId, u64)> = limits.iter().filter_map(rate).collect();
        let Some(own) = own.filter(|_| !vlans.is_empty() && !rates.is_empty()) else {
            plane.retain_shares(&[])?;
            return Ok(None);
        };
        plane.retain_shares(&rates.iter().map(|&(tenant, _)| tenant).collect::<Vec<_>>())?;
        let with_shares = rates.into_iter().map(|(tenant, rate)| Ok((tenant, rate, plane.share(tenant)?)));
        let with_shares = with_shares.collect::<Result<Vec<_>, PlaneError>>()?;
        let limits = SharedLimits::new(own, now, with_shares);
        let mut shares = Self { own, vlans, limits, written: BTreeMap::new(), malformed: 0 };
        shares.write(plane)?;
        Ok(Some(shares))
    }

    pub(super) fn deadline(&self) -> Instant {
        self.limits.deadline()
    }

    /// Counts, reports, and writes the shares, if that is due.
    pub(super) fn poll(&mut self, plane: &mut SwitchPlane, now: Instant) -> Result<(), PlaneError> {
        if now < self.limits.deadline() {
            return Ok(());
        }
        let counted = self.limits.shares().map(|(tenant, _)| Ok((tenant, counted(plane, tenant)?)));
        let counted = counted.collect::<Result<BTreeMap<TenantId, Counted>, PlaneError>>()?;
        let claims = self.limits.count(now, |tenant| counted.get(&tenant).copied().unwrap_or_default());
        if let Some(claims) = claims {
            self.report(plane, &claims);
        }
        metrics::shared_limits(self.limits.peers().count());
        self.write(plane)
    }

    /// Takes another switch's report.
    pub(super) fn heard(&mut self, plane: &mut SwitchPlane, frame: &[u8], now: Instant) -> Result<(), PlaneError> {
        match parse_claims(frame) {
            Ok((from, claims)) => self.limits.heard(now, from, &claims),
            Err(error) => {
                self.malformed += 1;
                tracing::debug!(%error, "a report of another edge switch is wrong");
            }
        }
        self.write(plane)
    }

    /// To all other edge switches, over each port to the fabric and each special VLAN there. One that gets a report twice takes it twice.
    fn report(&self, plane: &SwitchPlane, claims: &[Claim]) {
        let mut frame = Vec::new();
        let none = [&[][..]];
        let parts = claims.chunks(MAX_CLAIMS).chain(none.into_iter().filter(|_| claims.is_empty()));
        for part in parts {
            for (ifindex, port) in plane.ports().filter(|(_, port)| port.number.is_none()) {
                for &vlan in self.vlans.iter().filter(|&&vlan| port.is_in(vlan)) {
                    frame.clear();
                    emit_claims(self.own, (port.native != Some(vlan)).then_some(vlan), part, &mut frame);
                    // A port that is down: the next report comes soon.
                    if let Err(error) = plane.send(ifindex, &frame) {
                        tracing::debug!(%error, "a report was not sent");
                    }
                }
            }
        }
    }

    fn write(&mut self, plane: &mut SwitchPlane) -> Result<(), PlaneError> {
        for (tenant, share) in self.limits.shares() {
            if self.written.get(&tenant) != Some(&share) {
                plane.set_share(tenant, share)?;
                self.written.insert(tenant, share);
            }
        }
        Ok(())
    }

    /// Of a tenant, for people.
    pub(super) fn share(&self, tenant: TenantId) -> Option<String> {
        self.written.get(&tenant).map(|share| BitsPerSec(share.saturating_mul(8)).to_string())
    }

    pub(super) fn status(&self) -> Value {
        let switches: Vec<String> = self.limits.peers().map(|mac| mac.to_string()).collect();
        json!({ "switches": switches, "malformed": self.malformed })
    }
}

fn counted(plane: &SwitchPlane, tenant: TenantId) -> Result<Counted, PlaneError> {
    let sent = plane.tenant(tenant)?;
    Ok(sent.map_or_else(Counted::default, |sent| Counted { bytes: sent.bytes, limited: sent.limited }))
}
