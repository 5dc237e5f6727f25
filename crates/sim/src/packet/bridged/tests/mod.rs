//! The mode from inside.

mod fib;
mod runs;
