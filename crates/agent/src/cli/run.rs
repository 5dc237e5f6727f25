//! `weft-agent [run]`: the daemon that the configuration selects.

use std::path::{Path, PathBuf};

use clap::Args;
use weft_directory::daemon::command_line::{LogForm, print_text};
use weft_directory::daemon::start_log;

use crate::config::{ConfigFile, Head, Overlay, Role};
use crate::daemon::RunOptions;
use crate::error::Result;
use crate::{netlord, subways, vl2};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Configuration of the agent
    #[arg(long, value_name = "FILE", default_value = "/etc/weft/agent.toml")]
    config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    options: RunOptions,
}

/// A configuration, by overlay and role.
enum Config {
    Vl2Host(Box<vl2::host::HostConfig>),
    Vl2Switch(Box<vl2::switch::SwitchConfig>),
    NetlordHost(Box<netlord::host::HostConfig>),
    NetlordSwitch(Box<netlord::switch::SwitchConfig>),
    AccessHost(Box<subways::host::AccessHostConfig>),
    AccessTor(Box<subways::tor::AccessTorConfig>),
}

pub(super) fn run(args: &RunArgs) -> Result<bool> {
    let config = Config::read(&args.config)?;
    if args.check {
        print_text(&format!("{} is right\n", args.config.display()))?;
        return Ok(true);
    }
    let (file, options) = (args.config.as_path(), args.options);
    start_log(options.log == LogForm::Json);
    match config {
        Config::Vl2Host(config) => vl2::host::run(*config, file, options),
        Config::Vl2Switch(config) => vl2::switch::run(*config, file, options),
        Config::NetlordHost(config) => netlord::host::run(*config, file, options),
        Config::NetlordSwitch(config) => netlord::switch::run(*config, file, options),
        Config::AccessHost(config) => subways::host::run(*config, file, options),
        Config::AccessTor(config) => subways::tor::run(*config, file, options),
    }
}

impl Config {
    /// Reads a file, and checks that this machine has the keys, files and interfaces that it names.
    fn read(path: &Path) -> Result<Self> {
        let file = ConfigFile::read(path)?;
        let place = file.place();
        let head: Head = place.parse()?;
        let config = match (head.overlay, head.role.get_ref()) {
            (Overlay::Vl2, Role::Host) => Self::Vl2Host(Box::new(vl2::host::HostConfig::read(&place)?)),
            (Overlay::Vl2, Role::Switch) => Self::Vl2Switch(Box::new(vl2::switch::SwitchConfig::read(&place)?)),
            (Overlay::Netlord, Role::Host) => Self::NetlordHost(Box::new(netlord::host::HostConfig::read(&place)?)),
            (Overlay::Netlord, Role::Edge | Role::Core) => {
                Self::NetlordSwitch(Box::new(netlord::switch::SwitchConfig::read(&place)?))
            }
            (Overlay::None, Role::Host) => Self::AccessHost(Box::new(subways::host::AccessHostConfig::read(&place)?)),
            (Overlay::None, Role::Switch) => Self::AccessTor(Box::new(subways::tor::AccessTorConfig::read(&place)?)),
            (Overlay::None, Role::Edge | Role::Core) => {
                let help = "write `switch` for a ToR; or overlay = \"netlord\", which has edge and core switches";
                return Err(place.error(head.role.span(), "without an overlay there is no such role", help));
            }
            (Overlay::Vl2, Role::Edge | Role::Core) => {
                let help = "write `switch`; or overlay = \"netlord\", which has edge and core switches";
                return Err(place.error(head.role.span(), "VL2 has no such role", help));
            }
            (Overlay::Netlord, Role::Switch) => {
                let help = "write `edge` for a switch with servers attached, else `core`";
                return Err(place.error(head.role.span(), "NetLord has no such role", help));
            }
        };
        match &config {
            Self::Vl2Host(config) => config.check_here(&place)?,
            Self::Vl2Switch(config) => config.check_here(&place)?,
            Self::NetlordHost(config) => config.check_here(&place)?,
            Self::NetlordSwitch(config) => config.check_here(&place)?,
            Self::AccessHost(config) => config.check_here(&place)?,
            Self::AccessTor(config) => config.check_here(&place)?,
        }
        Ok(config)
    }
}
