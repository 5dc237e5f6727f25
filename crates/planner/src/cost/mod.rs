//! `weft cost`: the bill of materials of any fabric, from a price list that the user edits (VL2 section 6, Subways section 7), and several designs compared.
//!
//! ```text
//!   scenario --fabric--> Fabric --layout--> racks, cable lengths --+
//!                           |         prices.toml --PriceList------+--> Bill: switches, optics, cables, racks, energy
//!                           '--throughput--> worst, p99, under failure --front--> Design: which ones no other beats
//! ```

mod bill;
pub mod front;
mod layout;
pub(crate) mod page;
pub(crate) mod table;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weft_experiment::bundle;

use crate::error::{Error, Result};
use crate::fabric;
use crate::output::{print_json, print_text};
use crate::throughput::Throughput;

pub use bill::{Bill, BillPart};
pub use front::{Design, Designs, Equal};
pub use layout::Layout;
pub use weft_experiment::prices::{PriceList, Switch, parse};

/// Arguments of `weft cost`.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// Scenarios, or fabric files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// Price list: one for all scenarios, or one per scenario in order; @data/prices-illustrative is an example
    #[arg(long, required = true, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
    /// Leave out edge switches, NICs and cables, as VL2 section 6 does
    #[arg(long)]
    pub without_edge_and_cables: bool,
    /// Scale all designs to the price of the cheapest, or to the throughput of the fastest
    #[arg(long, value_enum, value_name = "WHAT")]
    pub equal: Option<Equalize>,
    /// Write cost.json and cost.html, with a plot of cost against throughput, to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What designs are scaled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Equalize {
    /// The price per server of the cheapest
    Money,
    /// The throughput of the fastest under failure
    Throughput,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, or does not follow its format; something that the list does not sell.
pub fn run(args: &CostArgs) -> Result<()> {
    let lists = lists(args)?;
    let is_compared = args.scenarios.len() > 1 || args.out.is_some() || args.equal.is_some();
    let (mut bills, mut fabrics) = (Vec::new(), Vec::new());
    for (number, path) in args.scenarios.iter().enumerate() {
        let at = number.min(lists.len() - 1);
        let fabric = fabric::read(path, &[])?;
        let bill = Bill::of(&fabric, &lists[at], args.without_edge_and_cables);
        let mut bill = bill.map_err(|message| {
            let message = format!("{}: {message}", path.display());
            Error::usage(message, format!("add it to {}, or change the fabric", args.prices[at].display()))
        })?;
        bill.scenario = path.display().to_string();
        bills.push(bill);
        fabrics.push(fabric);
    }
    let tables = table::bills(&bills) + &table::sources(&lists);
    if !is_compared {
        return if args.json { print_json(&bills[0]) } else { print_text(&tables) };
    }
    let rate = |(bill, fabric)| Design::new(bill, Throughput::of(fabric));
    let all = bills.into_iter().zip(&fabrics).map(rate).collect();
    let compared = Designs::new(all, args.equal);
    let text = tables + &table::designs(&compared);
    if let Some(folder) = &args.out {
        write_folder(folder, &compared, &text)?;
    }
    if args.json { print_json(&compared) } else { print_text(&text) }
}

/// Reads a price list, from the disk or a bundled one.
///
/// # Errors
/// A file that cannot be read, or the line that is wrong.
pub fn read_prices(path: &Path) -> Result<PriceList> {
    let text = bundle::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    parse(&text).map_err(|it| Error::input(path, format!("line {}", it.line), it.message, it.help))
}

/// One list for all scenarios, or one for each.
fn lists(args: &CostArgs) -> Result<Vec<PriceList>> {
    let (lists, scenarios) = (args.prices.len(), args.scenarios.len());
    if lists > 1 && lists != scenarios {
        let message = format!("{lists} price lists for {scenarios} scenarios");
        return Err(Error::usage(message, "give --prices once, or once for each scenario, in order"));
    }
    let lists = args.prices.iter().map(|path| read_prices(path)).collect::<Result<Vec<_>>>()?;
    if let Some((at, other)) = lists.iter().enumerate().find(|(_, list)| list.currency != lists[0].currency) {
        let message = format!(
            "{} is in {}, {} in {}",
            args.prices[0].display(),
            lists[0].currency,
            args.prices[at].display(),
            other.currency
        );
        return Err(Error::usage(message, "convert one of them: prices of several currencies cannot be compared"));
    }
    Ok(lists)
}

fn write_folder(folder: &Path, designs: &Designs, text: &str) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))
    };
    write("cost.json", &(serde_json::to_string_pretty(designs).expect("results are JSON") + "\n"))?;
    write("cost.html", &page::render("Costs compared", designs, text))
}
