//! Tables in Parquet files, and the same in CSV.
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
use weft_fabric::LinkId;

use crate::error::{Error, Result};

/// Rows that are turned into values of a column at a time.
const BATCH: usize = 65_536;
/// Rows of a row group.
const GROUP: usize = 1 << 20;

/// A table with a row for each `R`.
pub struct Table<'a, R> {
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
pub(super) enum Cells<'a, R> {
    U32(Cell<'a, R, u32>),
    U64(Cell<'a, R, u64>),
    F64(Cell<'a, R, f64>),
    OptionalF64(Cell<'a, R, Option<f64>>),
    Text(Cell<'a, R, &'a str>),
    Links(ListCell<'a, R, LinkId>),
}

impl<R> std::fmt::Debug for Table<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        f.debug_struct("Table").field("rows", &self.rows.len()).field("columns", &names).finish()
    }
}

impl<'a, R> Table<'a, R> {
    /// A table without columns yet.
    pub const fn of(rows: &'a [R]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    pub(super) fn column(mut self, name: &'static str, cells: Cells<'a, R>) -> Self {
        self.columns.push(Column { name, cells });
        self
    }

    /// Adds a column of numbers.
    pub fn u32(self, name: &'static str, of: impl Fn(&R) -> u32 + 'a) -> Self {
        self.column(name, Cells::U32(Box::new(of)))
    }

    /// Adds a column of large numbers.
    pub fn u64(self, name: &'static str, of: impl Fn(&R) -> u64 + 'a) -> Self {
        self.column(name, Cells::U64(Box::new(of)))
    }

    /// Adds a column of fractions.
    pub fn f64(self, name: &'static str, of: impl Fn(&R) -> f64 + 'a) -> Self {
        self.column(name, Cells::F64(Box::new(of)))
    }

    /// Adds a column of text.
    pub fn text(self, name: &'static str, of: impl Fn(&R) -> &'a str + 'a) -> Self {
        self.column(name, Cells::Text(Box::new(of)))
    }

    /// The table as CSV, with a header.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            out.push_str(&cells.collect::<Vec<_>>().join(","));
            out.push('\n');
        };
        line(&mut self.columns.iter().map(|column| field(column.name)));
        for row in self.rows {
            line(&mut self.columns.iter().map(|column| column.cells.text(row)));
        }
        out
    }

    /// Writes the table to a Parquet file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
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

/// A field of CSV that may have commas, quotes or ends of lines.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
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
    /// A row's value in CSV: nothing where there is none, the numbers of a list between spaces.
    fn text(&self, row: &R) -> String {
        match self {
            Self::U32(of) => of(row).to_string(),
            Self::U64(of) => of(row).to_string(),
            Self::F64(of) => of(row).to_string(),
            Self::OptionalF64(of) => of(row).map_or_else(String::new, |value| value.to_string()),
            Self::Text(of) => field(of(row)),
            Self::Links(of) => of(row).iter().map(|link| link.0.to_string()).collect::<Vec<_>>().join(" "),
        }
    }

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
