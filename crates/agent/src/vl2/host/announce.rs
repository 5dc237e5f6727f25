//! `locator = "host"`: the host puts its own locator address into the directory. A thread of its own, for the calls wait.
//!
//! ```text
//!   event loop --address--> thread: look up, on the address's own behalf; the locator is another? put it, expecting that generation
//!              <--how it went, and a byte that wakes the loop--
//! ```

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, Locator, Mapping, Value};
use weft_control::wire::directory::{Finding, Op};
use weft_control::wire::vl2::attach::Code;

use super::config::HostConfig;
use crate::config::UpdateAuth;
use crate::error::{Error, Result};
use weft_directory::client::{self, Auth, Client, Settings, TlsFiles, client_config};

/// How an address went.
pub(super) type Announced = (IpAddr, std::result::Result<(), Code>);

/// The thread, as the event loop sees it.
#[derive(Debug)]
pub(super) struct Announcer {
    wanted: Sender<IpAddr>,
    done: Receiver<Announced>,
    wake: UnixStream,
}

impl Announcer {
    /// Starts the thread.
    pub fn start(config: &HostConfig, la: Ipv4Addr) -> Result<Self> {
        let refused = || Error::system("start a thread", "");
        let mut client = Client::new(settings(config)?)?;
        let (wanted, asked) = channel::<IpAddr>();
        let (sender, done) = channel();
        let (wake, waker) = UnixStream::pair().map_err(refused())?;
        wake.set_nonblocking(true).map_err(refused())?;
        waker.set_nonblocking(true).map_err(refused())?;
        let body = move || {
            for address in asked {
                let result = put(&mut client, address, la);
                if let Err(code) = result {
                    tracing::warn!(%address, %code, "the locator is not in the directory");
                }
                if sender.send((address, result)).is_err() {
                    return;
                }
                let _ = (&waker).write(&[1]);
            }
        };
        std::thread::Builder::new().name("announce".to_owned()).spawn(body).map_err(refused())?;
        Ok(Self { wanted, done, wake })
    }

    /// Has an address announced.
    pub fn announce(&self, address: IpAddr) {
        let _ = self.wanted.send(address);
    }

    /// Readable when one is done.
    pub const fn descriptor(&self) -> &UnixStream {
        &self.wake
    }

    /// The next that is done.
    pub fn next(&mut self) -> Option<Announced> {
        while self.wake.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.done.try_recv().ok()
    }
}

fn settings(config: &HostConfig) -> Result<Settings> {
    let auth = match (config.auth, &config.cert, &config.cert_key, &config.ca) {
        (UpdateAuth::Tls, Some(certificate), Some(key), Some(authority)) => Auth::Tls(client_config(&TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: authority.clone(),
        })?),
        _ => Auth::Mac,
    };
    Ok(Settings {
        servers: config.directory.get_ref().iter().map(ToString::to_string).collect(),
        principal: config.principal(),
        key: Some(config.principal_key()?),
        auth,
        timeout: TIMEOUT,
        only: false,
    })
}

/// Puts the locator, unless it is there.
fn put(client: &mut Client, address: IpAddr, la: Ipv4Addr) -> std::result::Result<(), Code> {
    let key = match address {
        IpAddr::V4(address) => Key::App4(address),
        IpAddr::V6(address) => Key::App6(address),
    };
    for _ in 0..TRIES {
        let found = client.look_up(&[key], Some(&key), Generation(0)).map_err(|error| away(&error))?;
        let (generation, mapping) = match found.findings.into_iter().next() {
            Some((generation, Finding::Found(Value::Mapping(mapping)))) => (generation, mapping),
            Some((_, Finding::Forbidden)) => return Err(Code::NotOwner),
            _ => return Err(Code::Unknown),
        };
        if mapping.locator == Locator::V4(la) {
            return Ok(());
        }
        let value = Some(Value::Mapping(Mapping { locator: Locator::V4(la), ..mapping }));
        let op = Op { key, expect: Some(generation), value };
        match client.update(vec![op], None).map_err(|error| away(&error))?.result {
            UpdateResult::Committed(_) => return Ok(()),
            UpdateResult::Refused(_) => return Err(Code::Forbidden),
            // Somebody else was quicker, or nobody knows: look again.
            _ => {}
        }
    }
    Err(Code::Unknown)
}

fn away(error: &client::ClientError) -> Code {
    tracing::warn!(%error, "the directory does not answer");
    Code::Unknown
}

const TRIES: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(5);
