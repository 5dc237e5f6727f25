//! `weft-directory`: serves the directory, asks it, and measures it. `weft directory ...` runs this program.

fn main() {
    std::process::exit(2);
}
