//! `weft._weft`: what the Python package calls. Wrappers only: nothing is computed here.
//!
//! ```text
//!   python/weft (types, DataFrames, plots) --> _weft --> experiment, fabric, control, sim
//! ```
//! Settings come in as JSON text and summaries go out as JSON text; long columns are NumPy arrays. The global interpreter lock
//! is released while anything long is computed. `python/weft/_weft.pyi` types what stands here.

mod algorithms;
mod error;
mod fabric;
mod interrupt;
mod scenario;

/// The module that Python imports.
#[pyo3::pymodule]
mod _weft {
    #[pymodule_export]
    use crate::algorithms::{estimate_demands, max_min};
    #[pymodule_export]
    use crate::fabric::FabricHandle;
    #[pymodule_export]
    use crate::scenario::{plan_spain, run_scenario};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python packages give it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
