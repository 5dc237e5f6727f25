//! Hosts as files name them.

use super::FormatError;
use crate::ids::HostId;
use crate::topology::Fabric;

/// How a file identifies hosts: by number, or by name, or both.
#[derive(Clone, Copy, Debug)]
pub struct HostNames<'a> {
    hosts: usize,
    fabric: Option<&'a Fabric>,
    names_first: bool,
}

impl<'a> HostNames<'a> {
    /// Numbers from 0 to `hosts` - 1, and no names.
    pub const fn numbers(hosts: usize) -> Self {
        Self { hosts, fabric: None, names_first: false }
    }

    /// Host numbers, or the names of the fabric's hosts.
    pub fn of(fabric: &'a Fabric) -> Self {
        Self { hosts: fabric.host_count(), fabric: Some(fabric), names_first: false }
    }

    /// As [`HostNames::of`], but a host that is called `7` is meant by `7` even if its number is another: for flows
    /// and a fabric from one tool, which numbers hosts and switches together.
    pub fn of_same_tool(fabric: &'a Fabric) -> Self {
        Self { names_first: true, ..Self::of(fabric) }
    }

    /// How many hosts there are.
    pub(super) const fn count(&self) -> usize {
        self.hosts
    }

    /// The host of that text.
    pub(super) fn resolve(&self, line: usize, text: &str) -> Result<HostId, FormatError> {
        if self.names_first
            && let Some(host) = self.named(text)
        {
            return Ok(host);
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            let number = text.parse().ok().filter(|&n: &usize| n < self.hosts);
            return number.map(HostId::from).ok_or_else(|| {
                let (hosts, last) = (self.hosts, self.hosts.saturating_sub(1));
                FormatError::new(line, format!("host {text} is out of range"), format!("there are {hosts} hosts, 0 to {last}"))
            });
        }
        if let Some(host) = self.named(text) {
            return Ok(host);
        }
        let message = match self.fabric.and_then(|f| f.node_by_name(text)) {
            Some(_) => format!("`{text}` is a switch"),
            None if text.is_empty() => "a host is missing".to_owned(),
            None => format!("there is no host `{text}`"),
        };
        let last = self.hosts.saturating_sub(1);
        Err(FormatError::new(
            line,
            message,
            match self.fabric {
                Some(f) => format!("write a host's number, 0 to {last}, or its name, such as `{}`", f.nodes()[0].name),
                None => format!("write a host's number, 0 to {last}"),
            },
        ))
    }

    /// Two hosts, not the same.
    pub(super) fn pair(&self, line: usize, src: &str, dst: &str) -> Result<(HostId, HostId), FormatError> {
        let (from, to) = (self.resolve(line, src)?, self.resolve(line, dst)?);
        if from == to {
            return Err(FormatError::new(
                line,
                format!("a flow from host {src} to itself"),
                "it never enters the network: remove the line, or correct the destination",
            ));
        }
        Ok((from, to))
    }

    fn named(&self, text: &str) -> Option<HostId> {
        let fabric = self.fabric?;
        fabric.as_host(fabric.node_by_name(text)?)
    }
}
