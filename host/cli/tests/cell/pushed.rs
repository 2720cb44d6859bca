//! Components that reach workers over the cell.

use std::time::{Duration, SystemTime};

use fumehood::Digest;

use super::client::call;
use super::harness::{Cell, wait_until};

const ADD: &str = r#"{"a": 3, "b": 5}"#;

/// Starts a cell whose worker has a configuration and a lock, and no components. Returns it with the digest of the calculator.
fn start() -> Option<(Cell, Digest)> {
    let mut cell = Cell::start_with_jetstream()?;
    cell.keys_of_all = "push = true\naccept = \"locked\"\n".to_owned();
    cell.approval = "required";
    cell.write_config_of("g1");
    let approved = cell.run_as_gateway(&["approve", "--yes"]);
    assert!(approved.status.success(), "{approved:?}");
    let digest = Digest::of(&std::fs::read(cell.path("calculator.wasm")).unwrap());
    Some((cell, digest))
}

#[test]
fn a_worker_fetches_what_its_lock_names() {
    let Some((mut cell, digest)) = start() else { return };
    // The worker is there first: it waits until a gateway has pushed.
    cell.worker_apart("w1", |lock| lock);
    assert!(cell.said("w1").contains("no gateway has pushed"), "{}", cell.said("w1"));
    let gateway = cell.gateway("");
    wait_until("the worker has the component", || call(&gateway, "calculator__add", ADD).kind() == "ok");
    let fetched = cell.path(&format!("state/fumehood/components/{}.wasm", digest.hex()));
    assert_eq!(Digest::of(&std::fs::read(&fetched).unwrap()), digest);
    // The next time it has the file, and needs nobody.
    cell.kill("w1");
    cell.worker_apart("w1", |lock| lock);
    wait_until("the worker serves again", || call(&gateway, "calculator__add", ADD).kind() == "ok");
    assert!(!cell.said("w1").contains("was fetched"), "{}", cell.said("w1"));
    // A file that somebody changed is fetched again, and one that nobody used for long is removed where room is short.
    cell.kill("w1");
    std::fs::write(&fetched, "something else").unwrap();
    let unused = fetched.with_file_name("unused.wasm");
    let recent = fetched.with_file_name("recent.wasm");
    for file in [&unused, &recent] {
        std::fs::write(file, "of an earlier lock").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::options().append(true).open(&unused).unwrap().set_modified(long_ago).unwrap();
    cell.keys_of_all.push_str("max_fetched = \"1KiB\"\n");
    cell.worker_apart("w1", |lock| lock);
    wait_until("the worker has it again", || call(&gateway, "calculator__add", ADD).kind() == "ok");
    assert!(cell.said("w1").contains("fetching it again"), "{}", cell.said("w1"));
    assert!(fetched.exists() && recent.exists() && !unused.exists());
}

#[test]
fn a_worker_runs_nothing_that_its_own_lock_does_not_approve() {
    let Some((mut cell, digest)) = start() else { return };
    let own = std::fs::read_to_string(cell.path("g1.lock")).unwrap();
    let file = cell.path("calculator.wasm");
    let component = std::fs::read(&file).unwrap();
    // A worker whose operator approved another component of this name, which nobody pushes.
    std::fs::copy(cell.path("notes.wasm"), &file).unwrap();
    let approved = cell.run_as_gateway(&["approve", "--yes"]);
    assert!(approved.status.success(), "{approved:?}");
    let other = std::fs::read_to_string(cell.path("g1.lock")).unwrap();
    assert!(!other.contains(&digest.to_string()));
    std::fs::write(&file, component).unwrap();
    std::fs::write(cell.path("g1.lock"), own).unwrap();
    assert!(cell.run_as_gateway(&["approve", "--yes"]).status.success());
    let gateway = cell.gateway("");
    wait_until("it is pushed", || cell.said("g1").contains("`calculator` was pushed"));
    cell.worker_apart("w1", |_| other);
    wait_until("the worker misses its own", || cell.said("w1").contains("`calculator` is not served"));
    std::thread::sleep(Duration::from_secs(2));
    let answer = call(&gateway, "calculator__add", ADD);
    assert_eq!(answer.kind(), "unavailable", "{answer:?}");
    assert!(!cell.path(&format!("state/fumehood/components/{}.wasm", digest.hex())).exists());
}
