//! `weft lab export`: configurations of real switches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use weft_lab::plan::{LabName, Routing};
use weft_lab::switches::{self, Export, Format};

use super::{plan_of, say};
use crate::cli::ScenarioArgs;
use crate::error::{Error, Result};
use crate::scenario::lab::LabSpec;
use crate::scenario::source::{Form, Source};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The scenario file; its [fabric], [overlay] with VL2 or tenants of NetLord, and `ospf` of [world] apply
    scenario: PathBuf,
    /// Format of the configurations
    #[arg(long, value_enum)]
    format: FormatArg,
    /// Folder to create, with one folder per switch; it must not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// With SONiC: lanes per port, which determine the port numbers: Ethernet0, Ethernet4, ...
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    lanes: u32,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// Examples at the end of `weft lab export --help`.
pub(super) const EXAMPLES: &str = "\
Examples:
  weft lab export @vl2/lab-first --format sonic --out switches
  weft lab export @vl2/lab-first --format generic --out text
  weft lab export @netlord/lab-tenants --format sonic --out edges
  weft lab export mine.toml --format sonic --lanes 8 --out switches";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    /// config_db.json and frr.conf
    Sonic,
    /// switch.txt, with the generic commands of many vendors
    Generic,
}

/// Runs it.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let source = Source::read(&args.scenario, &args.changes.overrides(Form::Plain)?)?;
    let spec = LabSpec::read(&source, args.scenario.clone())?;
    let plan = plan_of(&source, &spec, LabName::default(), Routing::Frr)?;
    let format = match args.format {
        FormatArg::Sonic => Format::Sonic { lanes: args.lanes },
        FormatArg::Generic => Format::Generic,
    };
    let exports = switches::export(&plan, format)
        .map_err(|e| Error::usage(format!("{}: {e}", args.scenario.display()), "docs/switches.md lists what is exported"))?;
    let shared = switches::for_agents(&plan);
    write(&args.out, &exports, &shared)?;
    let of = |it: &Export| {
        let files: Vec<&str> = it.files.iter().map(|(name, _)| *name).collect();
        json!({ "switch": it.switch, "files": files, "decapsulates": it.decapsulates, "static_routes": it.routes })
    };
    let files: Vec<&str> = shared.iter().map(|(name, _)| *name).collect();
    let answer = json!({ "out": args.out, "files": files, "switches": exports.iter().map(of).collect::<Vec<_>>() });
    say(args.json, &answer, |_| {
        let stripping = exports.iter().filter(|it| it.decapsulates > 0).count();
        let (count, out) = (exports.len(), args.out.display());
        let own: String = files.iter().map(|file| format!(", and {file} for the agents")).collect();
        let need = match stripping {
            0 => String::new(),
            _ => format!("; {stripping} of them need silicon that decapsulates IP-in-IP"),
        };
        format!("{count} switches in {out}{own}{need}: docs/switches.md\n")
    })
}

/// Makes the folder with all files, or nothing.
fn write(out: &Path, exports: &[Export], shared: &[(&str, String)]) -> Result<()> {
    if out.symlink_metadata().is_ok() {
        return Err(Error::usage(format!("{} already exists", out.display()), "name another folder with `--out DIR`"));
    }
    let parent = out.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |e| Error::io("write", out, e);
    let mut builder = tempfile::Builder::new();
    // With the mode that the user's umask leaves.
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let unfinished = builder.tempdir_in(parent).map_err(failed)?;
    for (name, text) in shared {
        fs::write(unfinished.path().join(name), text).map_err(failed)?;
    }
    for it in exports {
        let folder = unfinished.path().join(&it.switch);
        fs::create_dir(&folder).map_err(failed)?;
        for (name, text) in &it.files {
            fs::write(folder.join(name), text).map_err(failed)?;
        }
    }
    // Renamed, it no longer has the name that is removed.
    fs::rename(unfinished.path(), out).map_err(failed)
}
