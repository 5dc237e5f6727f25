//! What `weft lab up` takes from a scenario: `[fabric]`, `[control]`, `[overlay]`, `[[service]]`, `[[tenant]]`, and the lab's settings, `seed` and the queues of `[world]`.
//! Whatever else it holds is for runs.

use std::path::PathBuf;

use weft_fabric::{Bytes, Duration, Fabric};
use weft_lab::plan::netlord::NetlordSpec;

use crate::error::{KeyError, Result};
use crate::scenario::control::Control;
use crate::scenario::fabric::FabricSpec;
use crate::scenario::keys::Keys;
use crate::scenario::lab_tenants;
use crate::scenario::overlay::{Kind, OverlaySpec};
use crate::scenario::source::Source;
use crate::scenario::world::{LabRouting, LabSettings, World};

/// A fabric to be built of namespaces.
#[derive(Debug)]
pub struct LabSpec {
    /// The file that it was read from.
    pub scenario: PathBuf,
    /// The network.
    pub fabric: Fabric,
    /// What is laid over it: VL2,
    pub overlay: OverlaySpec,
    /// or NetLord.
    pub tenants: Option<NetlordSpec>,
    /// Rates, and OSPF's timers.
    pub settings: LabSettings,
    /// Who finds the routes.
    pub routing: LabRouting,
    /// The scheduler.
    pub control: Control,
    /// Seed of the hash seeds.
    pub seed: u64,
    /// Limit of the queue at a switch's port, in bytes.
    pub switch_queue: Bytes,
    /// The same at a NIC.
    pub nic_queue: Bytes,
    /// The longest link delay that the lab leaves out; `None` if none is longer than forwarding takes.
    pub delay_left_out: Option<Duration>,
}

impl LabSpec {
    /// Reads the first run of a scenario.
    ///
    /// # Errors
    /// What is wrong with the tables that a lab is made from.
    pub fn read(source: &Source, scenario: PathBuf) -> Result<Self> {
        let variant = source.variants()?.swap_remove(0);
        let root = Keys::new("", &variant.table);
        let read = || -> Result<Self, KeyError> {
            let fabric = FabricSpec::read(&root.table("fabric")?, &source.folder)?;
            let control = Control::read(&root.table("control")?, fabric.balancing())?;
            let fabric = fabric.build()?;
            let tenants = lab_tenants::read(&root, &source.folder, &fabric)?;
            let overlay = if tenants.is_some() { OverlaySpec::default() } else { OverlaySpec::read(&root)? };
            overlay.check(&fabric)?;
            let world = World::read(&root.table("world")?)?;
            let has_overlay = tenants.is_some() || overlay.kind != Kind::None;
            Ok(Self {
                scenario,
                overlay,
                tenants,
                settings: world.lab,
                routing: control.lab_routing(&world.lab, has_overlay),
                control,
                seed: world.seed,
                switch_queue: world.queues.of_port().unwrap_or(SWITCH_QUEUE),
                nic_queue: world.queues.nic.unwrap_or(NIC_QUEUE),
                delay_left_out: delay_left_out(&fabric),
                fabric,
            })
        };
        read().map_err(|e| source.at(e))
    }
}

/// The longest delay that a lab of this fabric cannot hide.
pub fn delay_left_out(fabric: &Fabric) -> Option<Duration> {
    fabric.links().iter().map(|l| l.delay).max().filter(|&delay| delay > DELAY_HIDDEN)
}

/// 64 full packets.
pub const SWITCH_QUEUE: Bytes = Bytes(64 * 1600);
/// 1,000 full packets, as in the packet world.
pub const NIC_QUEUE: Bytes = Bytes(1000 * 1600);
/// What forwarding of a packet takes here, more or less.
const DELAY_HIDDEN: Duration = Duration::from_us(20);
