//! `[fabric]`: what the network is. `docs/fabrics.md` draws each kind.

mod subways;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use weft_fabric::formats::topology::{self, Format};
use weft_fabric::topology::shapes::subways::Balancing;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Duration, Fabric};

use crate::bundle;
use crate::error::{KeyError, Problem};
use crate::scenario::keys::Keys;

/// A fabric that can be built.
#[derive(Clone, Debug, PartialEq)]
pub enum FabricSpec {
    /// One of the regular shapes.
    Regular {
        /// Which.
        shape: Shape,
        /// Links from hosts to switches.
        host_link: Cabling,
        /// Links between switches.
        fabric_link: Cabling,
    },
    /// A file of some tool.
    File {
        /// Where it is.
        path: PathBuf,
        /// Its content.
        bytes: Cow<'static, [u8]>,
        /// Its format; `None`: detected from its first words.
        format: Option<Format>,
    },
}

impl FabricSpec {
    /// Reads `[fabric]`; a file is read from `folder`.
    pub fn read(keys: &Keys<'_>, folder: &Path) -> Result<Self, KeyError> {
        let kind: String = keys.need("kind")?;
        let link: Option<BitsPerSec> = keys.opt("link")?;
        let delay = keys.or("delay", Duration::from_us(1))?;
        let rate = |key, default: u64| -> Result<Cabling, KeyError> {
            let rate: BitsPerSec = keys.opt(key)?.or(link).unwrap_or(BitsPerSec(default));
            let given = if keys.has(key) { key } else { "link" };
            keys.check_not_zero(given, rate.0, "a link without capacity", "write a rate such as \"1Gbps\"")?;
            Ok(Cabling { rate, delay })
        };
        let spec = if kind == "file" {
            let path = bundle::resolve(folder, &keys.need::<String>("path")?);
            let unreadable = |cause| keys.problem("path", Problem::Unreadable { path: path.clone(), cause });
            let bytes = bundle::read(&path).map_err(unreadable)?;
            let formats = [("native", Some(Format::Native)), ("htsim", Some(Format::Htsim)), ("hpcc", Some(Format::Hpcc))];
            Self::File { path, bytes, format: keys.word("format", &formats, None)? }
        } else {
            let shape = read_shape(keys, &kind)?;
            let (host_default, switch_default) = match shape {
                Shape::Clos { .. } | Shape::ClosExplicit { .. } => (GIGABIT, 10 * GIGABIT),
                Shape::Subways(_) => (10 * GIGABIT, 10 * GIGABIT),
                _ => (GIGABIT, GIGABIT),
            };
            let host_link = rate("host_link", host_default)?;
            Self::Regular { shape, host_link, fabric_link: rate("fabric_link", switch_default)? }
        };
        keys.done()?;
        Ok(spec)
    }

    /// The load balancing of a Subways type's suffix, unless `[control]` sets another.
    pub fn balancing(&self) -> Balancing {
        match self {
            Self::Regular { shape: Shape::Subways(spec), .. } => spec.kind.balancing(),
            _ => Balancing::None,
        }
    }

    /// Whether hosts may have several NICs: in a file they may.
    pub fn may_have_several_nics(&self) -> bool {
        matches!(self, Self::Regular { shape: Shape::Subways(_), .. } | Self::File { .. })
    }

    /// Whether it is one switch: there is a single path between any two hosts.
    pub fn is_switch(&self) -> bool {
        matches!(self, Self::Regular { shape: Shape::Switch { .. }, .. })
    }

    /// Builds it.
    pub fn build(&self) -> Result<Fabric, KeyError> {
        match self {
            Self::Regular { shape, host_link, fabric_link } => Ok(shape.build(*host_link, *fabric_link)?),
            Self::File { path, bytes, format } => {
                let read = match format {
                    None => topology::read(bytes),
                    Some(format) => topology::read_as(*format, bytes),
                };
                let imported = read
                    .map_err(|e| KeyError::new("fabric.path", format!("{}:{}: {}", path.display(), e.line, e.message), e.help))?;
                for note in &imported.notes {
                    tracing::warn!("{}: {note}", path.display());
                }
                Ok(imported.fabric)
            }
        }
    }
}

const GIGABIT: u64 = 1_000_000_000;

fn read_shape(keys: &Keys<'_>, kind: &str) -> Result<Shape, KeyError> {
    Ok(match kind {
        "fat-tree" => match keys.or("levels", 3u32)? {
            3 => Shape::FatTree { k: keys.need("k")? },
            2 => match keys.opt("k")? {
                Some(k) => Shape::two_level_of_ports(k),
                None => Shape::TwoLevel {
                    edges: keys.need("edges")?,
                    cores: keys.need("cores")?,
                    hosts_per_edge: keys.need("hosts_per_edge")?,
                },
            },
            levels => {
                return Err(keys.error(
                    "levels",
                    format!("there is no fat-tree of {levels} levels here"),
                    "write levels = 2 or 3",
                ));
            }
        },
        "clos" if keys.has("tors") => Shape::ClosExplicit {
            intermediates: keys.need("intermediates")?,
            aggregations: keys.need("aggregations")?,
            tors: keys.need("tors")?,
            uplinks_per_tor: keys.or("uplinks_per_tor", 2)?,
            hosts_per_tor: keys.or("hosts_per_tor", 20)?,
        },
        "clos" => Shape::Clos {
            agg_ports: keys.need("agg_ports")?,
            int_ports: keys.need("int_ports")?,
            hosts_per_tor: keys.or("hosts_per_tor", 20)?,
        },
        "tree" => Shape::Tree {
            tors: keys.need("tors")?,
            hosts_per_tor: keys.need("hosts_per_tor")?,
            tors_per_pod: keys.opt("tors_per_pod")?,
            redundancy: keys.or("redundancy", 1)?,
            tor_oversubscription: keys.or("tor_oversubscription", 1.0)?,
            top_oversubscription: match keys.opt("top_oversubscription")? {
                Some(ratio) => ratio,
                None => keys.or("tor_oversubscription", 1.0)?,
            },
        },
        "clique" => Shape::Clique { switches: keys.need("switches")?, hosts_per_switch: keys.need("hosts_per_switch")? },
        "switch" => Shape::Switch { hosts: keys.need("hosts")? },
        "subways" => Shape::Subways(subways::read(keys)?),
        other => {
            let known = ["fat-tree", "clos", "tree", "clique", "switch", "subways", "file"];
            return Err(keys.problem("kind", Problem::no_such("fabric", other, &known)));
        }
    })
}
