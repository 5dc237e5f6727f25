//! The switches of a fabric without its hosts: a few thousand nodes where the fabric has a hundred thousand.

use crate::ids::LinkId;
use crate::topology::Fabric;

/// Compressed adjacency of the switches, by [`crate::SwitchId`].
#[derive(Clone, Debug)]
pub(crate) struct SwitchGraph {
    start: Vec<u32>,
    arcs: Vec<Arc>,
}

/// A directed link between switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arc {
    /// The receiving switch.
    pub to: u32,
    /// The link.
    pub link: LinkId,
}

impl SwitchGraph {
    /// Leaves the hosts out.
    pub fn new(fabric: &Fabric) -> Self {
        let mut start = Vec::with_capacity(fabric.switch_count() + 1);
        let mut arcs = Vec::new();
        start.push(0);
        for switch in fabric.switches() {
            for &link in fabric.out(fabric.switch_node(switch)) {
                if let Some(to) = fabric.as_switch(fabric.link(link).to) {
                    arcs.push(Arc { to: to.0, link });
                }
            }
            start.push(arcs.len() as u32);
        }
        Self { start, arcs }
    }

    /// Number of switches.
    pub fn len(&self) -> usize {
        self.start.len() - 1
    }

    /// Number of directed links between switches.
    pub fn arc_count(&self) -> usize {
        self.arcs.len()
    }

    /// The links of a switch to other switches.
    #[inline]
    pub fn arcs(&self, switch: u32) -> &[Arc] {
        &self.arcs[self.start[switch as usize] as usize..self.start[switch as usize + 1] as usize]
    }
}
