//! The log on stderr: `warning: ...` by default; with `-v` or `WEFT_LOG` lines with time, level and module.

use std::fmt;
use std::io::IsTerminal as _;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::table::wrapped;

/// Starts the log; `verbose` counts the `-v` of the command line.
pub fn start(verbose: u8) {
    let level = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let chosen = EnvFilter::try_from_env("WEFT_LOG");
    let is_brief = verbose == 0 && chosen.is_err();
    let filter = chosen.unwrap_or_else(|_| level.into());
    let is_terminal = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal);
    if is_brief {
        log.event_format(Brief { is_wrapped: is_terminal }).init();
    } else {
        log.init();
    }
}

/// Events without time and module. They are wrapped for people, and left whole for programs.
#[derive(Debug)]
struct Brief {
    is_wrapped: bool,
}

impl<S, N> FormatEvent<S, N> for Brief
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let word = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        let mut text = format!("{word}: ");
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        writeln!(writer, "{}", if self.is_wrapped { wrapped(&text, INDENT) } else { text })
    }
}

/// Spaces before the further lines of a wrapped event.
const INDENT: usize = 2;

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Logged(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Logged {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(is_wrapped: bool, message: &str) -> String {
        let logged = Logged::default();
        let writer = logged.clone();
        let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).event_format(Brief { is_wrapped }).finish();
        tracing::subscriber::with_default(log, || tracing::warn!("{message}"));
        let bytes = logged.0.lock().expect("no writer panics").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_warning_has_neither_time_nor_module() {
        assert_eq!(logged(true, "links are full"), "warning: links are full\n");
    }

    #[test]
    fn a_long_warning_is_wrapped_for_people_and_whole_for_programs() {
        let long = ["word"; 30].join(" ");
        assert_eq!(logged(false, &long), format!("warning: {long}\n"));
        let wrapped = logged(true, &long);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= 80), "{wrapped}");
        assert!(lines[1..].iter().all(|line| line.starts_with("  word")), "{wrapped}");
    }
}
