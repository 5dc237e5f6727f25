//! `[agents]`: a scheduler of VL2's agents, in place of OpenFlow switches.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use weft_control::controller::Controller;
use weft_control::directory::PrincipalId;
use weft_control::hedera::{Hedera, HederaConfig};
use weft_control::time::Duration;
use weft_control::vl2::placement::{AgentHost, AgentIdentities, AgentIdentityError, AgentNetwork, NetworkSettings};
use weft_control::wire::vl2::placement::PlacementKey;
use weft_directory::daemon::config::{Place, address_or_off};
use weft_fabric::{Fabric, SwitchId};

use super::standby::Standby;
use super::{Algorithm, Scheduler, default_metrics, default_socket, find, read_fabric};
use crate::error::{Error, Result};
use crate::leader::Election;

/// Everything that the daemon needs to steer agents, checked.
pub struct AgentsConfig {
    /// The hosts and intermediate switches.
    pub identities: AgentIdentities,
    /// The scheduler; `None`: flows keep to anycast addresses.
    pub hedera: Option<HederaConfig>,
    /// From one round to the next.
    pub period: Duration,
    /// After which flows of an agent that no longer reports are forgotten.
    pub idle_timeout: Duration,
    /// Where agents report.
    pub listen: SocketAddr,
    /// The Unix socket for commands.
    pub socket: PathBuf,
    /// Where Prometheus metrics are served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// How it is decided which of several schedulers leads; `None`: the one that started last.
    pub election: Option<Election>,
}

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    fabric: Spanned<PathBuf>,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    metrics: Option<SocketAddr>,
    #[serde(default)]
    scheduler: Scheduler,
    agents: Agents,
    listen: Option<Spanned<IgnoredAny>>,
    tls: Option<Spanned<IgnoredAny>>,
    standby: Option<Spanned<Standby>>,
    switch: Option<Spanned<IgnoredAny>>,
    host: Option<Spanned<IgnoredAny>>,
}

/// `[agents]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Agents {
    listen: Spanned<SocketAddr>,
    intermediates: Spanned<BTreeMap<Spanned<String>, Ipv4Addr>>,
    host: Spanned<Vec<HostKeys>>,
}

/// `[[agents.host]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostKeys {
    name: Spanned<String>,
    principal: Spanned<u32>,
    placement_key: Spanned<String>,
    addresses: Spanned<Vec<IpAddr>>,
}

impl AgentsConfig {
    /// Reads a configuration with `[agents]`, and the fabric that it names.
    pub(super) fn read(place: &Place<'_>, folder: &Path) -> Result<Self> {
        let keys: Keys = place.parse()?;
        keys.check_alone(place)?;
        let fabric = Arc::new(read_fabric(place, folder, &keys.fabric)?);
        let identities = keys.identities(place, &fabric)?;
        let hedera = keys.scheduler.hedera();
        let idle_timeout = keys.scheduler.idle_timeout(place, hedera.period)?;
        keys.scheduler.check(place, &fabric, hedera, keys.fabric.span())?;
        let election = keys.standby.as_ref().map(|standby| standby.get_ref().election(place, folder)).transpose()?;
        if keys.agents.listen.get_ref().port() == 0 {
            return Err(place.error(keys.agents.listen.span(), "no port", "write such as \"10.1.1.2:5305\""));
        }
        let hedera_if_any = (keys.scheduler.algorithm() != Algorithm::None).then_some(hedera);
        Ok(Self {
            identities,
            hedera: hedera_if_any,
            period: hedera.period,
            idle_timeout,
            listen: *keys.agents.listen.get_ref(),
            socket: folder.join(&keys.socket),
            metrics: keys.metrics,
            election,
        })
    }

    /// The network of which no agent has reported.
    pub(crate) fn network(&self, generation: u64) -> AgentNetwork {
        let fabric = Arc::clone(self.identities.fabric());
        let controller = self.hedera.and_then(|hedera| Hedera::new(fabric, hedera).ok());
        let controller = controller.map(|controller| Box::new(controller) as Box<dyn Controller>);
        let settings = NetworkSettings { generation, period: self.period, idle_timeout: self.idle_timeout };
        AgentNetwork::new(self.identities.clone(), controller, settings)
    }
}

impl Keys {
    /// What steers OpenFlow switches is not for agents: two schedulers would place the same flows.
    fn check_alone(&self, place: &Place<'_>) -> Result<()> {
        let others = [("listen", &self.listen), ("tls", &self.tls), ("switch", &self.switch), ("host", &self.host)];
        match others.into_iter().find_map(|(name, key)| Some((name, key.as_ref()?))) {
            None => Ok(()),
            Some((name, key)) => {
                let help = "remove it, or `[agents]`: one scheduler steers OpenFlow switches or agents";
                Err(place.error(key.span(), &format!("`{name}` is of OpenFlow switches, and there is `[agents]`"), help))
            }
        }
    }

    fn identities(&self, place: &Place<'_>, fabric: &Arc<Fabric>) -> Result<AgentIdentities> {
        let hosts = self.hosts(place, fabric)?;
        let mut locators: BTreeMap<SwitchId, Ipv4Addr> = BTreeMap::new();
        for (name, &locator) in self.agents.intermediates.get_ref() {
            let Some(switch) = fabric.as_switch(find(place, fabric, name)?) else {
                return Err(place.error(name.span(), "this is a host of the fabric", "name a switch, with its locator"));
            };
            locators.insert(switch, locator);
        }
        if locators.is_empty() {
            let help = "write such as `core0 = \"10.0.0.1\"`";
            return Err(place.error(self.agents.intermediates.span(), "no intermediate switch", help));
        }
        AgentIdentities::new(Arc::clone(fabric), hosts, locators).map_err(|error| {
            let named = |wanted: &str| self.agents.host.get_ref().iter().map(|it| &it.name).find(|it| it.get_ref() == wanted);
            let (span, help) = match &error {
                AgentIdentityError::SamePrincipal { second, .. } => (named(second), "each host has a principal of its own"),
                AgentIdentityError::SameAddress { second, .. } => (named(second), "each host has addresses of its own"),
                AgentIdentityError::SameLocator { second, .. } => {
                    let of = |it: &&Spanned<String>| it.get_ref() == second;
                    (self.agents.intermediates.get_ref().keys().find(of), "each switch has a locator of its own")
                }
                AgentIdentityError::SeveralNics { host, .. } => (named(host), "write a fabric where each host has one cable"),
            };
            place.error(span.map_or_else(|| self.fabric.span(), Spanned::span), &error.to_string(), help)
        })
    }

    fn hosts(&self, place: &Place<'_>, fabric: &Fabric) -> Result<Vec<AgentHost>> {
        let mut hosts = vec![None; fabric.host_count()];
        for keys in self.agents.host.get_ref() {
            let Some(host) = fabric.as_host(find(place, fabric, &keys.name)?) else {
                return Err(place.error(keys.name.span(), "this is a switch of the fabric", "name it in [agents.intermediates]"));
            };
            if hosts[host.index()].replace(keys.host(place)?).is_some() {
                return Err(place.error(keys.name.span(), "the host is there twice", "remove one"));
            }
        }
        if let Some(missing) = fabric.hosts().find(|host| hosts[host.index()].is_none()) {
            let message = format!("host `{}` of the fabric has no `[[agents.host]]`", fabric.node(missing.node()).name);
            let help = "add it, with `name`, `principal`, `placement_key` and `addresses`";
            return Err(place.error(self.agents.host.span(), &message, help));
        }
        Ok(hosts.into_iter().flatten().collect())
    }
}

impl HostKeys {
    fn host(&self, place: &Place<'_>) -> Result<AgentHost> {
        if *self.principal.get_ref() == 0 {
            return Err(place.error(
                self.principal.span(),
                "principals begin at 1",
                "give the host's number, as its agent has it",
            ));
        }
        let key = PlacementKey::parse(self.placement_key.get_ref()).map_err(|_| {
            let help = "`weft directory key --principal N --placement` prints it, where the directory's secret is";
            place.error::<Error>(self.placement_key.span(), "a placement key is 64 hexadecimal digits", help)
        })?;
        if self.addresses.get_ref().is_empty() {
            return Err(place.error(self.addresses.span(), "no application address", "write those of its agent's [[address]]"));
        }
        Ok(AgentHost { principal: PrincipalId(*self.principal.get_ref()), key, addresses: self.addresses.get_ref().clone() })
    }
}
