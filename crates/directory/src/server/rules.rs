//! The policy file: read at the start, again on SIGHUP, and when it changes. A bad one is refused and the old one kept.

use std::path::Path;

use weft_control::directory::policy::{Policy, Role};
use weft_control::directory::server::Input;

use super::config::{PolicySource, ServeError};
use super::core::Core;
use super::watched::{LOOK, Stamp, stamp};

/// The policy in force, as text: a reload of the same text is nothing new.
#[derive(Debug)]
pub struct Rules {
    source: PolicySource,
    /// The server's part of the directory.
    part: Option<String>,
    text: String,
    version: u32,
    stamp: Stamp,
}

impl Rules {
    /// Reads the policy for the first time.
    pub fn read(source: PolicySource, part: Option<String>) -> Result<(Self, Policy), ServeError> {
        match &source {
            PolicySource::File(path) => {
                let stamp = stamp(path);
                let (text, policy) = read(path, part.as_deref())?;
                let version = policy.version();
                Ok((Self { text, version, stamp, part, source }, policy))
            }
            PolicySource::Open { .. } if part.is_some() => Err(ServeError::PartOfOpen),
            PolicySource::Open { provisioners } => {
                let policy = Policy::open(provisioners.iter().map(|&principal| (principal, Role::Provisioner)));
                let version = policy.version();
                Ok((Self { text: String::new(), version, stamp: None, part, source }, policy))
            }
        }
    }

    /// Reads it again, and gives it to the machine if it is new and good.
    pub fn reload(&mut self, core: &Core) {
        let PolicySource::File(path) = &self.source else { return };
        self.stamp = stamp(path);
        let refused = match read(path, self.part.as_deref()) {
            Ok((text, _)) if text == self.text => return,
            Ok((text, policy)) if policy.version() > self.version => {
                (self.text, self.version) = (text, policy.version());
                core.post(Input::Policy(policy));
                return;
            }
            Ok((_, policy)) => {
                let (new, old) = (policy.version(), self.version);
                format!("{}: it has changed, and its version, {new}, is not greater than {old}: raise it", path.display())
            }
            Err(error) => error.to_string(),
        };
        core.metrics.policy_errors.increment(1);
        tracing::error!(version_kept = self.version, "the new policy is refused: {refused}");
    }

    /// Waits until the file has changed.
    pub async fn changed(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if let PolicySource::File(path) = &self.source
                && stamp(path) != self.stamp
            {
                return;
            }
        }
    }
}

fn read(path: &Path, part: Option<&str>) -> Result<(String, Policy), ServeError> {
    let refused = |error: String| ServeError::Policy { path: path.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let policy = Policy::parse(&text).map_err(|error| refused(error.to_string()))?;
    policy.place_of_part(part).map_err(|error| refused(error.to_string()))?;
    Ok((text, policy))
}
