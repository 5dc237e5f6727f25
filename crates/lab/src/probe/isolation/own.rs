//! The same attacks from an operator's own host: by its addresses, in this network namespace. Other hosts listen.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use super::scene::Scene;
use super::{Case, SETTLE, attacks, forge, growth, heard, is_refusal, send};
use crate::clock::Deadline;
use crate::programs;

/// Sends all attacks of a scene. `socket` is that of this host's agent, whose counters are compared; what the ToR and the victim refuse is in their agents' status.
///
/// # Errors
/// Without root, without the device, or if the next hop does not answer ARP.
pub fn attack(scene: &Scene, socket: &Path) -> io::Result<Vec<Case>> {
    let next_hop = send::next_hop(scene.next_hop)?;
    let mut cases = Vec::new();
    for attack in attacks::all(scene, next_hop) {
        let before = drops(socket)?;
        let sent = send::packets(&scene.device, &attack)?;
        std::thread::sleep(SETTLE);
        let refused = growth(drops(socket)?, &before, is_refusal);
        let is_counted = refused.values().sum::<u64>() >= sent;
        let ok = attack.is_refused_here().then_some(is_counted);
        let by = if ok.is_some() { "this host's programs" } else { "its ToR, or the victim's programs" };
        let detail = format!("{} to {} as {}: by {by}", scene.attacker.aa4, scene.victim.aa4, scene.friend.aa4);
        cases.push(Case { name: attack.name, ok, sent, arrived: 0, refused, detail });
    }
    Ok(cases)
}

/// Listens at all addresses of this host. How many packets of an attack arrived.
///
/// # Errors
/// If another program has the port.
pub fn listen(time: Duration) -> io::Result<u64> {
    let socket = UdpSocket::bind(("::", forge::PORT))?;
    socket.set_nonblocking(true)?;
    let deadline = Deadline::after(time);
    let mut arrived = 0;
    while !deadline.has_passed() {
        arrived += heard(&socket);
        std::thread::sleep(forge::BETWEEN);
    }
    Ok(arrived)
}

/// What an agent has dropped, by reason.
fn drops(socket: &Path) -> io::Result<BTreeMap<String, u64>> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no agent answers at {}", socket.display()));
    let status = programs::ask(socket).ok_or_else(missing)?;
    let drops = status["ok"]["drops"].as_object().ok_or_else(missing)?;
    Ok(drops.iter().filter_map(|(reason, count)| Some((reason.clone(), count.as_u64()?))).collect())
}
