//! `flows.parquet`, `links.parquet`, `link_series.parquet`, `throughput.parquet`: the same bytes for the same scenario and seed.

use std::path::Path;

use weft_fabric::Fabric;
use weft_fabric::record::{FlowRecord, LinkRecord, Outcome, Traced};

use super::parquet::{Cells, Table};
use crate::error::{Error, Result};
use crate::metrics::flow_goodput_bps;

/// Writes the tables of one run into a folder; `services` are the names of its services, if there are several.
pub fn write_tables(folder: &Path, fabric: &Fabric, outcome: &Outcome, services: &[String]) -> Result<()> {
    flows(outcome, services).write(&folder.join("flows.parquet"))?;
    links(fabric, outcome).write(&folder.join("links.parquet"))?;
    Table::of(&outcome.link_series)
        .f64("t_s", |r| r.at.as_secs_f64())
        .u32("link", |r| r.link.0)
        .f64("utilisation", |r| r.utilisation)
        .write(&folder.join("link_series.parquet"))?;
    Table::of(&outcome.samples)
        .f64("t_s", |s| s.at.as_secs_f64())
        .f64("delivered_bytes", |s| s.delivered)
        .u32("active_flows", |s| s.active)
        .f64("nic_bound_bps", |s| s.nic_bound_bps)
        .write(&folder.join("throughput.parquet"))?;
    write_traced(folder, &outcome.traced)
}

fn flows<'a>(outcome: &'a Outcome, services: &'a [String]) -> Table<'a, FlowRecord> {
    let mut table = Table::of(&outcome.flows)
        .u32("id", |f| f.id.0)
        .u32("src", |f| f.src.0)
        .u32("dst", |f| f.dst.0)
        .f64("start_s", |f| f.start.as_secs_f64())
        .column("end_s", Cells::OptionalF64(Box::new(|f| f.end.map(|e| e.as_secs_f64()))))
        .u64("bytes", |f| f.bytes.0)
        .f64("goodput_bps", |f| flow_goodput_bps(f, outcome.ended))
        .column("path", Cells::Links(Box::new(|f| &f.path[..])));
    if outcome.packets.is_some() {
        table = table
            .u32("reordered", |f| f.packets.unwrap_or_default().reordered)
            .u32("retransmits", |f| f.packets.unwrap_or_default().retransmits);
    }
    if let Some(lab) = &outcome.lab {
        let of = |f: &FlowRecord| lab.tcp.get(f.id.index()).copied().unwrap_or_default();
        table = table
            .u32("cwnd_segments", move |f| of(f).cwnd_segments)
            .f64("rtt_s", move |f| of(f).srtt_s)
            .f64("min_rtt_s", move |f| of(f).min_rtt_s);
    }
    if !outcome.services.is_empty() {
        // Not numbered by line: flows stand in the order in which they began.
        table = table.text("service", |f| &services[usize::from(outcome.services[f.id.index()])]);
    }
    table
}

fn links<'a>(fabric: &'a Fabric, outcome: &'a Outcome) -> Table<'a, LinkRecord> {
    let name = |node| &*fabric.node(node).name;
    let table = Table::of(&outcome.links)
        .u32("id", |l| l.id.0)
        .text("from", move |l| name(fabric.link(l.id).from))
        .text("to", move |l| name(fabric.link(l.id).to))
        .u64("capacity_bps", |l| fabric.link(l.id).capacity.0)
        .u64("bytes", |l| l.bytes.0);
    if outcome.packets.is_some() { table.u64("drops", |l| l.drops) } else { table }
}

/// What a scenario asks to trace: `queues.parquet`, `windows.parquet`, `port.pcap`.
fn write_traced(folder: &Path, traced: &Traced) -> Result<()> {
    if !traced.queues.is_empty() {
        Table::of(&traced.queues)
            .f64("t_s", |r| r.at.as_secs_f64())
            .u32("link", |r| r.link.0)
            .u64("bytes", |r| r.bytes.0)
            .u64("drops", |r| r.drops)
            .write(&folder.join("queues.parquet"))?;
    }
    if !traced.windows.is_empty() {
        Table::of(&traced.windows)
            .f64("t_s", |r| r.at.as_secs_f64())
            .u32("flow", |r| r.flow.0)
            .u32("subflow", |r| r.subflow)
            .u32("cwnd_segments", |r| r.segments)
            .f64("srtt_s", |r| r.srtt_ps as f64 / 1e12)
            .write(&folder.join("windows.parquet"))?;
    }
    if !traced.pcap.is_empty() {
        let path = folder.join("port.pcap");
        std::fs::write(&path, &traced.pcap).map_err(|e| Error::io("write", &path, e))?;
    }
    Ok(())
}
