//! `weft export`: the flows of a run as the log that a collector would have, so that `weft analyze traffic` reads a simulated network as a real one.
//!
//! ```text
//!   RUN/flows.parquet --table--> Flow --ipfix--> FILE      RUN/scenario.toml --> hosts by rack --> MAP
//! ```

mod ipfix;
mod table;

pub use table::read;

use std::fmt::{Display, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args;
use weft_experiment::atomic_file;
use weft_fabric::{Fabric, Health};

use crate::error::{Error, Result};
use crate::fabric;
use crate::network::Network;
use crate::output::print_text;

/// Arguments of `weft export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Results folder of a run (`weft run --out RUN`); of a sweep, one of its runs
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// IPFIX file to write (RFC 5655)
    #[arg(long, value_name = "FILE", required = true)]
    ipfix: PathBuf,
    /// Also write the addresses and racks of hosts, for `weft analyze traffic --hosts`
    #[arg(long, value_name = "MAP.csv")]
    hosts: Option<PathBuf>,
}

/// A flow of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Number of the sending host.
    pub src: u32,
    /// Number of the receiving host.
    pub dst: u32,
    /// When it started.
    pub start_s: f64,
    /// When it ended; of a flow that did not, when the last of the others did.
    pub end_s: f64,
    /// Bytes delivered.
    pub bytes: u64,
}

/// Runs it.
///
/// # Errors
/// A folder that is no run's; a file that cannot be written.
pub fn run(args: &ExportArgs) -> Result<()> {
    let flows = table::read(&args.run)?;
    if let Some(flow) = flows.iter().find(|flow| flow.src.max(flow.dst) >= HOSTS_MAX) {
        let message = format!("host {} has no address: 10.0.0.0/8 has {HOSTS_MAX}", flow.src.max(flow.dst));
        return Err(Error::usage(message, "export a smaller network"));
    }
    let of_run = |path| Ok::<_, Error>((path, hosts(&fabric::read(&args.run.join("scenario.toml"), &[])?, address)));
    let map = args.hosts.as_ref().map(of_run).transpose()?;
    atomic_file::write(&args.ipfix, ipfix::file(&flows)).map_err(|e| Error::io("write", &args.ipfix, e))?;
    if let Some((path, map)) = &map {
        atomic_file::write(path, map).map_err(|e| Error::io("write", path, e))?;
    }
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    print_text(&format!("{} flows, {bytes} bytes: {}\n", flows.len(), args.ipfix.display()))
}

/// The address of a host: 10.0.0.0 and its number.
pub const fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits((10 << 24) + host)
}

/// `address,rack` of all hosts, each by the name that `address` gives it.
pub fn hosts<N: Display>(fabric: &Fabric, address: impl Fn(u32) -> N) -> String {
    let network = Network::new(fabric, &Health::new(fabric));
    let mut map = "address,rack\n".to_owned();
    for host in fabric.hosts() {
        let _ = writeln!(map, "{},{}", address(host.0), network.name(fabric.rack_of(host).index() as u32));
    }
    map
}

const HOSTS_MAX: u32 = 1 << 24;
