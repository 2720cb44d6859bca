//! Races: a path is exchanged while it is opened.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::place::Place;

/// A guard that stops the other thread when it is dropped.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_race_is_never_won() {
    const OPENS: u32 = 20_000;
    const CALLS: u32 = 25;
    let place = Place::new().await;
    let folder = place.path("write");
    let outside = place.path("outside");
    std::fs::create_dir(folder.join("real")).unwrap();
    std::fs::write(folder.join("real/canary"), "fine").unwrap();
    symlink(&outside, folder.join("bad")).unwrap();
    let stop = Stop(Arc::default());
    let stopped = Arc::clone(&stop.0);
    // `swap` is by turns a folder and a link that leads out.
    let swapping = std::thread::spawn(move || {
        let swap = folder.join("swap");
        std::fs::rename(folder.join("real"), &swap).unwrap();
        let exchange = || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            renameat_with(CWD, folder.join("bad"), CWD, &swap, RenameFlags::EXCHANGE).unwrap();
        };
        let mut turns = 0_u32;
        while !stopped.load(Ordering::Relaxed) {
            exchange();
            turns += 1;
            if turns.is_multiple_of(8) {
                std::thread::yield_now();
            }
        }
        turns
    });
    let mut worked = 0_u64;
    let mut canaries = 0_u64;
    // In many calls, each of which has time enough on a busy machine.
    for _ in 0..CALLS {
        let text = place.works("race", json!({"folder": 1, "path": "swap/canary", "times": OPENS / CALLS})).await;
        let counts: [u64; 2] = serde_json::from_str(&text).unwrap();
        (worked, canaries) = (worked + counts[0], canaries + counts[1]);
    }
    drop(stop);
    let turns = swapping.join().unwrap();
    assert_eq!(canaries, 0, "of {OPENS}");
    assert!(turns > 100 && worked > 0 && worked < u64::from(OPENS), "there was a race: {turns} turns, {worked} opens");
}
