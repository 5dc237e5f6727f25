//! `weft spain`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::atomic_file;
use crate::cli::{ScenarioArgs, print_json, print_text};
use crate::error::{Error, Result};
use crate::scenario::source::Form;
use crate::spain::{self, Survey};

/// Arguments of `weft spain`.
#[derive(Debug, Args)]
pub struct SpainArgs {
    /// The scenario file: its [fabric], the hosts of its [[tenant]]s, and `spain_paths`, `spain_orders`, `special_trees` of its [control]
    scenario: PathBuf,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Also print the VLANs of every port of every switch
    #[arg(long)]
    switches: bool,
    /// Also write the tables of the agents to this file, for `weft directory publish spain FILE`
    #[arg(long, value_name = "FILE")]
    agents: Option<PathBuf>,
    /// Version of that file; it must be greater than the version in the store
    #[arg(long, value_name = "N", default_value_t = 1, requires = "agents", value_parser = clap::value_parser!(u32).range(1..))]
    agents_version: u32,
    /// Print one JSON document and nothing else; it includes the switches
    #[arg(long)]
    json: bool,
}

/// Examples at the end of `weft spain --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft spain @netlord/figure5                numbers of VLANs and of paths
  weft spain @netlord/lab-faults --switches  VLANs of every port
  weft spain mine.toml --agents spain.weft   tables for the agents";

/// Runs it.
pub fn run(args: &SpainArgs) -> Result<ExitCode> {
    let (fabric, plan) = spain::plan(&args.scenario, &args.changes.overrides(Form::Plain)?)?;
    let survey = spain::of_plan(&fabric, &plan);
    if let Some(file) = &args.agents {
        let text = spain::tables(&plan, args.agents_version).emit();
        atomic_file::write(file, &text).map_err(|e| Error::io("write", file, e))?;
    }
    if args.json {
        print_json(&survey)?;
    } else {
        print_text(&text(&survey, args.switches))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `VLANs 4094, 4093; no cable in two of them`.
fn trees(survey: &Survey) -> String {
    let vlans: Vec<String> = survey.special.vlans.iter().map(u16::to_string).collect();
    let shared = match (vlans.len(), survey.special.shared_cables) {
        (1, _) => return format!("VLAN {}", vlans[0]),
        (_, 0) => "no cable".to_owned(),
        (_, 1) => "1 cable".to_owned(),
        (_, n) => format!("{n} cables"),
    };
    format!("VLANs {}; {shared} in more than one of them", vlans.join(", "))
}

fn text(survey: &Survey, switches: bool) -> String {
    let range = |[least, mean, most]: [f64; 3]| format!("{least} to {most}, mean {mean:.2}");
    let mut text = format!(
        "{}\n{} VLANs; no packing has fewer than {} (the most paths of a pair)\n{} edge switches, {} pairs\n\
         paths of a pair      {}\n  edge-disjoint ones {}\nlongest path         {} hops\ncables in VLANs      {} of {} between switches\n\
         trees for all        {}\n\
         entries of an edge   at most {} with NetLord: other edge switches, once for each VLAN, and its servers\n",
        survey.fabric,
        survey.vlans,
        survey.bound,
        survey.edge_switches,
        survey.pairs,
        range(survey.paths),
        range(survey.disjoint),
        survey.longest_hops,
        survey.cables_used,
        survey.cables,
        trees(survey),
        survey.fib_entries,
    );
    if switches {
        for switch in &survey.switches {
            text += &format!("\n{}\n", switch.switch);
            for port in &switch.ports {
                text += &format!(
                    "  {:>4}  {:<16} vlan {}\n",
                    port.port,
                    port.to,
                    if port.vlans.is_empty() { "none" } else { &port.vlans }
                );
            }
        }
    }
    text
}
