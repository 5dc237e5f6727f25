//! The agent's configuration file: `docs/running-on-hosts.md` has every key.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::host::HostConfig;
use super::netlord::NetlordConfig;
use super::switch::SwitchConfig;
use crate::cli::{Error, Result};

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A server.
    Host,
    /// A ToR or an intermediate switch.
    Switch,
}

/// A configuration.
#[derive(Debug)]
pub enum Config {
    /// Of a server.
    Host(Box<HostConfig>),
    /// Of a switch.
    Switch(Box<SwitchConfig>),
    /// Of either in NetLord's overlay.
    Netlord(NetlordConfig),
}

/// What the agent lays over the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Overlay {
    /// VL2.
    #[default]
    Vl2,
    /// NetLord.
    Netlord,
}

impl Config {
    /// Reads a file, and looks whether this machine has what it names: keys, files, interfaces.
    ///
    /// # Errors
    /// [`Error`], which names the file, the line and the remedy.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read(path)?;
        let place = Place { path, text: &text };
        let config = Self::parse(&place)?;
        match &config {
            Self::Host(config) => config.check_here(&place)?,
            Self::Switch(config) => config.check_here(&place)?,
            Self::Netlord(config) => config.check_here(&place)?,
        }
        Ok(config)
    }

    fn parse(place: &Place<'_>) -> Result<Self> {
        let Which { overlay } = place.parse()?;
        if overlay == Overlay::Netlord {
            return NetlordConfig::read(place).map(Self::Netlord);
        }
        let Whole { role } = place.parse()?;
        Ok(match role {
            Role::Host => Self::Host(Box::new(HostConfig::read(place)?)),
            Role::Switch => Self::Switch(Box::new(SwitchConfig::read(place)?)),
        })
    }
}

/// What becomes of eBPF programs and maps when the agent ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// They stay, and so do anycast addresses: flows go on.
    Keep,
    /// They go.
    #[default]
    Remove,
}

impl Config {
    /// Reads a file whose role was `host` when the agent started.
    ///
    /// # Errors
    /// As [`Self::read`], or another role.
    pub fn read_host(path: &Path) -> Result<HostConfig> {
        match Self::read(path)? {
            Self::Host(config) => Ok(*config),
            _ => Err(other_role(path)),
        }
    }

    /// Reads a file whose role was `switch` when the agent started.
    ///
    /// # Errors
    /// As [`Self::read`], or another role.
    pub fn read_switch(path: &Path) -> Result<SwitchConfig> {
        match Self::read(path)? {
            Self::Switch(config) => Ok(*config),
            _ => Err(other_role(path)),
        }
    }
}

/// A reader's message with ranges and examples for the names of types.
fn in_words(message: &str) -> String {
    let words = [
        (" as i128", ""),
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65,535"),
        ("expected u32", "expected a whole number from 0 to 4,294,967,295"),
        ("expected u64", "expected a whole number from 0 to 2^63 - 1"),
        ("invalid socket address syntax", "no address and port: write such as \"10.0.0.1:5303\""),
        ("invalid IP address syntax", "no address: write such as \"10.0.0.1\""),
        ("invalid IPv4 address syntax", "no IPv4 address: write such as \"10.0.0.1\""),
    ];
    words.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn other_role(path: &Path) -> Error {
    Error::new(format!("{}: `role` cannot change while the agent runs", path.display()), "restart the agent")
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let help = "docs/running-on-hosts.md has an example; `--config FILE` names another file";
        Error::new(format!("cannot read the configuration {}: {error}", path.display()), help)
    })
}

#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    overlay: Overlay,
}

/// The one key that says what the others are.
#[derive(Deserialize)]
struct Whole {
    role: Role,
}

/// A configuration's file and text: where errors are.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub path: &'a Path,
    /// What is in it.
    pub text: &'a str,
}

impl Place<'_> {
    /// Reads the text; what is wrong is told with its line.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| {
            let message = in_words(error.message());
            let help = match (message.contains("unknown field"), message.contains("missing field")) {
                (true, _) => "remove it, or write it as docs/running-on-hosts.md has it",
                (_, true) => "add it: docs/running-on-hosts.md says what it means",
                _ => "docs/running-on-hosts.md has every key and its form",
            };
            self.error(error.span().unwrap_or(0..0), message.trim_end(), help)
        })
    }

    /// An error at a part of the text.
    pub fn error(&self, span: Range<usize>, message: &str, help: &str) -> Error {
        Error::new(message, help).at(self.line(span))
    }

    /// What became of that which a part of the text names.
    ///
    /// # Errors
    /// The result's, with file and line.
    pub fn at<T, E: Into<Error>>(&self, span: Range<usize>, result: std::result::Result<T, E>) -> Result<T> {
        result.map_err(|error| error.into().at(self.line(span)))
    }

    fn line(&self, span: Range<usize>) -> String {
        let line = self.text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1);
        format!("{}:{line}", self.path.display())
    }
}
