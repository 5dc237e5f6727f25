//! Where VIFs are, from the configured source: from NL-ARP all of them; or from the directory the tenants', and from NL-ARP those of the provider, by which
//! directory servers are reached.
//!
//! ```text
//!   tenant 1  ------------> NlArp
//!   others  --- push -----> NlArp
//!           '-- pull -----> Pull --> directory servers, in tenant 1
//! ```

use weft_fabric::TenantId;

use super::locations::{Binding, LocationInput, LocationOutput, Locations, Query};
use super::nl_arp::NlArp;
use super::pull::Pull;
use super::{PROVIDER, Vif};
use crate::time::Instant;
use crate::wire::netlord::{Here, NlArp as Message, NotHere, Unicast, Where};

/// Both, or the first alone.
#[derive(Debug)]
pub struct Sources {
    nl_arp: NlArp,
    pull: Option<Pull>,
}

impl Sources {
    /// NL-ARP, and the directory for tenants if it is given.
    pub const fn new(nl_arp: NlArp, pull: Option<Pull>) -> Self {
        Self { nl_arp, pull }
    }

    /// NL-ARP's.
    pub const fn nl_arp(&self) -> &NlArp {
        &self.nl_arp
    }

    /// The directory's, if tenants are looked up there.
    pub const fn pull(&self) -> Option<&Pull> {
        self.pull.as_ref()
    }

    fn is_pulled(&self, tenant: TenantId) -> bool {
        tenant != PROVIDER && self.pull.is_some()
    }
}

impl Locations for Sources {
    fn find(&self, asker: Vif, query: Query) -> Option<Binding> {
        match &self.pull {
            Some(pull) if self.is_pulled(query.tenant) => pull.find(asker, query),
            _ => self.nl_arp.find(asker, query),
        }
    }

    fn announces(&self, tenant: TenantId) -> bool {
        !self.is_pulled(tenant)
    }

    fn handle(&mut self, now: Instant, input: LocationInput<'_>) {
        let tenant = match &input {
            LocationInput::Start { vif, .. }
            | LocationInput::Stop(vif)
            | LocationInput::Release { vif, .. }
            | LocationInput::Adopt { vif, .. }
            | LocationInput::Misdelivered { vif, .. } => vif.tenant,
            LocationInput::Seek { query, .. } | LocationInput::Confirm(query) => query.tenant,
            LocationInput::Broadcast { message, .. } => match message {
                Message::Here(Here { vif, .. }) | Message::NotHere(NotHere { vif }) => vif.tenant,
                Message::Where(Where { tenant, .. }) => *tenant,
            },
            LocationInput::Unicast(Unicast::Here { vif, .. } | Unicast::NotHere { vif, .. }) => vif.tenant,
            LocationInput::Unicast(Unicast::Chirp { .. }) => PROVIDER,
            LocationInput::Servers(_) | LocationInput::Datagram { .. } | LocationInput::Timer => {
                self.pull.iter_mut().for_each(|pull| pull.handle(now, input));
                return self.nl_arp.handle(now, input);
            }
        };
        let is_pulled = self.is_pulled(tenant);
        match &mut self.pull {
            Some(pull) if is_pulled => pull.handle(now, input),
            _ => self.nl_arp.handle(now, input),
        }
    }

    fn poll(&mut self) -> Option<LocationOutput> {
        self.nl_arp.poll().or_else(|| self.pull.as_mut()?.poll())
    }

    fn deadline(&self) -> Option<Instant> {
        self.nl_arp.deadline().into_iter().chain(self.pull.as_ref().and_then(Locations::deadline)).min()
    }

    fn table_bytes(&self) -> usize {
        self.nl_arp.table_bytes() + self.pull.as_ref().map_or(0, Locations::table_bytes)
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::MacAddr;
    use weft_fabric::rng::{self, Stream};

    use super::*;
    use crate::directory::PrincipalId;
    use crate::directory::auth::Secret;
    use crate::directory::resolver::{Resolver, ResolverConfig};
    use crate::netlord::nl_arp::NlArpConfig;
    use crate::netlord::{EdgePort, Location, MacSpace};

    fn sources(pulls: bool) -> Sources {
        let me = PrincipalId(40);
        let rng = |n| rng::stream(n, Stream::Traffic);
        let resolver = Resolver::new(ResolverConfig::new(me), &Secret::new([7; 32]).key_of(me), rng(1));
        let mut sources = Sources::new(NlArp::new(NlArpConfig::default(), rng(2)), pulls.then(|| Pull::new(resolver)));
        sources.handle(Instant::ZERO, LocationInput::Servers(&["10.1.0.2:5303".parse().unwrap()]));
        sources
    }

    fn vif(tenant: u32, n: u8) -> Vif {
        Vif { tenant: TenantId(tenant), space: MacSpace(1), mac: MacAddr([2, 0, 0, 0, 0, n]) }
    }

    fn place(n: u8) -> Location {
        Location { switch: MacAddr([2, 9, 0, 0, 0, n]), port: EdgePort::new(3).unwrap() }
    }

    fn outputs(sources: &mut Sources) -> Vec<LocationOutput> {
        std::iter::from_fn(|| sources.poll()).collect()
    }

    /// Which of both is used shows in what is sent: broadcasts, or datagrams.
    fn asks(sources: &mut Sources, tenant: u32) -> (bool, bool) {
        let now = Instant::ZERO;
        let seek = LocationInput::Seek { asker: vif(tenant, 1), query: Query::vif(vif(tenant, 2)) };
        sources.handle(now, LocationInput::Start { vif: vif(tenant, 1), at: place(1), addresses: &[] });
        sources.handle(now, seek);
        sources.handle(sources.deadline().unwrap_or(now), LocationInput::Timer);
        let out = outputs(sources);
        let is_broadcast = out.iter().any(|it| matches!(it, LocationOutput::Broadcast(_)));
        (is_broadcast, out.iter().any(|it| matches!(it, LocationOutput::Datagram { .. })))
    }

    #[test]
    fn the_provider_is_pushed_and_tenants_are_as_configured() {
        assert_eq!(asks(&mut sources(false), 7), (true, false));
        assert_eq!(asks(&mut sources(false), 1), (true, false));
        assert_eq!(asks(&mut sources(true), 7), (false, true), "no broadcast of a tenant's");
        assert!(asks(&mut sources(true), 1).0);
    }

    #[test]
    fn what_is_broadcast_of_a_tenant_is_not_believed_where_the_directory_says() {
        for (tenant, pulls, is_believed) in [(7, false, true), (7, true, false), (1, true, true)] {
            let mut sources = sources(pulls);
            let here = Here { vif: vif(tenant, 2), ip4: None, ip6: None };
            sources.handle(Instant::ZERO, LocationInput::Broadcast { from: place(2), message: Message::Here(here) });
            let found = sources.find(vif(tenant, 1), Query::vif(vif(tenant, 2)));
            assert_eq!(found.is_some(), is_believed, "{tenant} {pulls}");
        }
    }
}
