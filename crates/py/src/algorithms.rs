//! The algorithms alone, on NumPy arrays.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use weft_control::hedera::estimate;

use crate::error::from_text;

/// Hedera's demand estimation (section 4.2): a fraction of the NIC for each flow.
#[pyfunction]
pub fn estimate_demands<'py>(
    py: Python<'py>,
    src: PyReadonlyArray1<'py, u32>,
    dst: PyReadonlyArray1<'py, u32>,
    hosts: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (src, dst) = (src.as_slice()?, dst.as_slice()?);
    let demands = py.detach(|| estimate(src, dst, hosts)).map_err(|e| from_text(&e))?;
    Ok(PyArray1::from_vec(py, demands))
}

/// Max-min fair rates of flows on fixed paths, in compressed rows: flow `f` crosses `links[offsets[f]..offsets[f + 1]]`.
#[pyfunction]
pub fn max_min<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, usize>,
    links: PyReadonlyArray1<'py, u32>,
    capacities: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (offsets, links, capacities) = (offsets.as_slice()?, links.as_slice()?, capacities.as_slice()?);
    let rates = py.detach(|| weft_sim::flow::max_min(offsets, links, capacities)).map_err(|e| from_text(&e))?;
    Ok(PyArray1::from_vec(py, rates))
}
