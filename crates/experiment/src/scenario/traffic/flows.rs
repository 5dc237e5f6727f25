//! Flows as `[traffic]` describes them, drawn or listed in a file, and the same flows on a fabric.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_fabric::formats::cdf::{self, CdfOptions, CdfUnits};
use weft_fabric::formats::flows::cm::ConnectionMatrix;
use weft_fabric::formats::flows::{HostNames, cm, csv, flow_txt};
use weft_fabric::record::FlowRecord;
use weft_fabric::routing::FlowKey;
use weft_fabric::traffic::sizes::{Concurrency, SizeError, SizeSpec, named};
use weft_fabric::traffic::{
    ArrivalRate, Arrivals, EmpiricalCdf, FlowSpec, SeveralWorkloads, StaticWorkload, TrafficSpec, Workload,
};
use weft_fabric::{Duration, Fabric, FlowId, Instant};

use super::pattern::{read_participants, read_pattern};
use crate::bundle;
use crate::error::{Error, KeyError, Problem, Result};
use crate::scenario::keys::Keys;
use crate::suggest::one_of;

/// A `[traffic]` table of flows.
#[derive(Clone, Debug)]
pub enum FlowSource {
    /// Flows drawn from a description.
    Drawn(Box<TrafficSpec>),
    /// Flows listed in a file.
    File {
        /// Path of the file.
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

/// Name, file extension, format.
const FORMATS: &[(&str, &str, FlowFormat)] =
    &[("csv", "csv", FlowFormat::Csv), ("htsim", "cm", FlowFormat::Htsim), ("hpcc", "txt", FlowFormat::Hpcc)];

impl FlowSource {
    /// Reads one table.
    ///
    /// # Errors
    /// What is wrong with it, or with a file that it names.
    pub fn read(keys: &Keys<'_>, folder: &Path) -> Result<Self> {
        if keys.has("file") {
            return Ok(Self::read_file(keys, folder)?);
        }
        let spec = read_spec(keys, folder)?;
        keys.done()?;
        Ok(Self::Drawn(Box::new(spec)))
    }

    fn read_file(keys: &Keys<'_>, folder: &Path) -> Result<Self, KeyError> {
        let path = bundle::resolve(folder, &keys.need::<String>("file")?);
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
        if keys.has("pattern") {
            return Err(keys.error(
                "file",
                "`file` takes the place of `pattern`, its settings and `size`",
                format!(
                    "leave one of them out; on the command line, --set 'traffic={{file=\"{}\"}}' replaces the whole table",
                    keys.need::<String>("file")?
                ),
            ));
        }
        keys.done()?;
        let unreadable = |cause| keys.problem("file", Problem::Unreadable { path: path.clone(), cause });
        let bytes = bundle::read(&path).map_err(unreadable)?;
        Ok(Self::File { path, bytes: bytes.into(), format })
    }

    /// The flows on a fabric.
    ///
    /// # Errors
    /// A description that does not fit the fabric, or a wrong line of the file.
    pub fn on(&self, fabric: &Arc<Fabric>, seed: u64) -> Result<Flows> {
        let (path, bytes, format) = match self {
            Self::Drawn(spec) => {
                spec.workload(fabric, seed).map_err(KeyError::from)?;
                return Ok(Flows::Drawn { spec: spec.clone(), fabric: Arc::clone(fabric), seed });
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
                    return Ok(Flows::Triggered(Arc::new(matrix)));
                }
                matrix.flows()
            }
        };
        Ok(Flows::listed(flows))
    }

    /// The largest fraction of a NIC that flows ask for as long as they arrive; `None` where that is not fixed in advance.
    ///
    /// # Errors
    /// A description that does not fit the fabric.
    pub fn offered_load(&self, fabric: &Fabric, seed: u64) -> Result<Option<f64>> {
        match self {
            Self::Drawn(spec) => Ok(spec.offered_load(fabric, seed).map_err(KeyError::from)?),
            Self::File { .. } => Ok(None),
        }
    }

    /// Whether some flow never ends, or flows never stop arriving.
    pub fn is_endless(&self) -> bool {
        let Self::Drawn(spec) = self else { return false };
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

/// Flows on a fabric, checked and parsed: [`Flows::begin`] gives the same flows from their start each time. Clones share what was parsed.
#[derive(Clone)]
pub enum Flows {
    /// Drawn from a description.
    Drawn {
        /// The description.
        spec: Box<TrafficSpec>,
        /// The fabric whose hosts send.
        fabric: Arc<Fabric>,
        /// The seed of all draws.
        seed: u64,
    },
    /// Listed, with the line of each by the order in which they start.
    Listed {
        /// In the order of the file.
        flows: Arc<[FlowSpec]>,
        /// Flows are numbered by line; `None`: in the order in which they start.
        lines: Option<Arc<[FlowId]>>,
    },
    /// A connection matrix whose flows start others.
    Triggered(Arc<ConnectionMatrix>),
    /// Those of several services, by the number of the service.
    Several(Vec<(u16, Flows)>),
}

impl Flows {
    /// Flows that are known one by one, numbered by their place in the list.
    pub fn listed(flows: Vec<FlowSpec>) -> Self {
        let lines = StaticWorkload::places(&flows).into();
        Self::Listed { flows: flows.into(), lines: Some(lines) }
    }

    /// The same, numbered in the order in which they start.
    pub fn unnumbered(flows: Vec<FlowSpec>) -> Self {
        Self::Listed { flows: flows.into(), lines: None }
    }

    /// The flows from their start, in the order in which they start.
    pub fn begin(&self) -> Box<dyn Workload> {
        match self {
            Self::Drawn { spec, fabric, seed } => spec.workload(fabric, *seed).expect("checked when it was prepared"),
            Self::Listed { flows, .. } => Box::new(StaticWorkload::new(flows.to_vec())),
            Self::Triggered(matrix) => matrix.workload(),
            Self::Several(parts) => {
                let parts: Vec<_> = parts.iter().map(|(service, flows)| (*service, flows.begin())).collect();
                Box::new(SeveralWorkloads::new(parts))
            }
        }
    }

    /// Keys of the flows that start at time 0, by number, as switches see them.
    pub fn first_keys(&self) -> Vec<FlowKey> {
        let mut workload = self.begin();
        let mut keys = Vec::new();
        while workload.next_start() == Some(Instant::ZERO) {
            let Some(flow) = workload.next_flow() else { break };
            keys.push(FlowKey::of_flow(keys.len() as u32, flow.src, flow.dst));
        }
        keys
    }

    /// The line of each flow of a file, by the order in which they start.
    pub fn lines(&self) -> Option<&[FlowId]> {
        match self {
            Self::Listed { lines, .. } => lines.as_deref(),
            Self::Drawn { .. } | Self::Triggered(_) | Self::Several(_) => None,
        }
    }

    /// Flows that are held in memory before the run.
    pub fn held(&self) -> usize {
        match self {
            Self::Drawn { .. } => 0,
            Self::Listed { flows, .. } => flows.len(),
            Self::Triggered(matrix) => matrix.connections.len(),
            Self::Several(parts) => parts.iter().map(|(_, flows)| flows.held()).sum(),
        }
    }
}

/// Numbers flows of a file by line instead of by the order in which they started.
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
        pattern: read_pattern(keys, folder)?,
        among: read_participants(keys)?,
        size: read_size(keys, folder)?,
        arrivals: read_arrivals(keys, folder)?,
        flows_per_host: keys.opt("flows_per_host")?,
        flows: keys.opt("flows")?,
        start: Instant::ZERO + start,
        start_spread: keys.or("start_spread", Duration::ZERO)?,
        start_every: keys.or("start_every", Duration::ZERO)?,
    })
}

fn read_arrivals(keys: &Keys<'_>, folder: &Path) -> Result<Arrivals> {
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
                    return Err(keys
                        .error("arrivals", "how many flows arrive?", "add `load = 0.5` or `rate = 10`, and not both")
                        .into());
                }
            };
            Arrivals::Poisson { rate, until: keys.opt::<Duration>("until")?.map(|d| Instant::ZERO + d) }
        }
        Kind::ClosedLoop => Arrivals::ClosedLoop { concurrency: read_concurrency(keys, folder)? },
    })
}

/// `concurrency`: a number of flows, a distribution by name, or a CDF file.
fn read_concurrency(keys: &Keys<'_>, folder: &Path) -> Result<Concurrency> {
    keys.has("concurrency");
    let text = match keys.raw().get("concurrency") {
        Some(toml::Value::Integer(n)) => n.to_string(),
        _ => keys.or("concurrency", "1".to_owned())?,
    };
    let at_key = |e: SizeError| keys.error("concurrency", format!("{e}"), "write a number, or \"vl2-concurrency\"");
    if !SizeSpec::is_file_name(&text) {
        return Ok(text.parse().map_err(at_key)?);
    }
    let drawn = Concurrency::Drawn(Arc::new(read_cdf(keys, folder, "concurrency", &text, CdfOptions::default())?));
    drawn.check().map_err(at_key)?;
    Ok(drawn)
}

/// `size`: a quantity, `inf`, a distribution by name, or a CDF file.
fn read_size(keys: &Keys<'_>, folder: &Path) -> Result<SizeSpec> {
    let words = [("percent", Some(CdfUnits::Percent)), ("fraction", Some(CdfUnits::Fraction))];
    let units = keys.word("cdf_units", &words, None)?;
    let scale = keys.opt("cdf_scale")?;
    let text: String = keys.or("size", "inf".to_owned())?;
    if SizeSpec::is_file_name(&text) {
        return Ok(SizeSpec::Empirical(Arc::new(read_cdf(keys, folder, "size", &text, CdfOptions { units, scale })?)));
    }
    for (key, given) in [("cdf_units", units.is_some()), ("cdf_scale", scale.is_some())] {
        if given {
            let message = format!("`{key}` belongs to a CDF file, and `size = \"{text}\"` names none");
            return Err(keys.error(key, message, "leave it out, or name a file: size = \"sizes/mine.cdf\"").into());
        }
    }
    Ok(text.parse().map_err(|e| keys.error("size", format!("{e}"), size_help(&text)))?)
}

/// The nearest name, if one is near; else where sizes are documented.
fn size_help(text: &str) -> String {
    let guess = one_of(&named::NAMES, text);
    match guess.split_once("? ") {
        Some((guess, _)) => format!("{guess}?"),
        None => "see docs/traffic.md".to_owned(),
    }
}

fn read_cdf(keys: &Keys<'_>, folder: &Path, key: &str, file: &str, options: CdfOptions) -> Result<EmpiricalCdf> {
    let path = bundle::resolve(folder, file);
    let unreadable = |cause| keys.problem(key, Problem::Unreadable { path: path.clone(), cause });
    let content = bundle::read(&path).map_err(unreadable)?;
    cdf::parse(&content, options).map_err(|e| Error::format(&path, e))
}
