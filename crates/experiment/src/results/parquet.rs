//! `flows.parquet`, `links.parquet`, `link_series.parquet`, `throughput.parquet`: the same bytes for the same scenario and seed.
//!
//! Columns are written by Parquet's own column writers, without Arrow in between: it would double the time that `weft` takes to compile.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use weft_fabric::record::{FlowRecord, LinkRecord, Outcome, Traced};
use weft_fabric::{Fabric, LinkId};

use crate::error::{Error, Result};
use crate::metrics::flow_goodput_bps;

/// Rows that are turned into values of a column at a time.
const BATCH: usize = 65_536;
/// Rows of a row group.
const GROUP: usize = 1 << 20;

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

/// A table with a row for each `R`.
struct Table<'a, R> {
    rows: &'a [R],
    columns: Vec<Column<'a, R>>,
}

struct Column<'a, R> {
    name: &'static str,
    cells: Cells<'a, R>,
}

/// The value of a row in a column.
type Cell<'a, R, T> = Box<dyn Fn(&R) -> T + 'a>;
/// The same of a list.
type ListCell<'a, R, T> = Box<dyn Fn(&R) -> &[T] + 'a>;

/// The type of a column, and its value in a row.
enum Cells<'a, R> {
    U32(Cell<'a, R, u32>),
    U64(Cell<'a, R, u64>),
    F64(Cell<'a, R, f64>),
    OptionalF64(Cell<'a, R, Option<f64>>),
    Text(Cell<'a, R, &'a str>),
    Links(ListCell<'a, R, LinkId>),
}

impl<'a, R> Table<'a, R> {
    const fn of(rows: &'a [R]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    fn column(mut self, name: &'static str, cells: Cells<'a, R>) -> Self {
        self.columns.push(Column { name, cells });
        self
    }

    fn u32(self, name: &'static str, of: impl Fn(&R) -> u32 + 'a) -> Self {
        self.column(name, Cells::U32(Box::new(of)))
    }

    fn u64(self, name: &'static str, of: impl Fn(&R) -> u64 + 'a) -> Self {
        self.column(name, Cells::U64(Box::new(of)))
    }

    fn f64(self, name: &'static str, of: impl Fn(&R) -> f64 + 'a) -> Self {
        self.column(name, Cells::F64(Box::new(of)))
    }

    fn text(self, name: &'static str, of: impl Fn(&R) -> &'a str + 'a) -> Self {
        self.column(name, Cells::Text(Box::new(of)))
    }

    fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).map_err(|e| Error::io("write", path, e))?;
        self.write_to(file).map_err(|e| Error::io("write", path, cause(e)))
    }

    fn write_to(&self, file: File) -> Result<(), ParquetError> {
        let fields = self.columns.iter().map(Column::schema).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        for group in self.rows.chunks(GROUP) {
            let mut group_writer = writer.next_row_group()?;
            for column in &self.columns {
                let mut column_writer = group_writer.next_column()?.expect("a writer for each column of the schema");
                for batch in group.chunks(BATCH) {
                    column.cells.write(batch, &mut column_writer)?;
                }
                column_writer.close()?;
            }
            group_writer.close()?;
        }
        writer.close()?;
        Ok(())
    }
}

/// The underlying error of the system, if it was the system that failed.
fn cause(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => inner.downcast().map_or_else(std::io::Error::other, |it| *it),
        error => std::io::Error::other(error),
    }
}

impl<R> Column<'_, R> {
    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
        let (physical, logical) = match &self.cells {
            Cells::U32(_) => (Physical::INT32, unsigned(32)),
            Cells::U64(_) => (Physical::INT64, unsigned(64)),
            Cells::F64(_) | Cells::OptionalF64(_) => (Physical::DOUBLE, None),
            Cells::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Cells::Links(_) => return list(self.name),
        };
        let optional = matches!(self.cells, Cells::OptionalF64(_));
        primitive(self.name, physical, logical, if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED })
    }
}

fn primitive(
    name: &str,
    physical: Physical,
    logical: Option<LogicalType>,
    repetition: Repetition,
) -> Result<TypePtr, ParquetError> {
    let builder = Type::primitive_type_builder(name, physical).with_logical_type(logical).with_repetition(repetition);
    Ok(Arc::new(builder.build()?))
}

/// A list of numbers in the three levels that Parquet asks for.
fn list(name: &str) -> Result<TypePtr, ParquetError> {
    let item = primitive("item", Physical::INT32, Some(LogicalType::integer(32, false)), Repetition::OPTIONAL)?;
    let items = Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(vec![item]).build()?;
    let builder = Type::group_type_builder(name).with_logical_type(Some(LogicalType::List));
    Ok(Arc::new(builder.with_repetition(Repetition::REQUIRED).with_fields(vec![Arc::new(items)]).build()?))
}

impl<R> Cells<'_, R> {
    /// Writes the column's values of some rows. Parquet has unsigned numbers as the signed ones of the same bits.
    fn write(&self, rows: &[R], writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::U32(of) => {
                let values: Vec<i32> = rows.iter().map(|r| of(r).cast_signed()).collect();
                writer.typed::<Int32Type>().write_batch(&values, None, None)?;
            }
            Self::U64(of) => {
                let values: Vec<i64> = rows.iter().map(|r| of(r).cast_signed()).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Self::F64(of) => {
                let values: Vec<f64> = rows.iter().map(of).collect();
                writer.typed::<DoubleType>().write_batch(&values, None, None)?;
            }
            Self::OptionalF64(of) => {
                let cells: Vec<Option<f64>> = rows.iter().map(of).collect();
                let definition: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                let values: Vec<f64> = cells.into_iter().flatten().collect();
                writer.typed::<DoubleType>().write_batch(&values, Some(&definition), None)?;
            }
            Self::Text(of) => {
                let values: Vec<ByteArray> = rows.iter().map(|r| ByteArray::from(of(r))).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Self::Links(of) => {
                let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
                for links in rows.iter().map(of) {
                    // An empty list is one entry that is defined down to the list, and not to an item.
                    if links.is_empty() {
                        definition.push(0);
                        repetition.push(0);
                    }
                    for (place, link) in links.iter().enumerate() {
                        values.push(link.0.cast_signed());
                        definition.push(2);
                        repetition.push(i16::from(place > 0));
                    }
                }
                writer.typed::<Int32Type>().write_batch(&values, Some(&definition), Some(&repetition))?;
            }
        }
        Ok(())
    }
}
