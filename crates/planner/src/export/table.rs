//! Reads `flows.parquet`.

use std::fs::File;
use std::path::Path;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use super::Flow;
use crate::error::{Error, Result};

/// All flows of a results folder.
pub fn read(run: &Path) -> Result<Vec<Flow>> {
    let path = run.join("flows.parquet");
    if !path.exists() && run.join("000").is_dir() {
        let message = format!("{} has the runs of a sweep", run.display());
        return Err(Error::usage(message, format!("name one of them: {}", run.join("000").display())));
    }
    let file = File::open(&path).map_err(|e| Error::io("read", &path, e))?;
    let wrong = |cause: ParquetError| {
        Error::input(&path, "the file", format!("it is no table of flows: {cause}"), "name a folder that `weft run --out` wrote")
    };
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let mut flows = Vec::new();
    for group in 0..reader.num_row_groups() {
        read_group(&*reader.get_row_group(group).map_err(wrong)?, &mut flows).map_err(wrong)?;
    }
    let last = flows.iter().map(|flow| flow.end_s).filter(|end| end.is_finite()).fold(0.0, f64::max);
    for flow in flows.iter_mut().filter(|flow| flow.end_s.is_infinite()) {
        flow.end_s = flow.start_s.max(last);
    }
    Ok(flows)
}

/// Ends that are not known are infinite.
fn read_group(group: &dyn RowGroupReader, flows: &mut Vec<Flow>) -> Result<(), ParquetError> {
    let (src, dst) = (column::<Int32Type>(group, "src")?, column::<Int32Type>(group, "dst")?);
    let (start, end) = (column::<DoubleType>(group, "start_s")?, column::<DoubleType>(group, "end_s")?);
    let bytes = column::<Int64Type>(group, "bytes")?;
    let known = |value: Option<&Option<f64>>| value.copied().flatten();
    for i in 0..group.metadata().num_rows() as usize {
        let number = |column: &[Option<i32>]| column.get(i).copied().flatten().map(|it| it as u32);
        let (Some(src), Some(dst), Some(start_s)) = (number(&src), number(&dst), known(start.get(i))) else {
            return Err(ParquetError::General(format!("flow {} has no source, destination or start", flows.len())));
        };
        let bytes = bytes.get(i).copied().flatten().unwrap_or(0) as u64;
        flows.push(Flow { src, dst, start_s, end_s: known(end.get(i)).unwrap_or(f64::INFINITY), bytes });
    }
    Ok(())
}

/// The values of a column.
fn column<T: DataType>(group: &dyn RowGroupReader, name: &str) -> Result<Vec<Option<T::T>>, ParquetError> {
    let at = group.metadata().columns().iter().position(|column| column.column_path().string() == name);
    let at = at.ok_or_else(|| ParquetError::General(format!("there is no column {name}")))?;
    let descriptor = group.metadata().column(at).column_descr();
    if descriptor.physical_type() != T::get_physical_type() {
        return Err(ParquetError::General(format!("column {name} is {}", descriptor.physical_type())));
    }
    let is_optional = descriptor.max_def_level() > 0;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let (mut out, mut values, mut levels) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        values.clear();
        levels.clear();
        let (rows, ..) = reader.read_records(BATCH, is_optional.then_some(&mut levels), None, &mut values)?;
        if rows == 0 {
            return Ok(out);
        }
        if is_optional {
            let mut present = values.drain(..);
            out.extend(levels.iter().map(|level| if *level > 0 { present.next() } else { None }));
        } else {
            out.extend(values.drain(..).map(Some));
        }
    }
}

/// Rows that are read at a time.
const BATCH: usize = 65_536;
