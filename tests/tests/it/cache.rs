//! The cache of compiled code: only code that this installation wrote is ever run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fumehood::{CacheError, CacheReport, Call, CodeCache, Host, Load};

async fn load(cache: &Path, program: &str) -> CacheReport {
    let host = Host::builder().concurrency(2).code_cache(CodeCache::open(cache).unwrap()).build().unwrap();
    let component = host.load(Load::bytes("it", fumehood_tests::component(program).unwrap())).await.unwrap();
    let called = host.call(Call::new("it__run", r#"{"to": 3}"#)).await;
    assert_eq!(called.text().as_deref(), Some("3"), "{called:?}");
    component.report().cache.clone()
}

fn entry(cache: &Path, extension: &str) -> PathBuf {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| path.extension().is_some_and(|found| found == extension)).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn compiled_code_is_kept_privately_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    assert_eq!(load(&cache, "count").await, CacheReport::Stored);
    assert_eq!(load(&cache, "count").await, CacheReport::Hit);
    assert_eq!(mode(&cache), 0o700);
    for file in [entry(&cache, "cwasm"), entry(&cache, "mac"), cache.join("key")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn the_same_bytes_are_compiled_once_in_a_process_without_a_cache() {
    let host = Host::builder().build().unwrap();
    for (name, expected) in [("one", CacheReport::Off), ("two", CacheReport::Hit)] {
        let component = host.load(Load::bytes(name, fumehood_tests::component("count").unwrap())).await.unwrap();
        assert_eq!(component.report().cache, expected);
        let called = host.call(Call::new(format!("{name}__run"), r#"{"to": 3}"#)).await;
        assert_eq!(called.text().as_deref(), Some("3"), "{called:?}");
    }
    let other = host.load(Load::bytes("three", fumehood_tests::component("counter").unwrap())).await.unwrap();
    assert_eq!(other.report().cache, CacheReport::Off);
}

#[tokio::test]
async fn a_changed_bit_anywhere_is_found_and_the_code_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    load(&cache, "count").await;
    for extension in ["cwasm", "mac"] {
        let path = entry(&cache, extension);
        let good = std::fs::read(&path).unwrap();
        let step = (good.len() / 8).max(1);
        for at in (0..good.len()).step_by(step).chain([good.len() - 1]) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(load(&cache, "count").await, CacheReport::Damaged(_)), "{extension} at {at}");
            assert_eq!(load(&cache, "count").await, CacheReport::Hit, "the entry was repaired");
        }
        std::fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert!(matches!(load(&cache, "count").await, CacheReport::Damaged(_)));
    }
}

#[tokio::test]
async fn code_of_another_installation_or_component_is_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours");
    let theirs = folder.path().join("theirs");
    load(&ours, "count").await;
    load(&theirs, "count").await;
    for extension in ["cwasm", "mac"] {
        std::fs::copy(entry(&theirs, extension), entry(&ours, extension)).unwrap();
    }
    assert!(matches!(load(&ours, "count").await, CacheReport::Damaged(_)), "another key signed it");
}

#[tokio::test]
async fn links_and_files_open_to_others_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    load(&cache, "count").await;
    let path = entry(&cache, "cwasm");
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    assert!(matches!(load(&cache, "count").await, CacheReport::Damaged(_)));
    let path = entry(&cache, "cwasm");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o606)).unwrap();
    assert!(matches!(load(&cache, "count").await, CacheReport::Damaged(_)));
}

#[test]
fn a_folder_or_key_that_is_not_private_is_no_cache() {
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(CodeCache::open(&open), Err(CacheError::NotPrivate { .. })));
    let cache = folder.path().join("cache");
    CodeCache::open(&cache).unwrap();
    std::fs::write(cache.join("key"), b"short").unwrap();
    assert!(matches!(CodeCache::open(&cache), Err(CacheError::Key { .. })));
    std::fs::set_permissions(cache.join("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(CodeCache::open(&cache), Err(CacheError::NotPrivate { .. })));
}
