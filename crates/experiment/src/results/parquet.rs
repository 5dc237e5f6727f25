//! `flows.parquet`, `links.parquet`, `link_series.parquet`, `throughput.parquet`: the same bytes for the same scenario and seed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use weft_fabric::Fabric;
use weft_fabric::record::{FlowRecord, Outcome, QueueSample, Traced, WindowSample};

use crate::error::{Error, Result};
use crate::metrics::flow_goodput_bps;

/// Rows that are turned into columns at a time.
const BATCH: usize = 65_536;

/// Writes the tables of one run into a folder; `services` are the names of its services, if there are several.
pub fn write_tables(folder: &Path, fabric: &Fabric, outcome: &Outcome, services: &[String]) -> Result<()> {
    let flows = outcome.flows.chunks(BATCH).map(|rows| flow_columns(rows, outcome, services));
    write(&folder.join("flows.parquet"), flows, || flow_columns(&[], outcome, services))?;
    write(&folder.join("links.parquet"), std::iter::once(link_columns(fabric, outcome)), Vec::new)?;
    let series = outcome.link_series.chunks(BATCH).map(|rows| {
        vec![
            column("t_s", Float64Array::from_iter_values(rows.iter().map(|r| r.at.as_secs_f64()))),
            column("link", UInt32Array::from_iter_values(rows.iter().map(|r| r.link.0))),
            column("utilisation", Float64Array::from_iter_values(rows.iter().map(|r| r.utilisation))),
        ]
    });
    write(&folder.join("link_series.parquet"), series, || {
        vec![
            column("t_s", Float64Array::from_iter_values([])),
            column("link", UInt32Array::from_iter_values([])),
            column("utilisation", Float64Array::from_iter_values([])),
        ]
    })?;
    write(&folder.join("throughput.parquet"), std::iter::once(throughput_columns(outcome)), Vec::new)?;
    write_traced(folder, &outcome.traced)
}

type Column = (&'static str, ArrayRef);

fn column(name: &'static str, array: impl arrow_array::Array + 'static) -> Column {
    (name, Arc::new(array))
}

/// What the system said, if it was the system that did.
fn cause(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => inner.downcast().map_or_else(std::io::Error::other, |it| *it),
        error => std::io::Error::other(error),
    }
}

fn write(path: &Path, batches: impl Iterator<Item = Vec<Column>>, empty: impl FnOnce() -> Vec<Column>) -> Result<()> {
    let fault = |e: ParquetError| Error::io("write", path, cause(e));
    let mut batches = batches.peekable();
    let mut empty = Some(empty);
    let mut writer = None;
    while let Some(columns) = batches.next().or_else(|| writer.is_none().then(|| empty.take().expect("taken once")())) {
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, a)| (name, a, name == "end_s")))
            .expect("columns of one length");
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let file = File::create(path).map_err(|e| Error::io("write", path, e))?;
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                none.insert(ArrowWriter::try_new(file, batch.schema(), Some(properties)).map_err(fault)?)
            }
        };
        writer.write(&batch).map_err(fault)?;
    }
    writer.expect("at least the empty batch was written").close().map_err(fault)?;
    Ok(())
}

fn flow_columns(rows: &[FlowRecord], outcome: &Outcome, services: &[String]) -> Vec<Column> {
    let mut paths = ListBuilder::new(UInt32Builder::new());
    for flow in rows {
        paths.values().append_slice(&flow.path.iter().map(|l| l.0).collect::<Vec<_>>());
        paths.append(true);
    }
    let mut columns = vec![
        column("id", UInt32Array::from_iter_values(rows.iter().map(|f| f.id.0))),
        column("src", UInt32Array::from_iter_values(rows.iter().map(|f| f.src.0))),
        column("dst", UInt32Array::from_iter_values(rows.iter().map(|f| f.dst.0))),
        column("start_s", Float64Array::from_iter_values(rows.iter().map(|f| f.start.as_secs_f64()))),
        column("end_s", Float64Array::from_iter(rows.iter().map(|f| f.end.map(|e| e.as_secs_f64())))),
        column("bytes", UInt64Array::from_iter_values(rows.iter().map(|f| f.bytes.0))),
        column("goodput_bps", Float64Array::from_iter_values(rows.iter().map(|f| flow_goodput_bps(f, outcome.ended)))),
        column("path", paths.finish()),
    ];
    if outcome.packets.is_some() {
        let of = |f: &FlowRecord| f.packets.unwrap_or_default();
        columns.push(column("reordered", UInt32Array::from_iter_values(rows.iter().map(|f| of(f).reordered))));
        columns.push(column("retransmits", UInt32Array::from_iter_values(rows.iter().map(|f| of(f).retransmits))));
    }
    if let Some(lab) = &outcome.lab {
        let of = |f: &FlowRecord| lab.tcp.get(f.id.index()).copied().unwrap_or_default();
        columns.push(column("cwnd_segments", UInt32Array::from_iter_values(rows.iter().map(|f| of(f).cwnd_segments))));
        columns.push(column("rtt_s", Float64Array::from_iter_values(rows.iter().map(|f| of(f).srtt_s))));
        columns.push(column("min_rtt_s", Float64Array::from_iter_values(rows.iter().map(|f| of(f).min_rtt_s))));
    }
    if !outcome.services.is_empty() {
        // Not numbered by line: flows stand in the order in which they began.
        let of = |f: &FlowRecord| services[usize::from(outcome.services[f.id.index()])].as_str();
        columns.push(column("service", StringArray::from_iter_values(rows.iter().map(of))));
    }
    columns
}

fn link_columns(fabric: &Fabric, outcome: &Outcome) -> Vec<Column> {
    let name = |node| &*fabric.node(node).name;
    let mut columns = vec![
        column("id", UInt32Array::from_iter_values(outcome.links.iter().map(|l| l.id.0))),
        column("from", StringArray::from_iter_values(outcome.links.iter().map(|l| name(fabric.link(l.id).from)))),
        column("to", StringArray::from_iter_values(outcome.links.iter().map(|l| name(fabric.link(l.id).to)))),
        column("capacity_bps", UInt64Array::from_iter_values(outcome.links.iter().map(|l| fabric.link(l.id).capacity.0))),
        column("bytes", UInt64Array::from_iter_values(outcome.links.iter().map(|l| l.bytes.0))),
    ];
    if outcome.packets.is_some() {
        columns.push(column("drops", UInt64Array::from_iter_values(outcome.links.iter().map(|l| l.drops))));
    }
    columns
}

/// What was asked to be shown: `queues.parquet`, `windows.parquet`, `port.pcap`.
fn write_traced(folder: &Path, traced: &Traced) -> Result<()> {
    if !traced.queues.is_empty() {
        write(&folder.join("queues.parquet"), traced.queues.chunks(BATCH).map(queue_columns), Vec::new)?;
    }
    if !traced.windows.is_empty() {
        write(&folder.join("windows.parquet"), traced.windows.chunks(BATCH).map(window_columns), Vec::new)?;
    }
    if !traced.pcap.is_empty() {
        let path = folder.join("port.pcap");
        std::fs::write(&path, &traced.pcap).map_err(|e| Error::io("write", &path, e))?;
    }
    Ok(())
}

fn queue_columns(rows: &[QueueSample]) -> Vec<Column> {
    vec![
        column("t_s", Float64Array::from_iter_values(rows.iter().map(|r| r.at.as_secs_f64()))),
        column("link", UInt32Array::from_iter_values(rows.iter().map(|r| r.link.0))),
        column("bytes", UInt64Array::from_iter_values(rows.iter().map(|r| r.bytes.0))),
        column("drops", UInt64Array::from_iter_values(rows.iter().map(|r| r.drops))),
    ]
}

fn window_columns(rows: &[WindowSample]) -> Vec<Column> {
    vec![
        column("t_s", Float64Array::from_iter_values(rows.iter().map(|r| r.at.as_secs_f64()))),
        column("flow", UInt32Array::from_iter_values(rows.iter().map(|r| r.flow.0))),
        column("subflow", UInt32Array::from_iter_values(rows.iter().map(|r| r.subflow))),
        column("cwnd_segments", UInt32Array::from_iter_values(rows.iter().map(|r| r.segments))),
        column("srtt_s", Float64Array::from_iter_values(rows.iter().map(|r| r.srtt_ps as f64 / 1e12))),
    ]
}

fn throughput_columns(outcome: &Outcome) -> Vec<Column> {
    vec![
        column("t_s", Float64Array::from_iter_values(outcome.samples.iter().map(|s| s.at.as_secs_f64()))),
        column("delivered_bytes", Float64Array::from_iter_values(outcome.samples.iter().map(|s| s.delivered))),
        column("active_flows", UInt32Array::from_iter_values(outcome.samples.iter().map(|s| s.active))),
        column("nic_bound_bps", Float64Array::from_iter_values(outcome.samples.iter().map(|s| s.nic_bound_bps))),
    ]
}
