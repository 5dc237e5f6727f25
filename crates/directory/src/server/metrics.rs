//! What is counted: Prometheus metrics, all named `weft_directory_*`. `docs/directory.md` says what each is.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use weft_control::directory::front::{Counters as FrontCounters, Reason};
use weft_control::wire::directory::{HEADER, Kind};

use super::config::ServeError;

/// The handles that a server counts by.
pub struct Metrics {
    /// Datagrams received and sent.
    pub received: Counter,
    /// Sent.
    pub sent: Counter,
    /// From the arrival of a batch of datagrams to the last of its answers, in seconds.
    pub answer_seconds: Histogram,
    /// How long a commit took.
    pub commit_seconds: Histogram,
    /// Of the server: `State` as a number.
    pub state: Gauge,
    /// Up to which it knows everything.
    pub revision: Gauge,
    /// How far the store is ahead of it.
    pub lag: Gauge,
    /// Live entries.
    pub entries: Gauge,
    /// Of the policy in force.
    pub policy_version: Gauge,
    /// Bytes of the table in memory.
    pub table_bytes: Gauge,
    /// Inputs that wait for the machine.
    pub waiting: Gauge,
    /// Streams that are open.
    pub streams: Gauge,
    /// Bytes that wait to be sent on them, and of messages that are being received.
    pub stream_bytes: Gauge,
    /// Agents to which withdrawals are sent unasked.
    pub subscribers: Gauge,
    /// Askers of other parts that are known.
    pub askers: Gauge,
    /// Datagrams sent to them unasked.
    pub pushes: Counter,
    /// Requests to the store that failed.
    pub store_errors: Counter,
    /// Certificates that could not be read again.
    pub certificate_errors: Counter,
    /// Policy files that were refused.
    pub policy_errors: Counter,
    front: [Counter; 8],
    outcomes: [OnceLock<Counter>; 8],
}

/// Quantiles would be of one server only; buckets can be added up. Seconds.
const BUCKETS: &[f64] = &[
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
];

impl Metrics {
    /// Handles of the recorder that is installed; without one they count nothing.
    pub fn new() -> Self {
        Self {
            received: counter!("weft_directory_datagrams_received_total"),
            sent: counter!("weft_directory_datagrams_sent_total"),
            answer_seconds: histogram!("weft_directory_answer_seconds"),
            commit_seconds: histogram!("weft_directory_commit_seconds"),
            state: gauge!("weft_directory_state"),
            revision: gauge!("weft_directory_revision"),
            lag: gauge!("weft_directory_lag_revisions"),
            entries: gauge!("weft_directory_entries"),
            policy_version: gauge!("weft_directory_policy_version"),
            table_bytes: gauge!("weft_directory_table_bytes"),
            waiting: gauge!("weft_directory_inputs_waiting"),
            streams: gauge!("weft_directory_streams"),
            stream_bytes: gauge!("weft_directory_stream_bytes"),
            subscribers: gauge!("weft_directory_subscribers"),
            askers: gauge!("weft_directory_askers"),
            pushes: counter!("weft_directory_pushes_total"),
            store_errors: counter!("weft_directory_store_errors_total"),
            certificate_errors: counter!("weft_directory_certificate_errors_total"),
            policy_errors: counter!("weft_directory_policy_errors_total"),
            front: [
                counter!("weft_directory_requests_total", "kind" => "lookup"),
                counter!("weft_directory_requests_total", "kind" => "sync"),
                counter!("weft_directory_requests_total", "kind" => "health"),
                counter!("weft_directory_challenges_total"),
                counter!("weft_directory_findings_total", "finding" => "found"),
                counter!("weft_directory_findings_total", "finding" => "unknown"),
                counter!("weft_directory_findings_total", "finding" => "forbidden"),
                counter!("weft_directory_findings_total", "finding" => "elsewhere"),
            ],
            outcomes: [const { OnceLock::new() }; 8],
        }
    }

    /// A request for the machine.
    pub fn request(&self, kind: &'static str) {
        counter!("weft_directory_requests_total", "kind" => kind).increment(1);
    }

    /// What a front counted between two times.
    pub fn front(&self, before: &FrontCounters, after: &FrontCounters) {
        let numbers = |it: &FrontCounters| {
            [it.lookups, it.syncs, it.healths, it.challenges, it.found, it.unknown, it.forbidden, it.elsewhere]
        };
        for (handle, (before, after)) in self.front.iter().zip(numbers(before).into_iter().zip(numbers(after))) {
            if after > before {
                handle.increment(after - before);
            }
        }
        for reason in Reason::ALL {
            let count = after.dropped(reason) - before.dropped(reason);
            if count > 0 {
                self.dropped(reason.label(), count);
            }
        }
    }

    /// What was not answered, and why.
    pub fn dropped(&self, reason: &'static str, count: u64) {
        counter!("weft_directory_dropped_total", "reason" => reason).increment(count);
    }

    /// A message that goes out: if it acknowledges an update, its outcome counts.
    pub fn outgoing(&self, message: &[u8]) {
        const NUMBER: usize = 8;
        if message.get(3) != Some(&(Kind::Acknowledgement as u8)) {
            return;
        }
        let Some(&outcome) = message.get(HEADER + NUMBER) else { return };
        let Some(slot) = self.outcomes.get(usize::from(outcome)) else { return };
        let names = ["committed", "refused", "conflict", "elsewhere", "unknown", "malformed", "stale", "other"];
        let name = names[usize::from(outcome)];
        slot.get_or_init(|| counter!("weft_directory_updates_total", "outcome" => name)).increment(1);
    }
}

/// Serves the metrics at an address. Must run inside of a tokio runtime.
pub fn serve(address: SocketAddr) -> Result<(), ServeError> {
    let refused = |error: String| ServeError::Metrics { address, error };
    // The exporter binds later, in a task: whether the address is free must be known now.
    drop(std::net::TcpListener::bind(address).map_err(|error| refused(error.to_string()))?);
    let builder = PrometheusBuilder::new()
        .with_http_listener(address)
        .upkeep_timeout(Duration::from_secs(5))
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), BUCKETS)
        .map_err(|error| refused(error.to_string()))?;
    builder.install().map_err(|error| refused(error.to_string()))
}
