//! Open vSwitch as the switches of a lab, steered by `weft-scheduler` over OpenFlow, as in Hedera's testbed (Hedera section 5).
//!
//! ```text
//!   h0                                   pod0-edge0 (Open vSwitch)
//!   eth0 10.1.1.2/32                     br0, datapath SwitchId + 1
//!        02:00:0a:01:01:02  ----------   p0: OpenFlow port 1
//!   default via 10.1.1.1                 p1: OpenFlow port 2
//! ```
//! Switches have no addresses and no routes: their rules, which the scheduler installs, forward packets and answer ARP.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_fabric::formats::topology::{Export, write};
use weft_fabric::time::NsDuration;
use weft_fabric::{Fabric, MacAddr};

use super::{Node, Overlay, Plan, PlanError, Role, Routing};

/// The switches' rules and their scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Openflow {
    /// The fabric with the rates of the lab, as a weft-fabric file.
    pub fabric: String,
    /// The settings of the scheduler.
    pub scheduler: SchedulerSpec,
}

/// Settings of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerSpec {
    /// Which one.
    pub kind: SchedulerKind,
    /// From one round to the next, in nanoseconds.
    pub period_ns: u64,
    /// From which rate a flow counts as large, as a fraction of its source's NIC.
    pub threshold: f64,
    /// The seed of its random choices.
    pub seed: u64,
    /// Iterations of simulated annealing per round; `None`: the scheduler's default.
    #[serde(default)]
    pub iterations: Option<u32>,
    /// Annealing's `c` in units of the initial temperature; `None`: the scheduler's default.
    #[serde(default)]
    pub c: Option<f64>,
}

/// Schedulers of large flows (Hedera section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// None: the switches alone choose paths, by hashes.
    None,
    /// Global first fit.
    FirstFit,
    /// Simulated annealing with one core per destination.
    Annealing,
    /// Simulated annealing with one core per flow.
    AnnealingPerFlow,
    /// Edge coloring.
    EdgeColoring,
}

impl SchedulerKind {
    /// Its name in scenarios and in the scheduler's configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FirstFit => "first-fit",
            Self::Annealing => "annealing",
            Self::AnnealingPerFlow => "annealing-per-flow",
            Self::EdgeColoring => "edge-coloring",
        }
    }
}

impl Default for SchedulerSpec {
    /// None: hashes alone.
    fn default() -> Self {
        Self { kind: SchedulerKind::None, period_ns: 5_000_000_000, threshold: 0.1, seed: 1, iterations: None, c: None }
    }
}

impl SchedulerSpec {
    /// `[scheduler]` of its configuration.
    pub(super) fn section(&self) -> String {
        let Self { kind, period_ns, threshold, seed, iterations, c } = self;
        let (kind, period) = (kind.name(), NsDuration::from_ns(*period_ns));
        let mut text =
            format!("[scheduler]\nkind = \"{kind}\"\nperiod = \"{period}\"\nthreshold = {threshold:?}\nseed = {seed}\n");
        if let Some(iterations) = iterations {
            let _ = writeln!(text, "iterations = {iterations}");
        }
        if let Some(c) = c {
            let _ = writeln!(text, "c = {c:?}");
        }
        text
    }
}

impl Plan {
    /// The plan with Open vSwitch in place of routers: no addresses and routes at switches.
    pub(super) fn with_openflow(mut self, fabric: &Fabric) -> Result<Self, PlanError> {
        if let Some(host) = self.hosts().find(|host| host.ports.len() != 1) {
            return Err(PlanError::OpenflowNics { host: host.name.clone() });
        }
        let file = write(&Fabric::clone(fabric).scaled(self.scale), Export::Native);
        let fabric = file.map_err(|error| PlanError::OpenflowFabric { reason: error.reason })?;
        for switch in self.nodes.iter_mut().filter(|node| node.role == Role::Switch) {
            switch.prefix = None;
            switch.local.clear();
            switch.fabric.clear();
            switch.ports.iter_mut().for_each(|port| port.address = None);
        }
        self.openflow = Some(Openflow { fabric, scheduler: SchedulerSpec::default() });
        Ok(self)
    }

    /// The plan with a scheduler; without effect on switches that route by themselves.
    #[must_use]
    pub fn with_scheduler(mut self, scheduler: SchedulerSpec) -> Self {
        if let Some(openflow) = &mut self.openflow {
            openflow.scheduler = scheduler;
        }
        self
    }

    /// Fails if the switches have no routes on which an overlay could be laid.
    pub(super) fn check_underlay(&self) -> Result<(), PlanError> {
        if self.routing == Routing::Openflow { Err(PlanError::OpenflowOverlay) } else { Ok(()) }
    }
}

impl Openflow {
    /// The scheduler's configuration: a TOML file in the folder of the fabric's file.
    pub fn config(&self, plan: &Plan) -> String {
        debug_assert!(matches!(plan.overlay, Overlay::None));
        let mut text = format!(
            "fabric = \"{FABRIC_FILE}\"\nlisten = [\"unix:{SOCKET_OF_SWITCHES}\"]\nsocket = \"{SOCKET}\"\nmetrics = \"off\"\n\n"
        );
        text += &self.scheduler.section();
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
        for host in plan.hosts() {
            let (name, address) = (&host.name, host.locator);
            line(format_args!("\n[[host]]\nname = {name:?}\naddress = \"{address}\"\nmac = \"{}\"", mac_of(address)));
        }
        text
    }
}

/// The MAC address of a host's NIC.
pub fn mac_of(locator: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = locator.octets();
    MacAddr([0x02, 0x00, a, b, c, d])
}

/// The datapath ID of a switch, as Open vSwitch writes it.
pub fn datapath_of(plan: &Plan, node: &Node) -> String {
    let number = plan.switches().position(|switch| switch.namespace == node.namespace).expect("a switch of the plan");
    format!("{:016x}", number + 1)
}

/// The name of the fabric's file.
pub const FABRIC_FILE: &str = "fabric.weft";
/// The name of the socket to which switches connect.
pub const SOCKET_OF_SWITCHES: &str = "openflow.sock";
/// The name of the scheduler's status socket.
pub const SOCKET: &str = "scheduler.sock";

#[cfg(test)]
mod tests {
    use weft_fabric::formats::topology;
    use weft_fabric::topology::shapes::subways::{SubwaysSpec, SubwaysType};
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::{BitsPerSec, Bytes, Duration, HostId};

    use super::*;
    use crate::commands;
    use crate::plan::{Settings, Timers};

    fn fabric(shape: Shape) -> Fabric {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
        shape.build(link, link).expect("a fabric")
    }

    fn plan(fabric: &Fabric) -> Result<Plan, PlanError> {
        let settings = Settings {
            name: "t".parse().expect("a name"),
            routing: Routing::Openflow,
            timers: Timers::FAST,
            scale: 0.01,
            seed: 1,
            switch_queue: Bytes(102_400),
            nic_queue: Bytes(1_600_000),
        };
        Plan::new(fabric, &settings)
    }

    #[test]
    fn switches_have_no_addresses_and_hosts_an_address_and_a_gateway() {
        let plan = plan(&fabric(Shape::FatTree { k: 4 })).expect("a plan");
        for switch in plan.switches() {
            assert!(switch.prefix.is_none() && switch.local.is_empty() && switch.fabric.is_empty());
            assert!(switch.ports.iter().all(|port| port.address.is_none() && port.queue_bytes > 0));
            assert!(!switch.sysctls(plan.routing).iter().any(|(key, _)| key.contains("ip_forward")));
        }
        let (host, switch) = (&plan.nodes[0], &plan.nodes[16]);
        assert_eq!(commands::openflow::host(host), "link set eth0 address 02:00:0a:01:01:02\n");
        assert!(commands::routes(host, plan.routing, 1).starts_with("route add default via 10.1.1.1 dev eth0 onlink"));
        assert_eq!(commands::openflow::switch(switch).lines().count(), 5, "lo and four ports");
        assert_eq!(commands::routes(switch, plan.routing, 1), "");
        assert_eq!(
            (datapath_of(&plan, switch), datapath_of(&plan, &plan.nodes[35])),
            (format!("{:016x}", 1), format!("{:016x}", 20))
        );
    }

    #[test]
    fn the_scheduler_reads_the_fabric_of_the_lab() {
        let given = fabric(Shape::FatTree { k: 4 });
        let plan = plan(&given).expect("a plan");
        let openflow = plan.openflow.as_ref().expect("OpenFlow");
        let read = topology::read(openflow.fabric.as_bytes()).expect("a fabric's file").fabric;
        assert_eq!((read.hosts().count(), read.switches().count()), (16, 20));
        assert_eq!(read.nic_capacity(HostId(0)), BitsPerSec(10_000_000));
        let ends = |fabric: &Fabric| fabric.links().iter().map(|link| (link.from, link.to)).collect::<Vec<_>>();
        assert_eq!(ends(&read), ends(&given), "ids stay");
    }

    #[test]
    fn the_configuration_has_all_hosts_and_the_given_settings() {
        let c = Some(0.5);
        let spec = SchedulerSpec {
            kind: SchedulerKind::Annealing,
            period_ns: 200_000_000,
            iterations: Some(1000),
            c,
            ..SchedulerSpec::default()
        };
        let plan = plan(&fabric(Shape::FatTree { k: 4 })).expect("a plan").with_scheduler(spec);
        let text = plan.openflow.as_ref().expect("OpenFlow").config(&plan);
        assert_eq!(text.matches("[[host]]").count(), 16);
        insta::assert_snapshot!(text.split_inclusive("[[host]]").take(2).collect::<String>());
    }

    #[test]
    fn a_plan_of_an_earlier_version_is_read() {
        let fabric = fabric(Shape::Switch { hosts: 2 });
        let plan = plan(&fabric).expect("a plan");
        let text = serde_json::to_string(&plan).expect("JSON");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("it is read"), plan);
        let mut earlier: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        earlier.as_object_mut().expect("a table").remove("openflow");
        earlier["routing"] = "static".into();
        assert_eq!(serde_json::from_value::<Plan>(earlier).expect("it is read").openflow, None);
    }

    #[test]
    fn hosts_with_several_nics_are_refused() {
        let error = plan(&fabric(Shape::Subways(SubwaysSpec::testbed(SubwaysType::Type1)))).expect_err("several NICs");
        assert!(matches!(error, PlanError::OpenflowNics { .. }) && error.key() == "world.routing");
    }
}
