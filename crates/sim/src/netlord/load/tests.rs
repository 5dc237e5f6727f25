use super::*;

fn config(means: Means) -> ArpConfig {
    ArpConfig {
        means,
        servers: 6,
        vms: 600,
        vms_per_tenant: 30,
        boots_per_s: 100_000.0,
        moves_per_s: 50.0,
        sends_per_s: 500.0,
        loss: 0.0,
        latency: Duration::from_us(50),
        duration: Duration::from_secs(4),
        seed: 1,
    }
}

fn run(config: &ArpConfig) -> ArpTotals {
    simulate(config.clone(), &mut |_| ())
}

#[test]
fn without_loss_everybody_is_known_and_each_move_is_a_frame_to_all() {
    let totals = run(&config(Means::Push));
    assert!(totals.sends > 1000 && totals.unreached == 0);
    assert!(totals.known + totals.repairs.len() as u64 == totals.sends);
    // Only what moved while a HERE was on its way.
    assert!(totals.sends - totals.known <= 2, "{totals:?}");
    assert!((150..=260).contains(&totals.broadcasts), "50 a second for 4 s: {}", totals.broadcasts);
    assert!((totals.frames_each - totals.broadcasts as f64).abs() < 8.0, "{totals:?}");
    assert!((totals.bits_each - totals.frames_each * 608.0).abs() < 1.0);
}

#[test]
fn lost_broadcasts_are_repaired() {
    for (loss, seed) in [(0.1, 1), (0.1, 2), (0.5, 1), (0.5, 2), (0.5, 3)] {
        let totals = run(&ArpConfig { loss, seed, ..config(Means::Push) });
        assert_eq!(totals.unreached, 0, "loss {loss}, seed {seed}");
        let missed = 1.0 - totals.known as f64 / totals.sends as f64;
        assert!(missed > loss / 50.0 && missed < loss * 1.2, "{missed} at {loss}");
        assert!(totals.stale > 0 && totals.unicasts > 0);
    }
}

#[test]
fn the_directory_is_asked_by_those_who_send() {
    let totals = run(&config(Means::Pull));
    assert_eq!((totals.unreached, totals.broadcasts), (0, 0));
    assert!(totals.datagrams > 0 && totals.directory_bits > 0);
    assert!(totals.known < totals.sends, "the first to each has to be looked up");
    let repaired = totals.repairs[totals.repairs.len() / 2];
    assert!(repaired <= Duration::from_us(101).as_ps(), "one round trip: {repaired}");
}

#[test]
fn the_same_seed_gives_the_same() {
    for means in [Means::Push, Means::Pull] {
        let config = ArpConfig { loss: 0.3, ..config(means) };
        assert_eq!(run(&config), run(&config));
        assert_ne!(run(&config), run(&ArpConfig { seed: 2, ..config.clone() }));
    }
}
