//! Hosts that fall silent, and hosts whose clocks were set back.

use super::*;

/// Its clock was an hour ahead. Set right, it would be refused for an hour.
#[test]
fn a_host_whose_clock_was_set_back_learns_how_to_continue() {
    const HOUR: u64 = 3_600_000_000_000;
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, HOUR));
    world.say(&World::message(Kind::Detach, HOST, 1, HOUR + 5));
    world.pass(S * 100);
    world.events();
    let late = World::message(Kind::Attach, HOST, 1, 100);
    world.say(&late);
    let Some(Output::Answer { bytes, .. }) = world.out.pop() else { panic!("an answer") };
    let answer = Frame::parse(&bytes).unwrap().message;
    let newest = answer.newest(&late).unwrap();
    assert!((HOUR + 5..HOUR + 100_000).contains(&(newest - 1_000_000_000_000)), "{newest}");
    world.say(&Attach { sequence: newest + 1, ..late });
    world.pass(S);
    assert_eq!(world.events().len(), 2, "it is inserted, and done");
    assert_eq!(world.tor.local().count(), 1);
    // So does one whose clock is far behind that of a switch that has just begun.
    let (mut world, early) = (World::new(), Attach { sequence: 1000, ..late });
    world.provision(1, THERE, HOST);
    world.say(&early);
    let Some(Output::Answer { bytes, .. }) = world.out.pop() else { panic!("an answer") };
    let newest = Frame::parse(&bytes).unwrap().message.newest(&early).unwrap();
    world.say(&Attach { sequence: newest + 1, ..late });
    world.pass(S);
    assert_eq!(world.tor.local().count(), 1);
}

#[test]
fn a_silent_host_is_forgotten() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.pass(S * 60);
    world.say(&World::message(Kind::Attach, HOST, 1, 2));
    world.pass(S * 60);
    assert_eq!(world.events(), ["+20.0.0.1 3", "1 Done", "2 Done"]);
    world.pass(S * 34);
    assert_eq!(world.events(), ["?20.0.0.1 3", "?20.0.0.1 3", "?20.0.0.1 3", "-20.0.0.1"]);
    assert_eq!((world.tor.counts().expired, world.tor.counts().present), (1, 0));
}

/// Its agent is dead; its programs answer, as long as the host is there.
#[test]
fn a_host_whose_programs_run_is_not_forgotten() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.provision(2, THERE, OTHER);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.say(&World::message(Kind::Attach, OTHER, 2, 1));
    world.pass(S);
    world.events();
    let answer = |world: &mut World, n, port| {
        world.tor.handle(world.now, Input::Present { address: aa(n), port });
        world.settle();
    };
    // Nobody has asked.
    answer(&mut world, 1, 3);
    assert_eq!((world.tor.counts().present, world.tor.silent().count()), (0, 0));
    for _ in 0..20 {
        world.pass(S * 45);
        world.say(&World::message(Kind::Attach, OTHER, 2, world.now.as_ns()));
        world.pass(S * 46);
        assert!(world.events().contains(&"?20.0.0.1 3".to_owned()));
        // Another port's word does not count.
        answer(&mut world, 1, 4);
        answer(&mut world, 1, 3);
    }
    assert_eq!((world.tor.counts().present, world.tor.counts().expired, world.tor.local().count()), (20, 0, 2));
    assert_eq!(world.tor.silent().collect::<Vec<_>>(), [(HOST, aa(1))]);
    // The directory is away, and it stays; then the address is another's, and it goes.
    world.answers = false;
    world.pass(S * 91);
    answer(&mut world, 1, 3);
    world.pass(S * 15);
    assert!(world.tor.local().any(|(address, _)| address == aa(1)));
    world.answers = true;
    world.provision(1, THERE, OTHER);
    world.pass(S * 76);
    answer(&mut world, 1, 3);
    assert!(!world.tor.local().any(|(address, _)| address == aa(1)), "{:?}", world.events());
    // An agent that speaks again is no longer silent.
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.pass(S * 91);
    answer(&mut world, 1, 3);
    assert_eq!(world.tor.silent().count(), 1);
    world.say(&World::message(Kind::Attach, HOST, 1, 2));
    assert_eq!((world.tor.silent().count(), world.tor.local().count()), (0, 1));
}
