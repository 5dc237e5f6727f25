//! The runtime of `weft-directory serve`.
