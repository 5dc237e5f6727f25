//! `weft design`: fabrics for a number of servers, from what a price list sells, and the best of them as scenarios.
//!
//! ```text
//!   servers, speed --catalogue--> [fabric] tables --build, Bill--> by price, within the budget
//!                                                        |
//!                               scenarios <--few-- front <--throughput-- those that a cheaper one may not beat
//! ```

mod catalogue;
mod search;
mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use weft_fabric::BitsPerSec;

use crate::cost::read_prices;
use crate::error::{Error, Result};
use crate::output::{print_json, print_text};

pub use catalogue::{Ask, candidates};
pub use search::{Choice, Found, Search, search};

/// Arguments of `weft design`.
#[derive(Debug, Args)]
pub struct DesignArgs {
    /// Number of servers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=MAX_SERVERS))]
    servers: u32,
    /// Rate at which a server sends and receives: 10Gbps
    #[arg(long, value_name = "RATE")]
    speed: BitsPerSec,
    /// Maximum price of a design, in the currency of the price list
    #[arg(long, value_name = "MONEY", value_parser = money)]
    budget: Option<f64>,
    /// Minimum rate of a server under the worst traffic matrix, as a fraction of the speed
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    at_least: f64,
    /// Price list
    #[arg(long, value_name = "FILE", default_value = "@data/prices-illustrative")]
    prices: PathBuf,
    /// Number of designs to print
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    top: u32,
    /// Write the designs as scenarios, design.json and design.html to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A price list that cannot be read; a number of servers, a speed or a budget for which there is no design.
pub fn run(args: &DesignArgs) -> Result<()> {
    let prices = read_prices(&args.prices)?;
    let ask = Ask { servers: args.servers, speed: args.speed };
    let search = Search { ask, budget: args.budget, at_least: args.at_least, top: args.top as usize };
    let found = search::search(&search, &prices, &args.prices)?;
    let text = table::render(&found, &prices);
    if let Some(folder) = &args.out {
        write_folder(folder, &found, &text)?;
    }
    if args.json { print_json(&found) } else { print_text(&text) }
}

fn write_folder(folder: &Path, found: &Found, text: &str) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))
    };
    for design in &found.designs {
        write(&format!("{}.toml", design.design.bill.scenario), &table::scenario(found, design))?;
    }
    write("design.json", &(serde_json::to_string_pretty(found).expect("results are JSON") + "\n"))?;
    write("design.html", &table::page(found, text))
}

fn money(text: &str) -> std::result::Result<f64, String> {
    let money = text.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
    money.ok_or_else(|| "a number above 0, without a currency".to_owned())
}

fn fraction(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|it| (0.0..=1.0).contains(it)).ok_or_else(|| "a fraction from 0 to 1".to_owned())
}

/// Larger fabrics take minutes to compare.
const MAX_SERVERS: i64 = 20_000;
