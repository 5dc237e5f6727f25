//! `[traffic]`: what wants to move. `docs/traffic.md` explains every pattern.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_fabric::formats::cdf::{self, CdfOptions, CdfUnits};
use weft_fabric::formats::flows::{HostNames, cm, csv, flow_txt};
use weft_fabric::record::FlowRecord;
use weft_fabric::traffic::sizes::{Concurrency, SizeSpec};
use weft_fabric::traffic::{ArrivalRate, Arrivals, Pattern, ShuffleMode, StaticWorkload, TrafficError, TrafficSpec, Workload};
use weft_fabric::{Duration, Fabric, FlowId, HostId, Instant};

use crate::error::{Error, KeyError, Result};
use crate::scenario::keys::{Keys, one_of};

/// What wants to move.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Flows drawn from a description.
    Drawn(TrafficSpec),
    /// Flows listed in a file, with the text that they came from.
    File {
        /// Where it is.
        path: PathBuf,
        /// Its content; parsed against the fabric, whose hosts it names.
        bytes: Arc<[u8]>,
        /// Its format.
        format: FlowFormat,
    },
}

/// How a file lists flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFormat {
    /// Header `src,dst,start,size`.
    Csv,
    /// A connection matrix of htsim.
    Htsim,
    /// A `flow.txt` of HPCC's ns-3.
    Hpcc,
}

/// Name, ending of the file, format.
const FORMATS: &[(&str, &str, FlowFormat)] =
    &[("csv", "csv", FlowFormat::Csv), ("htsim", "cm", FlowFormat::Htsim), ("hpcc", "txt", FlowFormat::Hpcc)];

const PATTERNS: &[&str] =
    &["stride", "staggered", "random", "bijection", "permutation", "hotspot", "shuffle", "incast", "closed-loop"];

impl Traffic {
    /// Reads `[traffic]`.
    pub fn read(keys: &Keys<'_>, folder: &Path) -> Result<Self> {
        if keys.has("file") {
            return Ok(Self::read_file(keys, folder)?);
        }
        let spec = read_spec(keys, folder)?;
        keys.done()?;
        Ok(Self::Drawn(spec))
    }

    fn read_file(keys: &Keys<'_>, folder: &Path) -> Result<Self, KeyError> {
        let path = folder.join(keys.need::<String>("file")?);
        let by_ending = path.extension().and_then(|e| FORMATS.iter().find(|(_, ending, _)| e == *ending)).map(|&(.., f)| f);
        let names: Vec<(&str, FlowFormat)> = FORMATS.iter().map(|&(name, _, format)| (name, format)).collect();
        let format = match (keys.has("format"), by_ending) {
            (false, Some(format)) => format,
            (true, _) => keys.word("format", &names, FlowFormat::Csv)?,
            (false, None) => {
                let message = format!("which format is {}?", path.display());
                return Err(keys.error("file", message, "add format = \"csv\", \"htsim\" or \"hpcc\""));
            }
        };
        keys.done()?;
        let bytes = std::fs::read(&path).map_err(|e| {
            keys.error("file", format!("cannot read {}: {e}", path.display()), "relative paths start at the scenario's folder")
        })?;
        Ok(Self::File { path, bytes: bytes.into(), format })
    }

    /// The flows on a fabric.
    ///
    /// # Errors
    /// A description that this fabric cannot have, or a line of the file that is wrong.
    pub fn prepare(&self, fabric: &Fabric, seed: u64) -> Result<Prepared> {
        let (path, bytes, format) = match self {
            Self::Drawn(spec) => {
                let workload = spec.workload(fabric, seed).map_err(|e| at_key(&e))?;
                return Ok(Prepared { workload, lines: None });
            }
            Self::File { path, bytes, format } => (path, bytes, format),
        };
        let at_line = |e| Error::format(path, e);
        let flows = match format {
            FlowFormat::Csv => csv::parse(bytes, HostNames::of(fabric)).map_err(at_line)?,
            FlowFormat::Hpcc => flow_txt::parse(bytes, HostNames::of_same_tool(fabric)).map_err(at_line)?,
            FlowFormat::Htsim => {
                let matrix = cm::parse(bytes, HostNames::of_same_tool(fabric)).map_err(at_line)?;
                if matrix.has_triggers() {
                    return Ok(Prepared { workload: matrix.workload(), lines: None });
                }
                matrix.flows()
            }
        };
        let lines = StaticWorkload::places(&flows);
        Ok(Prepared { workload: Box::new(StaticWorkload::new(flows)), lines: Some(lines) })
    }

    /// Whether some flow never ends, or flows never stop coming.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::File { .. } => false,
            Self::Drawn(spec) => {
                let unlimited = spec.flows_per_host.is_none()
                    && spec.flows.is_none()
                    && match &spec.arrivals {
                        Arrivals::Once => false,
                        Arrivals::Poisson { until, .. } => until.is_none(),
                        Arrivals::ClosedLoop { .. } => true,
                    };
                spec.size == SizeSpec::Infinite || unlimited
            }
        }
    }

    /// Flows that a host sends at a time, for the slots model.
    pub fn flows_per_host(&self) -> u32 {
        match self {
            Self::Drawn(spec) => spec.flows_per_host.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            Self::File { .. } => 1,
        }
    }
}

/// Flows that are ready to be carried.
pub struct Prepared {
    /// In the order in which they begin.
    pub workload: Box<dyn Workload>,
    /// For flows of a file: the line of each, by the order in which they begin.
    pub lines: Option<Vec<FlowId>>,
}

/// Gives flows of a file the number of their line instead of the order in which they began.
pub fn number_by_line(lines: Option<&[FlowId]>, flows: &mut [FlowRecord]) {
    if let Some(lines) = lines {
        for flow in flows.iter_mut() {
            flow.id = lines[flow.id.index()];
        }
        flows.sort_by_key(|f| f.id);
    }
}

fn read_spec(keys: &Keys<'_>, folder: &Path) -> Result<TrafficSpec> {
    let start: Duration = keys.or("start", Duration::ZERO)?;
    Ok(TrafficSpec {
        pattern: read_pattern(keys)?,
        size: read_size(keys, folder)?,
        arrivals: read_arrivals(keys)?,
        flows_per_host: keys.opt("flows_per_host")?,
        flows: keys.opt("flows")?,
        start: Instant::ZERO + start,
        start_spread: keys.or("start_spread", Duration::ZERO)?,
    })
}

fn read_pattern(keys: &Keys<'_>) -> Result<Pattern, KeyError> {
    let name: String = keys.need("pattern")?;
    Ok(match name.as_str() {
        "stride" => Pattern::Stride { stride: keys.need("stride")? },
        "staggered" => Pattern::Staggered { edge: keys.need("edge_p")?, pod: keys.need("pod_p")? },
        "random" | "closed-loop" => Pattern::Random,
        "bijection" | "permutation" => Pattern::Bijection,
        "hotspot" => Pattern::Hotspot { hotspots: keys.opt("hotspots")?, fraction: keys.or("fraction", 0.5)? },
        "shuffle" => Pattern::Shuffle { hosts: keys.opt("hosts")?, mode: read_mode(keys)? },
        "incast" => Pattern::Incast { fan_in: keys.opt("fan_in")?, receiver: HostId(keys.or("receiver", 0)?) },
        other => return Err(keys.error("pattern", format!("there is no pattern `{other}`"), one_of(PATTERNS, other))),
    })
}

fn read_mode(keys: &Keys<'_>) -> Result<ShuffleMode, KeyError> {
    let sequential = keys.word("mode", &[("parallel", false), ("sequential", true)], false)?;
    Ok(if sequential { ShuffleMode::Sequential { concurrency: keys.or("concurrency", 1)? } } else { ShuffleMode::Parallel })
}

fn read_arrivals(keys: &Keys<'_>) -> Result<Arrivals, KeyError> {
    #[derive(Clone, Copy)]
    enum Kind {
        Once,
        Poisson,
        ClosedLoop,
    }
    let kinds = [("once", Kind::Once), ("poisson", Kind::Poisson), ("closed-loop", Kind::ClosedLoop)];
    let closed = keys.opt::<String>("pattern")?.is_some_and(|p| p == "closed-loop");
    Ok(match keys.word("arrivals", &kinds, if closed { Kind::ClosedLoop } else { Kind::Once })? {
        Kind::Once => Arrivals::Once,
        Kind::Poisson => {
            let rate = match (keys.opt::<f64>("rate")?, keys.opt::<f64>("load")?) {
                (Some(rate), None) => ArrivalRate::PerHost(rate),
                (None, Some(load)) => ArrivalRate::Load(load),
                _ => {
                    return Err(keys.error(
                        "arrivals",
                        "how many flows arrive?",
                        "add `load = 0.5` or `rate = 10`, and not both",
                    ));
                }
            };
            Arrivals::Poisson { rate, until: keys.opt::<Duration>("until")?.map(|d| Instant::ZERO + d) }
        }
        Kind::ClosedLoop => {
            let text = match keys.raw().get("concurrency") {
                Some(toml::Value::Integer(n)) => n.to_string(),
                _ => keys.or("concurrency", "1".to_owned())?,
            };
            keys.has("concurrency");
            let concurrency: Concurrency =
                text.parse().map_err(|e| keys.error("concurrency", format!("{e}"), "write a number, or \"vl2-concurrency\""))?;
            Arrivals::ClosedLoop { concurrency }
        }
    })
}

/// `size`: a quantity, `inf`, a distribution by name, or a CDF file.
fn read_size(keys: &Keys<'_>, folder: &Path) -> Result<SizeSpec> {
    let words = [("percent", Some(CdfUnits::Percent)), ("fraction", Some(CdfUnits::Fraction))];
    let units = keys.word("cdf_units", &words, None)?;
    let text: String = keys.or("size", "inf".to_owned())?;
    if !SizeSpec::is_file_name(&text) {
        return Ok(text.parse().map_err(|e| keys.error("size", format!("{e}"), "see docs/traffic.md"))?);
    }
    let path = folder.join(&text);
    let content = std::fs::read(&path).map_err(|e| {
        keys.error("size", format!("cannot read {}: {e}", path.display()), "relative paths start at the scenario's folder")
    })?;
    let scale = keys.opt("cdf_scale")?;
    let cdf = cdf::parse(&content, CdfOptions { units, scale }).map_err(|e| Error::format(&path, e))?;
    Ok(SizeSpec::Empirical(Arc::new(cdf)))
}

/// The key that a description's error speaks of.
fn at_key(error: &TrafficError) -> KeyError {
    let key = match error {
        TrafficError::Parameter { key, .. } => format!("traffic.{key}"),
        TrafficError::Size(_) => "traffic.size".to_owned(),
        TrafficError::TooFewHosts { .. } => "traffic".to_owned(),
    };
    KeyError::new(key, error.to_string(), "see docs/traffic.md")
}
