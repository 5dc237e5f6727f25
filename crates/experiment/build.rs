//! `src/bundle.rs` embeds `scenarios/`: a file that is added or changed there must rebuild it.

fn main() {
    println!("cargo::rerun-if-changed=../../scenarios");
}
