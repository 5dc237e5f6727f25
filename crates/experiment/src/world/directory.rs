//! The load of a directory: from a scenario to the simulated cluster, and from its records to metrics.

use weft_control::directory::PrincipalId;
use weft_control::directory::resolver::ResolverConfig;
use weft_control::directory::server::ServerConfig;
use weft_fabric::record::Outcome;
use weft_fabric::time::NsDuration;
use weft_fabric::{Duration, Fabric, Instant};
use weft_sim::directory::ClusterConfig;
use weft_sim::directory::load::{self, IN_TIME, LoadConfig, LoadTotals};
use weft_sim::directory::network::Impairments;
use weft_sim::directory::service::ServiceTimes;
use weft_sim::directory::store::StoreConfig;

use crate::error::{KeyError, Result};
use crate::metrics::Metrics;
use crate::scenario::Scenario;
use crate::scenario::directory::{DirectoryLoad, DirectorySpec, fault};

/// Checks a load and its cluster on a fabric.
///
/// # Errors
/// Machines for which the fabric has no hosts, and events that name parts which the directory does not have.
pub fn prepare(fabric: &Fabric, scenario: &Scenario, load: &DirectoryLoad) -> Result<LoadConfig> {
    let (world, spec) = (&scenario.world, scenario.directory.as_ref().expect("read with its pattern"));
    let faults = scenario.events.iter().map(|e| Ok((e.at, fault(e, spec)?))).collect::<Result<Vec<_>, KeyError>>()?;
    let duration = world.duration.expect("a load without end has a duration");
    Ok(LoadConfig {
        cluster: cluster(spec, load, agents(fabric, spec, load)?, world.seed),
        keys: load.keys,
        lookups_per_s: load.lookups_per_s,
        updates_per_s: load.updates_per_s,
        burst: load.burst,
        burst_gap: load.burst_gap,
        probes_per_s: load.probes_per_s,
        probe_every: PROBE_EVERY,
        from: Instant::ZERO + world.warmup.max(SETTLE),
        to: Instant::ZERO + Duration::from_ps(duration.as_ps() - world.cooldown.as_ps()),
        faults,
    })
}

/// Runs a load. `on_progress` receives the fraction that is done.
pub fn execute(config: LoadConfig, on_progress: &mut dyn FnMut(f64)) -> (Outcome, Metrics) {
    let (from, to) = (config.from, config.to);
    let totals = load::simulate(config, &mut |now| on_progress((now.as_secs_f64() / to.as_secs_f64()).min(1.0)));
    let outcome = Outcome { ended: to, events: totals.events, ..Outcome::default() };
    (outcome, measure(&totals, (to - from).as_secs_f64()))
}

fn agents(fabric: &Fabric, spec: &DirectorySpec, load: &DirectoryLoad) -> Result<u16, KeyError> {
    let store = if spec.store_members == 1 { 0 } else { spec.store_members };
    let others = usize::from(spec.servers) + usize::from(store) + usize::from(load.writers);
    let left = fabric.host_count().saturating_sub(others).min(usize::from(u16::MAX));
    let wanted = load.agents.map_or(left, usize::from);
    if left == 0 || wanted > left {
        let message = format!("the fabric has {} hosts; servers, store and writers take {others} of them", fabric.host_count());
        return Err(KeyError::new("fabric", message, "give it more hosts, as kind = \"switch\" with hosts = 50"));
    }
    Ok(wanted as u16)
}

fn cluster(spec: &DirectorySpec, load: &DirectoryLoad, agents: u16, seed: u64) -> ClusterConfig {
    let nobody = PrincipalId(0);
    ClusterConfig {
        servers: spec.servers,
        agents,
        writers: load.writers,
        // Agents hold nothing, so that every lookup is sent.
        resolver: ResolverConfig { k: spec.k, retry: spec.retry, capacity: 0, give_up: GIVE_UP, ..ResolverConfig::new(nobody) },
        server: ServerConfig {
            batch_delay: spec.batch,
            batch_ops: spec.batch_ops,
            max_in_flight: spec.in_flight,
            ..ServerConfig::new(nobody, Vec::new())
        },
        service: ServiceTimes { lookup: spec.lookup_time, update: spec.update_time, queue: spec.queue },
        store: StoreConfig {
            members: spec.store_members,
            commit_time: spec.commit_time,
            op_time: spec.op_time,
            election: spec.election,
            history: 100_000,
        },
        impairments: Impairments { latency: spec.latency, jitter: spec.jitter, loss: spec.loss, ..Impairments::NONE },
        store_timeout: Duration::from_secs(1),
        contents: Vec::new(),
        watch_answers: false,
        upgrade: false,
        seed,
    }
}

fn measure(totals: &LoadTotals, seconds: f64) -> Metrics {
    let mut metrics = Metrics::default();
    let s = |ps: u64| ps as f64 / 1e12;
    let at_most = |times: &[u64], bound: Duration| times.partition_point(|&t| t <= bound.as_ps()) as f64;
    // Those that were never answered are the slowest.
    let quantile = |times: &[u64], of: u64, fraction: f64| {
        let rank = (libm::ceil(fraction * of as f64) as usize).max(1);
        times.get(rank - 1).map(|&t| s(t))
    };
    if totals.lookups > 0 {
        let times = &totals.lookup_times;
        metrics.put_some("latency_p50_s", quantile(times, totals.lookups, 0.50));
        metrics.put_some("latency_p99_s", quantile(times, totals.lookups, 0.99));
        let in_time = at_most(times, IN_TIME);
        metrics.put("lookups_per_s", in_time / seconds);
        metrics.put("in_time_fraction", in_time / totals.lookups as f64);
        metrics.put("answered_fraction", times.len() as f64 / totals.lookups as f64);
    }
    if totals.updates > 0 {
        let times = &totals.update_times;
        metrics.put("updates_per_s", at_most(times, UPDATE_IN_TIME) / seconds);
        metrics.put_some("update_p50_s", quantile(times, totals.updates, 0.50));
        metrics.put_some("update_p99_s", quantile(times, totals.updates, 0.99));
    }
    let converged = &totals.convergence_times;
    if !converged.is_empty() {
        metrics.put_some("convergence_p70_s", quantile(converged, converged.len() as u64, 0.70));
        metrics.put_some("convergence_p99_s", quantile(converged, converged.len() as u64, 0.99));
    }
    metrics.put_some("reconverge_s", totals.recovery.map(s));
    metrics.put("events", totals.events as f64);
    metrics
}

/// Servers load their mappings first.
const SETTLE: Duration = Duration::from_ms(500);
/// VL2, section 5.5: updates within a second.
const UPDATE_IN_TIME: Duration = Duration::from_secs(1);
const PROBE_EVERY: Duration = Duration::from_ms(5);
/// Long enough for the spikes of the paper's retries to show.
const GIVE_UP: NsDuration = NsDuration::from_secs(9);
