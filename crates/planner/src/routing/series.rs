//! Matrices over time, from a CSV file: `start_s,from,to,bytes`, as `weft analyze traffic --out DIR` writes `DIR/matrix.csv`, or `t,src,dst,bps` with
//! racks by number from 0.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::network::Network;
use crate::routing::matrix::Matrix;

/// Matrices of intervals of the same length.
#[derive(Clone, Debug)]
pub struct Series {
    /// Starts in seconds, and rates.
    pub matrices: Vec<(f64, Matrix)>,
    /// Set if no name of the file is a rack of the fabric: its groups stand on the racks in order.
    pub in_order: bool,
}

type Cells = Vec<((String, String), f64)>;

impl Series {
    /// Reads a file for a network's racks.
    ///
    /// # Errors
    /// A line that is no such record, names that are no racks, more groups than racks.
    pub fn read(path: &Path, network: &Network) -> Result<Self> {
        let (intervals, by_number) = intervals(path)?;
        if by_number {
            return Self::numbered(path, intervals, network.racks());
        }
        let mut names: Vec<&str> =
            intervals.iter().flat_map(|(_, cells)| cells).flat_map(|((from, to), _)| [&**from, &**to]).collect();
        names.sort_unstable();
        names.dedup();
        let (place, in_order) = places(path, network, &names)?;
        let steps = intervals.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let interval_s = steps.fold(f64::INFINITY, f64::min);
        let interval_s = if interval_s.is_finite() { interval_s } else { ONE_INTERVAL_S };
        let matrix = |cells: &Cells| {
            let mut matrix = Matrix::zero(network.racks());
            for ((from, to), bytes) in cells {
                let (from, to) = (place[&**from], place[&**to]);
                if from != to {
                    *matrix.rate_mut(from, to) += bytes * 8.0 / interval_s;
                }
            }
            matrix
        };
        let matrices = intervals.iter().map(|(start, cells)| (*start, matrix(cells))).collect();
        Ok(Self { matrices, in_order })
    }

    /// Of rates between racks by number.
    fn numbered(path: &Path, intervals: Vec<(f64, Cells)>, racks: usize) -> Result<Self> {
        let rack = |name: &str| {
            name.parse::<usize>().ok().filter(|rack| *rack < racks).ok_or_else(|| {
                let message = format!("`{name}` is no rack: there are {racks}, from 0 to {}", racks - 1);
                Error::usage(format!("{}: {message}", path.display()), "number the racks from 0, or choose a larger fabric")
            })
        };
        let mut matrices = Vec::with_capacity(intervals.len());
        for (start, cells) in intervals {
            let mut matrix = Matrix::zero(racks);
            for ((from, to), bps) in cells {
                let (from, to) = (rack(&from)?, rack(&to)?);
                if from != to {
                    *matrix.rate_mut(from, to) += bps;
                }
            }
            matrices.push((start, matrix));
        }
        Ok(Self { matrices, in_order: false })
    }
}

/// The cells of each interval, by its start; and whether they are rates between racks by number.
fn intervals(path: &Path) -> Result<(Vec<(f64, Cells)>, bool)> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(|e| malformed(path, &e))?;
    let header: Vec<String> = reader.headers().map_err(|e| malformed(path, &e))?.iter().map(str::to_owned).collect();
    let by_number = header == NUMBERED;
    if header != HEADER && !by_number {
        let message = format!("its columns are {}", header.join(","));
        return Err(Error::input(
            path,
            "line 1",
            message,
            format!("write {}, as `weft analyze traffic --out DIR` does, or {}", HEADER.join(","), NUMBERED.join(",")),
        ));
    }
    let mut intervals: BTreeMap<u64, (f64, Cells)> = BTreeMap::new();
    for row in reader.records() {
        let row = row.map_err(|e| malformed(path, &e))?;
        let place = format!("line {}", row.position().map_or(0, csv::Position::line));
        let number = |at: usize, what: &str| {
            let value = row[at].parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
            value.ok_or_else(|| {
                Error::input(path, place.clone(), format!("`{}` is no {what}", &row[at]), "write a number that is not negative")
            })
        };
        let (start, bytes) =
            (number(0, "start in seconds")?, number(3, if by_number { "rate in bits per second" } else { "number of bytes" })?);
        intervals.entry(start.to_bits()).or_insert((start, Vec::new())).1.push(((row[1].to_owned(), row[2].to_owned()), bytes));
    }
    if intervals.is_empty() {
        return Err(Error::input(path, "after line 1", "there is no traffic", "name a file with at least one record"));
    }
    Ok((intervals.into_values().collect(), by_number))
}

/// The rack of each name, and whether they stand in order.
fn places<'a>(path: &Path, network: &Network, names: &[&'a str]) -> Result<(BTreeMap<&'a str, usize>, bool)> {
    let racks: BTreeMap<&str, usize> = (0..network.racks()).map(|rack| (network.name(rack as u32), rack)).collect();
    let unknown: Vec<&&str> = names.iter().filter(|name| !racks.contains_key(*name)).collect();
    if unknown.is_empty() {
        return Ok((names.iter().map(|name| (*name, racks[name])).collect(), false));
    }
    let first = network.name(0);
    if unknown.len() < names.len() {
        let message = format!("`{}` is no rack of the fabric, and other groups are", unknown[0]);
        return Err(Error::usage(
            format!("{}: {message}", path.display()),
            format!("name all groups as racks ({first}, ...), or none"),
        ));
    }
    if names.len() > racks.len() {
        let message = format!("{}: {} groups do not fit on {} racks", path.display(), names.len(), racks.len());
        return Err(Error::usage(
            message,
            "choose a larger fabric, or group the hosts by racks with `weft analyze traffic --hosts MAP`",
        ));
    }
    Ok((names.iter().enumerate().map(|(rack, name)| (*name, rack)).collect(), true))
}

fn malformed(path: &Path, cause: &csv::Error) -> Error {
    let place = cause.position().map_or("its begin".to_owned(), |at| format!("line {}", at.line()));
    Error::input(path, place, format!("it is no CSV: {cause}"), format!("write a table with the columns {}", HEADER.join(",")))
}

const NUMBERED: [&str; 4] = ["t", "src", "dst", "bps"];
const HEADER: [&str; 4] = ["start_s", "from", "to", "bytes"];
/// The length of an only interval: that of `weft analyze traffic`.
const ONE_INTERVAL_S: f64 = 100.0;
