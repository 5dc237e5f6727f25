//! What clients ask of a running scheduler by its Unix socket: one line of JSON, and one line back
//! ([`weft_directory::daemon::socket`]).

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use weft_directory::daemon::socket::refused;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// How it is.
    Status,
    /// Which flows are placed.
    Placements,
    /// Where a flow goes, and why.
    Explain {
        /// Of this flow: `h0:5000-h9:80`.
        flow: String,
    },
}

/// A request that waits for its answer.
pub(crate) type Pending = (Request, oneshot::Sender<String>);

/// Accepts clients for ever.
pub(crate) async fn serve(listener: UnixListener, requests: mpsc::Sender<Pending>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let requests = requests.clone();
            tokio::spawn(async move {
                let _ = tokio::time::timeout(TIMEOUT, answer(stream, requests)).await;
            });
        } else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

async fn answer(mut stream: UnixStream, requests: mpsc::Sender<Pending>) -> std::io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut line = Vec::new();
    BufReader::new(reader.take(LONGEST + 1)).read_until(b'\n', &mut line).await?;
    let answer = match serde_json::from_slice(&line) {
        _ if line.len() as u64 > LONGEST => refused(&format!("a request has at most {LONGEST} bytes"), "ask for less"),
        Ok(request) => {
            let (reply, answer) = oneshot::channel();
            let _ = requests.send((request, reply)).await;
            answer.await.unwrap_or_else(|_| refused("the scheduler is ending", ""))
        }
        Err(error) => refused(&format!("not a request: {error}"), "are both programs of one version?"),
    };
    writer.write_all(answer.as_bytes()).await?;
    writer.write_all(b"\n").await
}

/// For a client, from its first byte to its last.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// Bytes of a request, at most.
const LONGEST: u64 = 4096;
