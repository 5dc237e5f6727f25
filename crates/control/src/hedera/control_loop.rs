//! How long a turn of the control loop takes: the model behind Hedera's table 6 (section 6.4.5).
//!
//! ```text
//!   edge switches --report--> control network --10 Gbps--> scheduler --rules--> edge and aggregation switches
//!                   72 B a flow    10 us a switch            100 ms    2 x 72 B a flow
//! ```
//! The paper states the parts and not their sum. Three entries a flow, its report and its two rules, give its table within 2 %:
//! 147.8 ms for 27,648 hosts with 10 flows each (the paper has 145.5), 107.1 for 8,192 with 5 (106.8), 100.2 for 1,024 with one.

use weft_fabric::{BitsPerSec, Bytes, Duration};

/// Length of a turn of the loop, if reports and rules cross `switches_on_path` switches of the control network and there are
/// `flows` large flows in all.
pub fn control_loop_length(switches_on_path: u32, flows: u64) -> Duration {
    let bytes = Bytes(flows * ENTRIES_PER_FLOW * ENTRY.0);
    COMPUTATION + SWITCH_LATENCY * u64::from(switches_on_path) + LAST_HOP.time_to_send(bytes)
}

/// Demand estimation and placement, "conservatively assumed".
const COMPUTATION: Duration = Duration::from_ms(100);
/// Of a 48-port gigabit switch.
const SWITCH_LATENCY: Duration = Duration::from_us(10);
/// An OpenFlow flow entry.
const ENTRY: Bytes = Bytes(72);
/// The report, the rule of the edge switch and that of the aggregation switch.
const ENTRIES_PER_FLOW: u64 = 3;
/// The link to the scheduler's machine.
const LAST_HOP: BitsPerSec = BitsPerSec(10_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_6_within_two_percent() {
        let paper = [(1024, [100.2, 100.9, 101.7]), (8192, [101.4, 106.8, 113.5]), (27_648, [104.6, 122.8, 145.5])];
        for (hosts, row) in paper {
            for (per_host, expected) in [1, 5, 10].into_iter().zip(row) {
                let ms = control_loop_length(1, hosts * per_host).as_secs_f64() * 1e3;
                assert!((ms / expected - 1.0).abs() < 0.02, "{hosts} x {per_host}: {ms} instead of {expected}");
            }
        }
    }

    #[test]
    fn each_part_is_counted() {
        assert_eq!(control_loop_length(0, 0), Duration::from_ms(100));
        assert_eq!(control_loop_length(3, 0), Duration::from_us(100_030));
        assert_eq!(control_loop_length(0, 10_000_000), Duration::from_ms(1828));
    }
}
