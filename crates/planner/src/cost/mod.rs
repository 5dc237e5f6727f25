//! `weft cost`: the bill of materials of any fabric, from a price list that the user edits (VL2 section 6, Subways section 7).
//!
//! ```text
//!   scenario --fabric--> Fabric --layout--> racks, cable lengths --+
//!                                     prices.toml --PriceList------+--> Bill: switches, optics, cables, racks, energy
//! ```

mod bill;
mod layout;
mod prices;
mod table;

use std::path::PathBuf;

use clap::Args;

use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::fabric;

pub use bill::{Bill, BillLine};
pub use layout::Layout;
pub use prices::{PriceList, parse};

/// Arguments of `weft cost`.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// Scenarios, or fabric files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// The price list; scenarios/data/prices-illustrative.toml shows the form
    #[arg(long, value_name = "FILE")]
    pub prices: PathBuf,
    /// Leave out edge switches and cables, as VL2 section 6 does
    #[arg(long)]
    pub without_edge_and_cables: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, or does not follow its format; something that the list does not sell.
pub fn run(args: &CostArgs) -> Result<()> {
    let text = std::fs::read_to_string(&args.prices).map_err(|e| Error::io("read", &args.prices, e))?;
    let prices = parse(&text).map_err(|it| Error::input(&args.prices, format!("line {}", it.line), it.message, it.help))?;
    let mut bills = Vec::new();
    for path in &args.scenarios {
        let fabric = fabric::read(path, &[])?;
        let bill = Bill::of(&fabric, &prices, args.without_edge_and_cables);
        let mut bill = bill.map_err(|message| {
            let message = format!("{}: {message}", path.display());
            Error::usage(message, format!("add it to {}, or change the fabric", args.prices.display()))
        })?;
        bill.scenario = path.display().to_string();
        bills.push(bill);
    }
    if args.json { print_json(&bills) } else { print_text(&table::render(&bills, &prices)) }
}
