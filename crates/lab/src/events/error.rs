//! Events that a lab does not support, each with the next step.

use weft_fabric::topology::PartError;

use crate::plan::PlanError;

/// Why a lab does not support an event.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum EventError {
    #[error("{0}")]
    Part(PartError),
    #[error("{0}")]
    Plan(PlanError),
    #[error("`{kind}` names no program: the node or the number is missing")]
    ProgramUnnamed { kind: String },
    #[error("`{text}` is no program of a lab")]
    NoProgram { text: String },
    #[error("the directory's store is a part of its server")]
    StoreEmbedded,
    #[error("{switch} runs no agent: it is Open vSwitch")]
    NoAgent { switch: String },
    #[error("neither agents nor a directory run here: there is no overlay")]
    NoOverlay,
    #[error("no directory runs in this lab: agents use NL-ARP")]
    NoDirectory,
    #[error("there is no node called `{name}`{}", guess.as_ref().map_or(String::new(), |near| format!(": did you mean `{near}`?")))]
    NoNode { name: String, guess: Option<String> },
    #[error("there is no directory server `{name}`: they are server 0 to server {last}")]
    NoServer { name: String, last: usize },
    #[error("no FRR runs in a lab with NetLord: its switches are bridges")]
    Bridges,
    #[error("no FRR runs here: the lab's routes are static")]
    StaticRoutes,
    #[error("no FRR runs here: the lab's switches forward by OpenFlow rules")]
    Rules,
    #[error("no scheduler runs here: the lab's switches route by themselves")]
    NoScheduler,
    #[error("no FRR runs on {name}: it is a host")]
    NotARouter { name: String },
    #[error("`{text}` does not say who moves where")]
    HostMove { text: String },
    #[error("`{text}` does not say who moves where")]
    VmMove { text: String },
    #[error("{host} is at {tor} already")]
    AtTor { host: String, tor: String },
    #[error("{vm} is on {host} already")]
    OnHost { vm: String, host: String },
    #[error("servers move only with VL2, whose application addresses stay with them")]
    NotVl2,
    #[error("{name} is a switch, and only servers move")]
    SwitchMove { name: String },
    #[error("{name} is no ToR")]
    NotATor { name: String },
    #[error("{name} is no host")]
    NotAHost { name: String },
    #[error("hosts that are their own locators have no ToR to correct stale caches when they move")]
    HostLocators,
    #[error("a directory server runs on {host}")]
    DirectoryHost { host: String },
    #[error("{host} is reachable from outside, by routes that do not move")]
    ExternalHost { host: String },
    #[error("{host} moves in this run: neither it nor its ToRs can fail")]
    FailsAndMoves { host: String },
    #[error("only a lab with NetLord has VMs")]
    NotNetlord,
    #[error("`{text}` does not say which VM")]
    Forger { text: String },
    #[error("there is no VM called `{name}`")]
    NoVm { name: String, known: Vec<String> },
}

impl EventError {
    /// The next step.
    pub fn help(&self) -> String {
        match self {
            Self::Part(_) | Self::NoNode { .. } => "`weft topo SCENARIO --export dot` lists all names",
            Self::Plan(_) => "docs/vl2.md lists the requirements of servers that move",
            Self::ProgramUnnamed { .. } => "write such as \"agent h0\", \"agent tor0\", \"server 0\" or \"frr agg0\"",
            Self::NoProgram { .. } => "write such as \"agent h0\", \"agent tor0\", \"server 0\", \"store\" or \"frr agg0\"",
            Self::StoreEmbedded => "write \"server 0\", or store = \"etcd\" in [directory]",
            Self::NoAgent { .. } => "name a host or an edge switch, or write core = \"ebpf\" in [switches]",
            Self::NoOverlay | Self::NotVl2 => "add `[overlay]` with kind = \"vl2\", or leave the event out",
            Self::NoDirectory => "write locations = \"directory\" in [overlay], or such as \"agent h0\" or \"agent edge0\" here",
            Self::NoServer { .. } => "name one of them, or raise `servers` in [directory]",
            Self::Bridges => "write such as \"agent edge0\"",
            Self::Rules => "write \"scheduler\", or routing = \"frr\" in [world]",
            Self::NoScheduler => "write `control.scheduler` with routing = \"openflow\" in [world] or with VL2 in [overlay], or leave the event out",
            Self::StaticRoutes => "write routing = \"frr\" in [world], or leave the event out",
            Self::NotARouter { .. } => "name a switch, such as \"frr agg0\"",
            Self::HostMove { .. } => "write such as \"host h1 to tor2\"",
            Self::VmMove { .. } => "write such as \"vm acme-web1 to h3\"",
            Self::AtTor { .. } => "name another ToR",
            Self::OnHost { .. } => "name another host",
            Self::SwitchMove { .. } => "name a host, such as \"host h1 to tor2\"",
            Self::NotATor { .. } => "name a switch that has hosts",
            Self::NotAHost { .. } => "name a host, such as \"vm acme-web1 to h3\"",
            Self::HostLocators => "write locator = \"tor\" in [overlay]",
            Self::DirectoryHost { .. } => "move a host with a lower number, or use fewer `servers` in [directory]",
            Self::ExternalHost { .. } => "leave it out of `overlay.external`, or move another host",
            Self::FailsAndMoves { .. } => "let another part fail, or split the scenario in two",
            Self::NotNetlord => "leave the event out, or write kind = \"netlord\" in [overlay]",
            Self::Forger { .. } => "write such as \"vm acme-web1\"",
            Self::NoVm { known, .. } => return format!("VMs are called TENANT-VIF, such as {}", known.join(", ")),
        }
        .to_owned()
    }
}
