//! `[traffic]`: what wants to move. `docs/traffic.md` explains every pattern; [`pattern`] reads who sends to whom.

pub mod pattern;
pub mod several;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_fabric::formats::cdf::{self, CdfOptions, CdfUnits};
use weft_fabric::formats::flows::{HostNames, cm, csv, flow_txt};
use weft_fabric::record::FlowRecord;
use weft_fabric::traffic::sizes::{Concurrency, SizeError, SizeSpec, named};
use weft_fabric::traffic::{
    ArrivalRate, Arrivals, EmpiricalCdf, RequestLoad, RequestSpec, StaticWorkload, TrafficError, TrafficSpec, Workload,
};
use weft_fabric::{Duration, Fabric, FlowId, Instant};

use crate::error::{Error, KeyError, Result};
use crate::scenario::directory::{DIRECTORY, DirectoryLoad};
use crate::scenario::keys::{Keys, one_of};
use crate::scenario::nl_arp::{NL_ARP, NlArpLoad};
use crate::scenario::tenants::{TENANTS, TenantLoad};
use pattern::{MEMCACHE, read_participants, read_pattern, read_requests};
use several::Several;

/// What wants to move.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Flows drawn from a description.
    Drawn(TrafficSpec),
    /// Requests and responses, which only a world of packets can carry.
    Requests(RequestSpec),
    /// Look-ups and updates of directory servers, without any flows.
    Directory(DirectoryLoad),
    /// The shuffles of tenants over switches that learn addresses.
    Tenants(TenantLoad),
    /// VMs that boot, move and are looked for, without any flows.
    NlArp(NlArpLoad),
    /// Several services.
    Several(Several),
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

impl Traffic {
    /// Reads `[traffic]`, or several `[[traffic]]`.
    pub fn read_all(root: &Keys<'_>, folder: &Path) -> Result<Self> {
        match root.raw().get("traffic") {
            Some(toml::Value::Array(_)) => Ok(Self::Several(Several::read(&root.tables("traffic")?, folder)?)),
            _ => Self::read(&root.table("traffic")?, folder),
        }
    }

    /// Reads one table.
    pub fn read(keys: &Keys<'_>, folder: &Path) -> Result<Self> {
        if keys.has("file") {
            return Ok(Self::read_file(keys, folder)?);
        }
        if keys.opt::<String>("pattern")?.as_deref() == Some(MEMCACHE) {
            let spec = read_requests(keys)?;
            keys.done()?;
            return Ok(Self::Requests(spec));
        }
        if keys.opt::<String>("pattern")?.as_deref() == Some(DIRECTORY) {
            return Ok(Self::Directory(DirectoryLoad::read(keys)?));
        }
        if keys.opt::<String>("pattern")?.as_deref() == Some(TENANTS) {
            return Ok(Self::Tenants(TenantLoad::read(keys)?));
        }
        if keys.opt::<String>("pattern")?.as_deref() == Some(NL_ARP) {
            return Ok(Self::NlArp(NlArpLoad::read(keys)?));
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
            Self::Requests(spec) => {
                let flows = spec.load(fabric, seed).map_err(|e| at_key(&e))?.flows();
                return Ok(Prepared { workload: Box::new(StaticWorkload::new(flows)), lines: None });
            }
            Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) => {
                return Ok(Prepared { workload: Box::new(StaticWorkload::new(Vec::new())), lines: None });
            }
            Self::Several(several) => return several.prepare(fabric, seed),
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

    /// Whether this is traffic of requests and responses.
    pub const fn is_requests(&self) -> bool {
        matches!(self, Self::Requests(_))
    }

    /// Whether this is the load of a directory.
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// Whether there are neither flows nor requests: a world of its own carries it.
    pub const fn has_no_flows(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_))
    }

    /// The requests on a fabric; `None` if this is traffic of flows.
    ///
    /// # Errors
    /// A description that this fabric cannot have.
    pub fn requests(&self, fabric: &Fabric, seed: u64) -> Result<Option<RequestLoad>> {
        match self {
            Self::Requests(spec) => Ok(Some(spec.load(fabric, seed).map_err(|e| at_key(&e))?)),
            Self::Drawn(_) | Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) | Self::Several(_) | Self::File { .. } => {
                Ok(None)
            }
        }
    }

    /// The largest part of a NIC that flows ask for as long as they arrive; `None` where that is not fixed beforehand.
    ///
    /// # Errors
    /// A description that this fabric cannot have.
    pub fn offered_load(&self, fabric: &Fabric, seed: u64) -> Result<Option<f64>> {
        match self {
            Self::Drawn(spec) => Ok(spec.offered_load(fabric, seed).map_err(|e| at_key(&e))?),
            Self::Several(several) => several.offered_load(fabric, seed),
            Self::Requests(_) | Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) | Self::File { .. } => Ok(None),
        }
    }

    /// Whether some flow never ends, or flows never stop coming.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::File { .. } | Self::Tenants(_) => false,
            Self::Requests(_) | Self::Directory(_) | Self::NlArp(_) => true,
            Self::Several(several) => several.parts.iter().any(|(_, traffic)| traffic.is_endless()),
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
            Self::File { .. } | Self::Requests(_) | Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) | Self::Several(_) => {
                1
            }
        }
    }

    /// Names of the services, if there are several tables.
    pub fn services(&self) -> &[String] {
        match self {
            Self::Several(several) => &several.names,
            _ => &[],
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
            let message = format!("`{key}` speaks of a CDF file, and `size = \"{text}\"` names none");
            return Err(keys.error(key, message, "leave it out, or name a file: size = \"sizes/mine.cdf\"").into());
        }
    }
    Ok(text.parse().map_err(|e| keys.error("size", format!("{e}"), size_help(&text)))?)
}

/// A name that was nearly right is worth more than a list.
fn size_help(text: &str) -> String {
    let guess = one_of(&named::NAMES, text);
    match guess.split_once("? ") {
        Some((guess, _)) => format!("{guess}?"),
        None => "see docs/traffic.md".to_owned(),
    }
}

fn read_cdf(keys: &Keys<'_>, folder: &Path, key: &str, file: &str, options: CdfOptions) -> Result<EmpiricalCdf> {
    let path = folder.join(file);
    let content = std::fs::read(&path).map_err(|e| {
        keys.error(key, format!("cannot read {}: {e}", path.display()), "relative paths start at the scenario's folder")
    })?;
    cdf::parse(&content, options).map_err(|e| Error::format(&path, e))
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
