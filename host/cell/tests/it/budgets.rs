//! Counters of budgets in JetStream, of which gateways take slices at once.

use fumehood_cell::NatsCounters;

use super::nats::Nats;

const TENANT: &str = "a.b@c";
const KIND: &str = "calls_per_day";

#[tokio::test]
async fn slices_of_all_gateways_are_the_budget() {
    let Some(mut nats) = Nats::start_with_jetstream() else { return };
    let take_all = async |name: &str| {
        let counters = NatsCounters::new(nats.server(name));
        let mut sum = 0;
        let mut rounds = 0;
        loop {
            match counters.take(TENANT, KIND, 7, 100_000, 1).await.unwrap() {
                (7, 0) => return (sum, rounds),
                (_, amount) => (sum, rounds) = (sum + amount, rounds + 1),
            }
        }
    };
    let ((one, rounds), (other, more_rounds)) = tokio::join!(take_all("g1"), take_all("g2"));
    println!("{rounds} and {more_rounds} slices");
    assert_eq!(one + other, 100_000);
    assert!(rounds + more_rounds < 200, "{rounds} {more_rounds}");
    let counters = NatsCounters::new(nats.server("g1"));
    counters.give_back(TENANT, KIND, 7, 30).await.unwrap();
    // What is left of a window that has passed is nobody's.
    counters.give_back(TENANT, KIND, 6, 1000).await.unwrap();
    assert_eq!(counters.take(TENANT, KIND, 7, 100_000, 100).await.unwrap(), (7, 30));
    // A counter goes on in its own window, and outlives the server.
    assert_eq!(counters.take(TENANT, KIND, 8, 16, 1).await.unwrap(), (8, 1));
    nats.stop();
    nats.resume();
    let counters = NatsCounters::new(nats.server("g3"));
    assert_eq!(counters.take(TENANT, KIND, 7, 16, 100).await.unwrap(), (8, 15));
    assert_eq!(counters.take("other", KIND, 7, 16, 1).await.unwrap(), (7, 1));
}
