//! Budgets of tenants that hold over all gateways of a cell.

use fumehood::Digest;

use super::client::call_as;
use super::harness::{Cell, wait_until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn two_gateways_admit_the_calls_of_one_budget() {
    let Some(mut cell) = Cell::start_with_jetstream() else { return };
    cell.keys_of_all = "budgets = \"nats\"\n".to_owned();
    let digest = Digest::of(TOKEN.as_bytes());
    let tenant = |more: &str| format!("[tenants.a]\ntokens = [\"{digest}\"]\n{more}");
    cell.sections = tenant("");
    cell.worker("w1", 4);
    cell.sections = tenant("calls_per_day = 40\n");
    let gateways = [cell.gateway_of("g1", "", &[]), cell.gateway_of("g2", "", &[])];
    let add = |gateway: usize| call_as(&gateways[gateway], "calculator__add", r#"{"a": 1, "b": 1}"#, Some(TOKEN));
    let mut begun = 0;
    for gateway in [0, 1] {
        wait_until("the worker is known", || {
            begun += 1;
            add(gateway).kind() == "ok"
        });
    }
    // Calls that were refused because no worker was known yet count, too.
    let mut admitted = begun;
    for turn in 0..80 {
        let answer = add(turn % 2);
        match answer.kind() {
            "ok" => admitted += 1,
            kind => assert_eq!((kind, answer.status, answer.retry_after), ("quota", 429, true), "{answer:?}"),
        }
    }
    assert_eq!(admitted, 40);
    // A gateway that starts again does not begin anew.
    cell.kill("g1");
    let again = cell.gateway_of("g1", "", &[]);
    let answer = call_as(&again, "calculator__add", r#"{"a": 1, "b": 1}"#, Some(TOKEN));
    assert_eq!(answer.kind(), "quota", "{answer:?}");
}
