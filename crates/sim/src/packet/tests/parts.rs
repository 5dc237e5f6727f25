//! The number of parts changes nothing, and one engine that stops as each flow ends differs from them in its samples alone.

use super::*;

fn outcome(case: &Case, threads: usize) -> Option<Outcome> {
    let config = PacketConfig { threads, ..case.config.clone() };
    let engine = config.engine(&case.fabric, false).unwrap();
    matches!(engine, model::Engine::Team(..)).then(|| case.run(model::PacketModel::new(Arc::clone(&case.fabric), engine)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 16 / 256))]
    #[test]
    fn parts_change_nothing(case in cases(), jitter: bool, threads in 2usize..=3) {
        let mut case = case;
        case.config.host_jitter = (!jitter).then_some(Duration::ZERO);
        // Parts meet as often as the shortest link says: with less than a microsecond that is all they do.
        prop_assume!(case.config.net(&case.fabric).unwrap().ports.look_ahead(40) > 1_000_000);
        case.config.duration = case.config.duration.min(Duration::from_ms(20));
        let Some(one) = outcome(&case, 1) else {
            return Err(TestCaseError::reject("one engine for all"));
        };
        let several = outcome(&case, threads).unwrap();
        prop_assert_eq!(&several, &one);
        // An agent hears of a lost window at the end of a window of parts, and there it may choose another path.
        if case.config.overlay.rehash {
            return Ok(());
        }
        // It counts packets until the last flow's end, parts until the end of that window.
        let alone = case.engine();
        let ends = |o: &Outcome| o.flows.iter().map(|f| (f.end, f.bytes)).collect::<Vec<_>>();
        prop_assert_eq!(ends(&alone), ends(&one));
        prop_assert_eq!(alone.ended, one.ended);
    }
}
