//! The part of `[traffic]` that sets who sends to whom: `pattern`, its own keys, and which hosts take part.

use std::path::Path;
use std::sync::Arc;

use weft_fabric::formats::flows::matrix;
use weft_fabric::traffic::{HostList, Participants, Pattern, Place, RequestSpec, ShuffleMode};
use weft_fabric::{Bytes, Duration, HostId, Instant};

use super::matrices::{MATRICES, MATRIX};
use crate::bundle;
use crate::error::{Error, KeyError, Problem, Result};
use crate::scenario::keys::{Keys, Numbers};

/// The pattern of requests and responses: not flows, and so not a [`Pattern`].
pub const MEMCACHE: &str = "memcache";

const PATTERNS: &[&str] = &[
    "stride",
    "staggered",
    "random",
    "bijection",
    "permutation",
    "hotspot",
    "shuffle",
    "incast",
    "many-to-many",
    "closed-loop",
    MATRIX,
    MEMCACHE,
    crate::scenario::directory::DIRECTORY,
    crate::scenario::nl_arp::NL_ARP,
    super::matrices::VOLATILE,
];

/// Reads `pattern` and the keys that go with it alone; relative paths start at `folder`.
///
/// # Errors
/// What is wrong with them, or with a file of matrices.
pub fn read_pattern(keys: &Keys<'_>, folder: &Path) -> Result<Pattern> {
    let name: String = keys.need("pattern")?;
    if name == MATRIX {
        let path = bundle::resolve(folder, &keys.need::<String>(MATRICES)?);
        let unreadable = |cause| keys.problem(MATRICES, Problem::Unreadable { path: path.clone(), cause });
        let content = bundle::read(&path).map_err(unreadable)?;
        let weights = matrix::parse(&content).map_err(|e| Error::format(&path, e))?;
        return Ok(Pattern::Matrix { weights: Arc::new(weights) });
    }
    Ok(named(keys, &name)?)
}

fn named(keys: &Keys<'_>, name: &str) -> Result<Pattern, KeyError> {
    Ok(match name {
        "stride" => Pattern::Stride { stride: keys.need("stride")? },
        "staggered" => Pattern::Staggered { edge: keys.need("edge_p")?, pod: keys.need("pod_p")? },
        "random" | "closed-loop" => Pattern::Random,
        "bijection" | "permutation" => Pattern::Bijection,
        "hotspot" => Pattern::Hotspot { hotspots: keys.opt("hotspots")?, fraction: keys.or("fraction", 0.5)? },
        "shuffle" => Pattern::Shuffle { mode: read_mode(keys)? },
        "incast" => Pattern::Incast { fan_in: keys.opt("fan_in")?, receiver: HostId(keys.or("receiver", 0)?) },
        "many-to-many" => Pattern::ManyToMany {
            senders: need_list(keys, "sender_racks", "senders")?,
            receivers: need_list(keys, "receiver_racks", "receivers")?,
            flows_per_pair: keys.or("flows_per_pair", 1)?,
        },
        other => return Err(keys.problem("pattern", Problem::no_such("pattern", other, PATTERNS))),
    })
}

/// Reads `hosts`, `racks`, `place` and `first_rack`.
pub fn read_participants(keys: &Keys<'_>) -> Result<Participants, KeyError> {
    let contiguous = keys.word("place", &[("spread", false), ("contiguous", true)], false)?;
    let from = keys.opt::<Numbers>("first_rack")?;
    if from.is_some() && !contiguous {
        let (key, owner) = ("first_rack".to_owned(), "hosts that are placed rack by rack");
        return Err(keys.problem("first_rack", Problem::BelongsTo { key, owner, write: "add `place = \"contiguous\"`" }));
    }
    let place = if contiguous { Place::Contiguous { from: from.map(|n| n.0).unwrap_or_default() } } else { Place::Spread };
    let racks = keys.opt::<Numbers>("racks")?.map(|n| n.0);
    // A number sets how many take part, a list which.
    keys.has("hosts");
    Ok(match keys.raw().get("hosts") {
        Some(toml::Value::Array(_) | toml::Value::String(_)) => {
            Participants { hosts: None, listed: keys.opt::<Numbers>("hosts")?.map(|n| n.0), racks, place }
        }
        _ => Participants { hosts: keys.opt("hosts")?, listed: None, racks, place },
    })
}

/// Reads `pattern = "memcache"`.
pub fn read_requests(keys: &Keys<'_>) -> Result<RequestSpec, KeyError> {
    Ok(RequestSpec {
        servers: opt_list(keys, "server_racks", "servers")?.unwrap_or(HostList::Racks(MEMCACHE_RACKS.to_vec())),
        clients: opt_list(keys, "client_racks", "clients")?,
        request: keys.or("request_size", Bytes(50))?,
        response: keys.or("response_size", Bytes(1500))?,
        requests_per_s: keys.need("requests_per_s")?,
        start: Instant::ZERO + keys.or("start", Duration::ZERO)?,
    })
}

/// Two racks of a cluster hold memcache servers (Subways section 8.7).
const MEMCACHE_RACKS: [u32; 2] = [0, 1];

fn read_mode(keys: &Keys<'_>) -> Result<ShuffleMode, KeyError> {
    let sequential = keys.word("mode", &[("parallel", false), ("sequential", true)], false)?;
    Ok(if sequential { ShuffleMode::Sequential { concurrency: keys.or("concurrency", 1)? } } else { ShuffleMode::Parallel })
}

fn need_list(keys: &Keys<'_>, racks: &'static str, hosts: &'static str) -> Result<HostList, KeyError> {
    opt_list(keys, racks, hosts)?.ok_or_else(|| {
        keys.error(
            "pattern",
            format!("which are the {hosts}?"),
            format!("add `{racks} = [0, 1]`, or `{hosts} = [..]` with host numbers"),
        )
    })
}

/// Hosts under one of two keys.
fn opt_list(keys: &Keys<'_>, racks: &'static str, hosts: &'static str) -> Result<Option<HostList>, KeyError> {
    match (keys.opt::<Numbers>(racks)?, keys.opt::<Numbers>(hosts)?) {
        (Some(_), Some(_)) => {
            Err(keys.error(racks, format!("`{racks}` and `{hosts}` name the same hosts"), "leave one of them out"))
        }
        (Some(numbers), None) => Ok(Some(HostList::Racks(numbers.0))),
        (None, Some(numbers)) => Ok(Some(HostList::Hosts(numbers.0))),
        (None, None) => Ok(None),
    }
}
