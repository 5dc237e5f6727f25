//! `weft place`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use weft_fabric::routing::RootPaths;

use crate::cli::{ScenarioArgs, print_json, print_text};
use crate::error::{Error, Result};
use crate::scenario::source::Form;
use crate::study::Study;
use crate::world::control::{FirstFlows, place};

/// Arguments of `weft place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// The scenario file
    scenario: PathBuf,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Apply the scenario's [quick] table
    #[arg(long, conflicts_with = "full", help_heading = "Scenario")]
    quick: bool,
    /// Apply the scenario's [full] table
    #[arg(long, help_heading = "Scenario")]
    full: bool,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// Examples at the end of `weft place --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft place @first --set control.scheduler=annealing
  weft place @first --set control.scheduler=first-fit --set fabric.k=4
  weft place mine.toml --json  paths as link numbers, for a program

A sweep must be narrowed to one run with --set KEY=VALUE.";

#[derive(Debug, Serialize)]
struct Placed {
    flows: Vec<PlacedFlow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<Vec<HostCore>>,
    energy: f64,
}

#[derive(Debug, Serialize)]
struct PlacedFlow {
    id: usize,
    src: u32,
    dst: u32,
    demand: f64,
    path: Vec<u32>,
    core: Option<String>,
}

#[derive(Debug, Serialize)]
struct HostCore {
    host: u32,
    core: String,
}

/// Runs it.
pub fn run(args: &PlaceArgs) -> Result<ExitCode> {
    let form = match (args.quick, args.full) {
        (true, _) => Form::Quick,
        (_, true) => Form::Full,
        _ => Form::Plain,
    };
    let study = Study::read(&args.scenario, &args.changes.overrides(form)?)?;
    let [run] = &study.runs[..] else {
        return Err(Error::usage(
            format!("{} has {} runs; `place` looks at one", args.scenario.display(), study.runs.len()),
            "narrow the sweep with `--set KEY=VALUE`",
        ));
    };
    if let Some(search) = study.searches.get(&0) {
        let message = format!("{} searches for `{}`; `place` looks at one setting", args.scenario.display(), search.key);
        return Err(Error::usage(message, format!("choose it with `--set {}=VALUE`", search.key)));
    }
    let locate = |e: Error| study.source.at(e);
    let prepared = study.prepare(0)?;
    let fabric = &prepared.fabric;
    let first = prepared.flows().map(|flows| FirstFlows::of(fabric, &run.scenario, flows)).unwrap_or_default();
    let placement = place(fabric, &run.scenario, &first).map_err(locate)?;
    let roots = RootPaths::new(Arc::clone(fabric));
    let name = |label| fabric.node(fabric.switch_node(roots.root_of(label))).name.to_string();
    let placed = Placed {
        flows: (0..first.keys.len())
            .map(|i| PlacedFlow {
                id: i,
                src: first.keys[i].src.0,
                dst: first.keys[i].dst.0,
                demand: placement.demands[i],
                path: placement.paths[i]
                    .as_ref()
                    .or(first.hashed[i].as_ref())
                    .map(|p| p.iter().map(|l| l.0).collect())
                    .unwrap_or_default(),
                core: placement.labels[i].map(name),
            })
            .collect(),
        cores: placement.cores.as_ref().map(|cores| {
            let given = cores.iter().enumerate().filter_map(|(h, core)| core.map(|label| (h, label)));
            given.map(|(h, label)| HostCore { host: h as u32, core: name(label) }).collect()
        }),
        energy: placement.energy,
    };
    if args.json {
        print_json(&placed)?;
    } else {
        print_text(&text(&placed, fabric))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(placed: &Placed, fabric: &weft_fabric::Fabric) -> String {
    let mut text = String::from("flow      src      dst  demand  core      path\n");
    for flow in &placed.flows {
        let names: Vec<String> =
            flow.path.iter().map(|&l| fabric.node(fabric.link(weft_fabric::LinkId(l)).to).name.to_string()).collect();
        text += &format!(
            "{:<6} {:>6} {:>8}  {:.4}  {:<8}  {}\n",
            flow.id,
            flow.src,
            flow.dst,
            flow.demand,
            flow.core.as_deref().unwrap_or("-"),
            names.join(" ")
        );
    }
    text + &format!("energy: {} NICs of demand beyond the links' capacity\n", placed.energy)
}
