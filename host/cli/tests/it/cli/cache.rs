//! The code cache as a user sees it: private, reused, and never trusted.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use expect_test::expect;

use super::workbench::{CommandOutput, Workbench};

/// Creates a folder with a component whose code is in the cache.
fn warm() -> Workbench {
    let bench = Workbench::with_own_cache();
    bench.program("count");
    let ran = call(&bench);
    assert_eq!(ran.stderr.lines().count(), 1, "no warning, only what it cost: {ran:?}");
    bench
}

fn call(bench: &Workbench) -> CommandOutput {
    let ran = bench.run(&["call", "count.wasm", "run", r#"{"to": 7}"#]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "7\n"), "whatever the cache is like, the call works: {ran:?}");
    ran
}

fn entries(cache: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    found.sort();
    found
}

fn only(cache: &Path, extension: &str) -> PathBuf {
    let [entry] = entries(cache, extension).try_into().unwrap();
    entry
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn warns_once(bench: &Workbench, word: &str) {
    let ran = call(bench);
    assert!(ran.stderr.starts_with("warning: ") && ran.stderr.contains(word), "{ran:?}");
    let ran = call(bench);
    assert!(!ran.stderr.contains("warning"), "it was repaired: {ran:?}");
}

fn written_at(path: &Path) -> std::time::SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn code_is_kept_privately_and_found_again() {
    let bench = warm();
    let cache = bench.cache();
    assert_eq!(mode(cache), 0o700);
    let code = only(cache, "cwasm");
    let mac = only(cache, "mac");
    for file in [&code, &mac, &cache.join("key")] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    let before = (written_at(&code), written_at(&mac));
    let ran = call(&bench);
    assert!(!ran.stderr.contains("warning"), "{ran:?}");
    assert_eq!((written_at(&code), written_at(&mac)), before, "a hit writes nothing");
    assert_eq!(std::fs::read_dir(cache).unwrap().count(), 3, "nothing else is left behind");
}

#[test]
fn a_changed_byte_is_reported_and_the_entry_repaired() {
    let bench = warm();
    let cache = bench.cache();
    for path in [only(cache, "cwasm"), only(cache, "mac"), cache.join("key")] {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        warns_once(&bench, "was damaged");
    }
}

#[test]
fn a_damaged_entry_is_explained() {
    let bench = warm();
    std::fs::write(only(bench.cache(), "cwasm"), b"short").unwrap();
    expect![[r#"
        ── stdout
        7
        ── stderr
        warning: the cached code of count.wasm was damaged, and was recompiled: its keyed hash was not written by this installation
        [time] of 10.00 s, [fuel] fuel, [memory] peak memory
        ── exit 0
    "#]].assert_eq(&call(&bench).shown());
}

#[test]
fn a_missing_part_of_an_entry_is_made_again() {
    let bench = warm();
    let cache = bench.cache();
    std::fs::remove_file(only(cache, "mac")).unwrap();
    warns_once(&bench, "was damaged");
    std::fs::remove_file(only(cache, "cwasm")).unwrap();
    assert!(!call(&bench).stderr.contains("warning"), "what is not there is not damaged");
    assert_eq!(entries(cache, "cwasm").len(), 1);
}

#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let bench = Workbench::with_own_cache();
    bench.program("count");
    std::fs::create_dir(bench.cache()).unwrap();
    std::fs::set_permissions(bench.cache(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = call(&bench);
    assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("other users can access it"), "{ran:?}");
    assert!(ran.stderr.contains("continuing without a code cache"), "{ran:?}");
    assert_eq!(std::fs::read_dir(bench.cache()).unwrap().count(), 0, "nothing was put there");
}

#[test]
fn a_folder_that_cannot_be_made_is_done_without() {
    let bench = Workbench::with_own_cache();
    bench.program("count");
    bench.put("cache", b"a file");
    let ran = call(&bench);
    assert!(ran.stderr.starts_with("warning: ") && ran.stderr.contains("continuing without"), "{ran:?}");
}

#[test]
fn a_link_in_place_of_an_entry_is_not_followed() {
    let bench = warm();
    let cache = bench.cache();
    for extension in ["cwasm", "mac"] {
        let entry = only(cache, extension);
        let elsewhere = bench.path("elsewhere");
        std::fs::rename(&entry, &elsewhere).unwrap();
        symlink(&elsewhere, &entry).unwrap();
        let before = std::fs::read(&elsewhere).unwrap();
        warns_once(&bench, "was damaged");
        assert!(std::fs::symlink_metadata(&entry).unwrap().is_file(), "the link is gone");
        assert_eq!(std::fs::read(&elsewhere).unwrap(), before, "what it pointed to was not written");
    }
}

#[test]
fn a_link_in_place_of_the_folder_is_not_followed() {
    let bench = warm();
    std::fs::rename(bench.cache(), bench.path("elsewhere")).unwrap();
    symlink(bench.path("elsewhere"), bench.cache()).unwrap();
    assert!(call(&bench).stderr.contains("continuing without a code cache"));
}

#[test]
fn code_of_another_component_is_refused() {
    let bench = warm();
    let cache = bench.cache();
    let code = only(cache, "cwasm");
    let mac = only(cache, "mac");
    bench.program("counter");
    assert_eq!(bench.run(&["inspect", "counter.wasm"]).code, 0);
    let other = |extension: &str, own: &Path| entries(cache, extension).into_iter().find(|path| path != own).unwrap();
    std::fs::copy(other("cwasm", &code), &code).unwrap();
    warns_once(&bench, "was damaged");
    std::fs::copy(other("cwasm", &code), &code).unwrap();
    std::fs::copy(other("mac", &mac), &mac).unwrap();
    warns_once(&bench, "was damaged");
}

#[test]
fn without_a_cache_nothing_is_written() {
    let bench = Workbench::with_own_cache();
    bench.program("count");
    assert_eq!(bench.run(&["--no-cache", "inspect", "count.wasm"]).code, 0, "though the variable names a folder");
    let mut command = bench.command(&["--no-cache", "inspect", "count.wasm"]);
    command.env_remove("FUMEHOOD_CACHE_DIR").env("HOME", bench.path("")).env_remove("XDG_CACHE_HOME");
    assert!(command.output().unwrap().status.success());
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().count(), 1, "only the component is there");
}

#[test]
fn the_cache_folder_is_from_flag_environment_or_default() {
    let bench = Workbench::with_own_cache();
    bench.program("count");
    assert_eq!(bench.run(&["--cache-dir", "named", "inspect", "count.wasm"]).code, 0);
    assert!(bench.path("named").exists() && !bench.cache().exists());
    let mut command = bench.command(&["inspect", "count.wasm"]);
    command.env_remove("FUMEHOOD_CACHE_DIR").env("XDG_CACHE_HOME", bench.path("usual"));
    assert!(command.output().unwrap().status.success());
    assert_eq!(entries(&bench.path("usual/fumehood/code"), "cwasm").len(), 1);
}
