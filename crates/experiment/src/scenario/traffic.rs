//! `[traffic]`: what wants to move. `docs/traffic.md` explains every pattern.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_fabric::formats::cdf::{self, CdfUnits};
use weft_fabric::formats::flows::FlowFormat;
use weft_fabric::traffic::sizes::{Concurrency, SizeSpec};
use weft_fabric::traffic::{ArrivalRate, Arrivals, FlowSpec, Pattern, ShuffleMode, StaticWorkload, TrafficError, TrafficSpec, Workload};
use weft_fabric::{Duration, Fabric, HostId, Instant};

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
        /// Its text; parsed against the fabric, whose hosts it names.
        text: Arc<str>,
        /// Its format.
        format: FlowFormat,
    },
}

const PATTERNS: &[&str] = &["stride", "staggered", "random", "bijection", "permutation", "hotspot", "shuffle", "incast", "closed-loop"];

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
        let format = match keys.opt::<String>("format")? {
            None => FlowFormat::of_path(&path).ok_or_else(|| {
                keys.error("file", format!("which format is {}?", path.display()), "add format = \"csv\", \"htsim\" or \"hpcc\"")
            })?,
            Some(name) => name
                .parse()
                .map_err(|_| keys.error("format", format!("there is no flow format `{name}`"), one_of(&["csv", "htsim", "hpcc"], &name)))?,
        };
        keys.done()?;
        let text = std::fs::read_to_string(&path).map_err(|e| {
            keys.error("file", format!("cannot read {}: {e}", path.display()), "relative paths start at the scenario's folder")
        })?;
        Ok(Self::File { path, text: text.into(), format })
    }

    /// The flows on a fabric.
    pub fn workload(&self, fabric: &Fabric, seed: u64) -> Result<Box<dyn Workload>> {
        match self {
            Self::Drawn(spec) => spec.workload(fabric, seed).map_err(|e| at_key(&e).into()),
            Self::File { path, text, format } => {
                let flows = format.read(text, fabric).map_err(|e| Error::format(path, e))?;
                Ok(Box::new(StaticWorkload::new(flows)))
            }
        }
    }

    /// Whether some flow never ends, or flows never stop coming.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::File { .. } => false,
            Self::Drawn(spec) => {
                let unlimited = spec.flows_per_host.is_none()
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

/// The flows that a workload begins at time 0.
pub fn flows_at_start(workload: &mut dyn Workload) -> Vec<FlowSpec> {
    let mut flows = Vec::new();
    while workload.next_start() == Some(Instant::ZERO) {
        flows.extend(workload.next_flow());
    }
    flows
}

fn read_spec(keys: &Keys<'_>, folder: &Path) -> Result<TrafficSpec> {
    let start: Duration = keys.or("start", Duration::ZERO)?;
    Ok(TrafficSpec {
        pattern: read_pattern(keys)?,
        size: read_size(keys, folder)?,
        arrivals: read_arrivals(keys)?,
        flows_per_host: keys.opt("flows_per_host")?,
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
                _ => return Err(keys.error("arrivals", "how many flows arrive?", "add `load = 0.5` or `rate = 10`, and not both")),
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
    let content = std::fs::read_to_string(&path).map_err(|e| {
        keys.error("size", format!("cannot read {}: {e}", path.display()), "relative paths start at the scenario's folder")
    })?;
    let cdf = cdf::read(&content, units).map_err(|e| Error::format(&path, e))?;
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
