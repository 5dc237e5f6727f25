//! Writes reports of synthetic runs: `cargo run -p weft-experiment --example report_demo -- FOLDER`.
//!
//! `sweep.html`: four schedulers on a 16-host fat-tree, with expectations. `large.html`: two on 8,192 hosts.
//! `many.html`: 24 runs on fat-trees of three sizes. `clique.html`: one run. `empty.html`: none.

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::path::PathBuf;

use synthetic::sets;
use weft_experiment::report::render;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "target/report-demo".into()));
    std::fs::create_dir_all(&folder)?;
    for (file, title, runs) in [
        ("sweep.html", "Random traffic on a 16-host fat-tree", sets::sweep()),
        ("large.html", "Stride traffic on an 8,192-host fat-tree", sets::large()),
        ("many.html", "Fat-trees of three sizes under random traffic", sets::many()),
        ("clique.html", "Random traffic on a clique of edge switches", sets::clique()),
        ("empty.html", "A sweep without runs", Vec::new()),
    ] {
        let html = render(title, &runs);
        println!("{}: {} bytes", folder.join(file).display(), html.len());
        std::fs::write(folder.join(file), html)?;
    }
    Ok(())
}
