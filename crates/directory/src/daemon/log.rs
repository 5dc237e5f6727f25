//! The structured log on stderr. `WEFT_LOG` (as `RUST_LOG` elsewhere) says how much: `info` if it is absent.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Begins to log on stderr, as JSON lines or as text. Once a program; later calls change nothing.
pub fn start_log(json: bool) {
    let filter = EnvFilter::builder().with_env_var("WEFT_LOG").with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false);
    let _ = if json { log.json().flatten_event(true).try_init() } else { log.try_init() };
}
