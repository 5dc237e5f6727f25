//! A VM moves to another host: its namespace, and all connections in it, stay; the host's end of its interface goes to the other host.

use std::time::Duration;

use super::directory;
use crate::agents::socket;
use crate::batch::run_batch;
use crate::clock::Stopwatch;
use crate::commands;
use crate::error::Result;
use crate::names::AGENT;
use crate::plan::Plan;
use crate::plan::netlord::Vm;
use crate::programs;

/// Moves a VM, by its number, to a host, an index into [`Plan::nodes`]; the plan says afterwards where it is.
pub(crate) fn migrate(plan: &mut Plan, which: usize, to: usize) -> Result<()> {
    let Some(netlord) = plan.overlay.netlord() else { return Ok(()) };
    migrate_vm(plan, &netlord.vms[which], to)?;
    plan.move_vm(which, to);
    Ok(())
}

/// Moves a VM to a host, an index into [`Plan::nodes`], and returns how long that took. The VM's namespace and all connections in it stay, and so do the addresses of
/// its `eth0`. The plan does not change.
///
/// # Errors
/// [`LabError`](crate::LabError).
pub fn migrate_vm(plan: &Plan, vm: &Vm, to: usize) -> Result<Duration> {
    let (number, from, to) = (to, &plan.nodes[vm.host], &plan.nodes[to]);
    let watch = Stopwatch::new();
    let device = &from.ports[vm.port].name;
    let program = programs::find(AGENT)?;
    let [old, new] = [from, to].map(|host| socket(plan, host).display().to_string());
    programs::run(&program, &["vif", "detach", device, "--socket", &old], &from.namespace)?;
    let moved = vm.moving_device();
    run_batch(from, "ip", &commands::netlord::move_out(device, &moved, &to.namespace))?;
    // The interface goes up only after this, or the first packets of the VM would be lost.
    let name = format!("{}/{}", vm.tenant, vm.vif);
    programs::run(&program, &["vif", "attach", &moved, &name, "--socket", &new], &to.namespace)?;
    if let Some(netlord) = plan.overlay.netlord() {
        directory::place(plan, netlord, vm, number)?;
    }
    run_batch(to, "ip", &format!("link set {moved} up\n"))?;
    // A VM is paused while it moves. This one has asked for its neighbours without a carrier, and would ask again only after a second.
    run_batch(&plan.nodes[vm.node], "ip", "neigh flush dev eth0\n")?;
    Ok(watch.elapsed())
}
