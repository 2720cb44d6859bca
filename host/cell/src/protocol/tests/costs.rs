//! Costs of the parts of a call in this build, for the model in docs/scale.md. They are printed, and compared with each other alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::identity::NodeKey;
use crate::identity::{Envelope, Exchange, Party, Role, Session, Side, open, seal};
use crate::protocol::{Announcement, NoWorker, Offer, PROTOCOL_VERSION, Roster, Ticket};
use fumehood_core::digest::Digest;

/// Time for each measurement.
const TIME: Duration = Duration::from_millis(60);

fn cost(what: &str, mut act: impl FnMut()) -> Duration {
    let began = Instant::now();
    let mut times = 0_u32;
    while began.elapsed() < TIME {
        (0..16).for_each(|_| act());
        times += 16;
    }
    let each = began.elapsed() / times;
    println!("| {what} | {each:.2?} |");
    each
}

fn announcement(sequence: u64) -> Announcement {
    let offers = (0..10_u8).map(|index| Offer { component: Digest::of(&[index]), powers: Digest::of(b"p") });
    let mut offers: Vec<Offer> = offers.collect();
    offers.sort_unstable();
    let ticket = Ticket { run: 1, epoch: 0 };
    Announcement { version: PROTOCOL_VERSION, sequence, ticket, places: 8, running: 0, draining: false, offers }
}

fn party_of(name: &str, exchange: &Exchange) -> Party {
    Party { name: name.to_owned(), key: NodeKey::generate().unwrap().0.public(), run: 1, exchange: exchange.public() }
}

fn sessions() -> (Session, Session) {
    let own = Exchange::generate().unwrap();
    let other = Exchange::generate().unwrap();
    let gateway = party_of("g", &own);
    let worker = party_of("w", &other);
    let of_gateway = Session::derive(own, Side::Gateway, "c", &gateway, &worker).unwrap();
    (of_gateway, Session::derive(other, Side::Worker, "c", &gateway, &worker).unwrap())
}

#[test]
fn a_frame_of_a_session_costs_a_fraction_of_a_signature() {
    println!("| part | time |\n|---|---|");
    let (key, _) = NodeKey::generate().unwrap();
    let public = key.public();
    let envelope = Envelope { from: "w".to_owned(), to: String::new(), message: announcement(1) };
    let sign = cost("announcement with 10 components, signed", || {
        black_box(seal(&key, Role::Announcer, &envelope, b"").unwrap());
    });
    let signed = seal(&key, Role::Announcer, &envelope, b"").unwrap();
    let verify = cost("the same, verified", || {
        black_box(open::<Announcement>(&signed, Role::Announcer, |_| Some(public)).unwrap());
    });
    cost("exchange of keys, both sides", || drop(black_box(sessions())));
    let (gateway, worker) = sessions();
    let body = vec![b'x'; 1000];
    let one = cost("frame of 1 KB, written and read", || {
        let frame = gateway.seal(&1_u32, &body).unwrap();
        black_box(worker.open::<u32>(&frame).unwrap());
    });
    assert!(one * 4 < sign + verify, "{one:?} beside {sign:?} and {verify:?}");
    for count in [10, 100, 1_000_u32] {
        let mut roster = Roster::default();
        for index in 0..count {
            roster.on_announcement(Duration::ZERO, format!("w{index}").into(), announcement(1));
        }
        let offer = announcement(1).offers[3].clone();
        let mut random = 1_u64;
        cost(&format!("choice of one of {count} workers"), || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            black_box(roster.choose(&offer, random, |_| 0, |_| false).unwrap());
        });
        let full = cost(&format!("the same when all {count} are full"), || {
            assert_eq!(roster.choose(&offer, random, |_| 8, |_| false), Err(NoWorker::Full));
        });
        assert!(full < Duration::from_millis(20), "{full:?}");
    }
}
