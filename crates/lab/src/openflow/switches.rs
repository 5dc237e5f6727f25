//! The configuration of Open vSwitch at each switch: a bridge of all ports that forwards by the scheduler's rules alone.

use std::os::unix::fs::symlink;

use super::folder;
use crate::agents::name_of;
use crate::error::{LabError, Result};
use crate::ovs::{Configuration, Switch};
use crate::plan::openflow::{SOCKET_OF_SWITCHES, datapath_of};
use crate::plan::{Node, Plan, Role};
use crate::state;

/// Starts the switch of a node; returns when its ports are in the bridge.
pub(super) fn start(plan: &Plan, node: &Node) -> Result<()> {
    let switch = switch(plan, node);
    switch.create()?;
    let (controller, socket) = (switch.path(CONTROLLER), folder(plan).join(SOCKET_OF_SWITCHES));
    symlink(socket, &controller).map_err(|e| LabError::io("make", &controller, e))?;
    switch.start(configuration(plan, node, &controller.display().to_string()), "fail_mode=secure")
}

/// Whether the switch of a node is connected to the scheduler.
pub(super) fn is_connected(plan: &Plan, node: &Node) -> bool {
    let answer = switch(plan, node).configured(&["--bare", "--columns=is_connected", "list", "controller"]);
    answer.is_some_and(|text| text.trim() == "true")
}

fn switch<'a>(plan: &Plan, node: &'a Node) -> Switch<'a> {
    Switch::new(state::path(&plan.name).join("openflow").join(name_of(node)), node)
}

fn configuration(plan: &Plan, node: &Node, controller: &str) -> Configuration {
    let mut configuration = Configuration::default();
    configuration.add(&format!(
        "set Open_vSwitch . other_config:max-revalidator={REVALIDATE_MS} other_config:n-handler-threads=1 \
         other_config:n-revalidator-threads=1"
    ));
    configuration.add("add-br br0");
    configuration.add(&format!(
        "set bridge br0 datapath_type=netdev fail_mode=secure protocols=OpenFlow13,OpenFlow15 other_config:datapath-id={} \
         other_config:disable-in-band=true",
        datapath_of(plan, node)
    ));
    // After an interruption the switch tries again each second.
    configuration.add(&format!(
        "--id=@controller create controller target=\"unix:{controller}\" connection_mode=out-of-band max_backoff=1000"
    ));
    configuration.add("set bridge br0 controller=@controller");
    for (number, port) in (1..).zip(&node.ports) {
        let is_monitored = plan.timers.bfd && plan.nodes[port.peer.node].role == Role::Switch;
        let bfd = if is_monitored { format!(" bfd:enable=true bfd:min_tx={BFD_MS} bfd:min_rx={BFD_MS}") } else { String::new() };
        configuration.add_port(&port.name, "", &format!("ofport_request={number}{bfd}"));
    }
    configuration
}

/// The only Unix socket to which Open vSwitch lets its bridge connect.
const CONTROLLER: &str = "br0.controller";
/// Between BFD's packets; after three that are lost a port is no longer live. The processors of a lab are busy: with shorter intervals switches
/// that merely wait for one would be taken for dead.
const BFD_MS: u32 = 300;
/// The age of flows' counters, at most: half of a round of 200 ms.
const REVALIDATE_MS: u32 = 100;
