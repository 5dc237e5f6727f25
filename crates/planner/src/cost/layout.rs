//! Where switches stand, and how long cables are: a simple hall that suits every fabric.
//!
//! ```text
//!   row 0   [S][S][S][S]..[N][N]..[S][S]     S: racks of servers with their edge switch, N: racks of all other switches, in the middle of the hall
//!   row 1   [S][S][S][S]..   ..   [S][S]     a cable climbs to the tray, runs along the rows and across them, and descends
//! ```

use weft_fabric::{Fabric, NodeId};

/// Racks of a row.
const ROW: u32 = 20;
/// Metres: width of a rack, distance of rows, from a device up to the tray, added to each cable.
const WIDTH: f64 = 0.6;
const PITCH: f64 = 3.0;
const CLIMB: f64 = 2.0;
const SLACK: f64 = 1.0;
/// Within a rack.
const IN_RACK: f64 = 2.0;

/// Places of the nodes of a fabric.
#[derive(Debug)]
pub struct Layout {
    /// Rack of each node, by number of the node.
    rack: Vec<u32>,
    /// Racks of servers.
    pub server_racks: u32,
    /// Racks of switches above the edge.
    pub network_racks: u32,
}

impl Layout {
    /// Places a fabric. `rack_units` is the height of each switch above the edge, `units` that of a rack.
    pub fn of(fabric: &Fabric, units: f64, rack_units: impl Fn(NodeId) -> f64) -> Self {
        let mut rack = vec![0; fabric.nodes().len()];
        let server_racks = fabric.racks().len() as u32;
        for host in fabric.hosts() {
            rack[host.0 as usize] = fabric.rack_of(host).0;
        }
        // An edge switch stands with the first of its racks.
        let mut is_placed = vec![false; fabric.nodes().len()];
        for (at, of) in (0u32..).zip(fabric.racks()) {
            for &switch in &of.switches {
                let node = fabric.switch_node(switch).0 as usize;
                if !std::mem::replace(&mut is_placed[node], true) {
                    rack[node] = at;
                }
            }
        }
        let (mut next, mut used) = (0, 0.0);
        for switch in fabric.switches() {
            let node = fabric.switch_node(switch);
            if is_placed[node.0 as usize] {
                continue;
            }
            let height = rack_units(node).max(1.0);
            if used > 0.0 && used + height > units {
                (next, used) = (next + 1, 0.0);
            }
            used += height;
            rack[node.0 as usize] = server_racks + next;
        }
        let network_racks = if used > 0.0 { next + 1 } else { 0 };
        Self { rack, server_racks, network_racks }
    }

    /// The place of a rack in the hall, from 0: racks of switches are in the middle.
    const fn place(&self, rack: u32) -> u32 {
        let half = self.server_racks / 2;
        if rack >= self.server_racks {
            half + (rack - self.server_racks)
        } else if rack >= half {
            rack + self.network_racks
        } else {
            rack
        }
    }

    /// Length of a cable between two nodes, in metres.
    pub fn length_m(&self, a: NodeId, b: NodeId) -> f64 {
        let (a, b) = (self.place(self.rack[a.0 as usize]), self.place(self.rack[b.0 as usize]));
        if a == b {
            return IN_RACK;
        }
        let along = f64::from((a % ROW).abs_diff(b % ROW)) * WIDTH;
        let across = f64::from((a / ROW).abs_diff(b / ROW)) * PITCH;
        along + across + 2.0 * CLIMB + SLACK
    }
}
