//! The tenants' file as the directory's store has it (section 3.3): a thread that asks now and then, and writes the file when there is a newer one.
//!
//! ```text
//!   store --> directory servers --(version, text)--> checked --> tenants.toml, whole --> the agent reads it as if somebody had edited it
//! ```
//! So the file is what the agent goes by while it hears from no server, and after a restart.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use weft_control::netlord::tenants::{TEXT, Tenants};

use super::config::HostConfig;
use super::vifs::read_tenants;
use crate::cli::{Error, Result};
use crate::client::{Client, Fetched, Settings};
use crate::whole;

/// What is known of the store's file.
#[derive(Debug)]
pub(super) struct Repository {
    state: Arc<Mutex<State>>,
    begun: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// The version that a server told last.
    version: u32,
    /// When.
    heard: Option<Instant>,
    /// Why the last try gave nothing.
    silence: Option<String>,
    /// What is wrong with what the store has.
    trouble: Option<String>,
}

impl Repository {
    /// Begins to ask, if the configuration wants it.
    ///
    /// # Errors
    /// [`Error`] if keys or certificates cannot be read, or there is no thread to be had.
    pub fn begin(config: &HostConfig) -> Result<Option<Self>> {
        let Some((settings, period)) = config.repository()? else { return Ok(None) };
        let (file, state) = (config.tenants.get_ref().clone(), Arc::new(Mutex::new(State::default())));
        let work = {
            let state = Arc::clone(&state);
            move || keep(&settings, period, &file, &state)
        };
        let begun = std::thread::Builder::new().name("repository".to_owned()).spawn(work);
        begun.map_err(|e| Error::new(format!("no thread for the repository: {e}"), "is the machine out of memory?"))?;
        Ok(Some(Self { state, begun: Instant::now() }))
    }

    pub fn status(&self) -> Value {
        let state = self.state.lock();
        let heard_s = state.heard.map(|at| at.elapsed().as_secs_f64());
        json!({ "version": state.version, "heard_s": heard_s, "error": state.trouble.as_ref().or(state.silence.as_ref()) })
    }

    /// What somebody must look at. Servers may be away for a while: the file holds.
    pub fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        if let Some(trouble) = &state.trouble {
            return Some(format!("the store's tenants' file is not taken: {trouble}"));
        }
        let silent = state.heard.unwrap_or(self.begun).elapsed();
        let why = state.silence.as_ref().filter(|_| silent > AWAY)?;
        Some(format!("the repository has said nothing for {} s: {why}", silent.as_secs()))
    }
}

fn keep(settings: &Settings, period: Duration, file: &Path, state: &Mutex<State>) {
    let mut client = None;
    loop {
        let asked = ask(&mut client, settings, file, state);
        {
            let mut state = state.lock();
            match asked {
                Ok(()) => (state.heard, state.silence) = (Some(Instant::now()), None),
                Err(error) => {
                    client = None;
                    if state.silence.replace(error.clone()).is_none() {
                        tracing::warn!(error, "the repository does not answer; the tenants' file holds");
                    }
                }
            }
        }
        std::thread::sleep(period);
    }
}

fn ask(client: &mut Option<Client>, settings: &Settings, file: &Path, state: &Mutex<State>) -> std::result::Result<(), String> {
    let own = read_tenants(file).map_or(0, |tenants| tenants.version);
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::new(settings.clone()).map_err(|e| e.to_string())?),
    };
    let (fetched, server) = client.text(TEXT, own).map_err(|e| e.to_string())?;
    let (version, bytes) = match fetched {
        Fetched::None => return Err(format!("{server} has no tenants' file: `weft tenant publish` puts one there")),
        Fetched::Known => (own, None),
        Fetched::Text { version, bytes } => (version, Some(bytes)),
    };
    let taken = bytes.map_or(Ok(()), |bytes| take(file, own, version, &bytes));
    let mut state = state.lock();
    state.version = version;
    state.trouble = taken.err();
    Ok(())
}

/// Writes a newer file.
fn take(file: &Path, own: u32, version: u32, bytes: &[u8]) -> std::result::Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("version {version} is not text"))?;
    let tenants = Tenants::parse(text).map_err(|error| format!("version {version}: {error}"))?;
    if tenants.version != version {
        return Err(format!("version {version} says that it is version {}", tenants.version));
    }
    if version < own {
        return Err(format!("it has version {version}, and {} has {own}, which holds", file.display()));
    }
    whole::write(file, bytes).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    tracing::info!(version, "the store has another tenants' file");
    Ok(())
}

/// How long servers may be away before somebody should look.
const AWAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn text(version: u32) -> String {
        format!("version = {version}\nservice = 1\n[[tenant]]\nid = 17\nname = \"acme\"\n")
    }

    #[test]
    fn only_a_right_and_newer_file_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tenants.toml");
        take(&file, 0, 3, text(3).as_bytes()).unwrap();
        let held = || std::fs::read_to_string(&file).unwrap();
        assert_eq!(held(), text(3));
        for (version, bytes, said) in [
            (2, text(2).into_bytes(), "has 3, which holds"),
            (5, text(4).into_bytes(), "says that it is version 4"),
            (4, b"version = 4\nservice = 1\n[[tenant]]\nid = 1\nname = \"x\"\n".to_vec(), "version 4: "),
            (4, vec![0xff], "not text"),
        ] {
            let error = take(&file, 3, version, &bytes).unwrap_err();
            assert!(error.contains(said), "{error}");
            assert_eq!(held(), text(3), "nothing was changed");
        }
        assert!(take(Path::new("/nowhere/tenants.toml"), 0, 4, text(4).as_bytes()).unwrap_err().contains("cannot be written"));
        take(&file, 3, 4, text(4).as_bytes()).unwrap();
        assert_eq!(held(), text(4));
    }
}
