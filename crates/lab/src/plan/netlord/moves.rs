//! VMs that move to other hosts: their namespaces stay, and the host's end of the interface is a port of another host afterwards.

use super::Vm;
use crate::plan::{Plan, Port, PortId};

impl Plan {
    /// The plan as it is once a VM, by its number, has moved to a host, an index into [`Plan::nodes`]. The old host's port keeps its number and is unplugged.
    pub(crate) fn move_vm(&mut self, which: usize, to: usize) {
        let Some(netlord) = self.overlay.netlord_mut() else { return };
        let vm = &mut netlord.vms[which];
        let port = Port { name: vm.moving_device(), ..self.nodes[vm.host].ports[vm.port].clone() };
        (vm.host, vm.port) = (to, self.nodes[to].ports.len());
        self.nodes[to].ports.push(port);
        self.nodes[vm.node].ports[0].peer = PortId { node: to, port: vm.port };
    }
}

impl Vm {
    /// The name of the host's end of its interface on a host to which it has moved.
    pub(crate) fn moving_device(&self) -> String {
        format!("mig{}", self.node)
    }
}
