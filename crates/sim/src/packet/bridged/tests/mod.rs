//! The mode from inside.

mod faults;
mod fib;
mod runs;
