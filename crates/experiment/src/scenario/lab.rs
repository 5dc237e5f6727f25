//! What a lab takes from a scenario: `[fabric]`, and `scale`, `seed` and the queues of `[world]`. Whatever else it holds is for runs.

use std::path::PathBuf;

use weft_fabric::{Bytes, Duration, Fabric};

use crate::error::{KeyError, Result};
use crate::scenario::fabric::FabricSpec;
use crate::scenario::keys::Keys;
use crate::scenario::source::Source;
use crate::scenario::world::World;

/// A fabric to be built of namespaces.
#[derive(Debug)]
pub struct LabSpec {
    /// The file that it was read from.
    pub scenario: PathBuf,
    /// The network.
    pub fabric: Fabric,
    /// What rates are multiplied with.
    pub scale: f64,
    /// Seed of the hash seeds.
    pub seed: u64,
    /// Bytes that wait at a switch's port at the most.
    pub switch_queue: Bytes,
    /// The same at a NIC.
    pub nic_queue: Bytes,
    /// The longest delay that a link asks for and does not get; `None` if none is longer than what forwarding takes anyhow.
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
            let fabric = FabricSpec::read(&root.table("fabric")?, &source.folder)?.build()?;
            let world = World::read_for_lab(&root.table("world")?)?;
            let delay = fabric.links().iter().map(|l| l.delay).max().unwrap_or(Duration::ZERO);
            Ok(Self {
                scenario,
                scale: world.scale,
                seed: world.seed,
                switch_queue: world.queues.switch.unwrap_or(SWITCH_QUEUE),
                nic_queue: world.queues.nic.unwrap_or(NIC_QUEUE),
                delay_left_out: (delay > DELAY_HIDDEN).then_some(delay),
                fabric,
            })
        };
        read().map_err(|e| source.at(e))
    }
}

/// 64 full packets.
const SWITCH_QUEUE: Bytes = Bytes(64 * 1600);
/// 1,000 full packets, as in the packet world.
const NIC_QUEUE: Bytes = Bytes(1000 * 1600);
/// What forwarding of a packet takes here, more or less.
const DELAY_HIDDEN: Duration = Duration::from_us(20);
