//! Removal of the least recently used entries, which keeps the cache within its size.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Extension of compiled code.
pub(super) const CODE_EXTENSION: &str = "cwasm";
/// Extension of its keyed hash.
pub(super) const MAC_EXTENSION: &str = "mac";
/// Prefix of a file that is being written.
pub(super) const TEMPORARY_PREFIX: &str = ".new-";
/// Resolution of the recorded time of the last use, so that not every start writes.
const USE_RESOLUTION: Duration = Duration::from_secs(60 * 60);
/// Age at which a file that is being written counts as left behind by a killed process.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// One entry of the cache, with the time of its last use.
struct Entry {
    code: PathBuf,
    used: SystemTime,
    bytes: u64,
}

/// Records the use of an entry as the modification time of its code, unless that is recent. The cache works without it,
/// so a failure is not reported.
pub(super) fn touch(code: &File) {
    let now = SystemTime::now();
    let used = code.metadata().and_then(|metadata| metadata.modified());
    if used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > USE_RESOLUTION)) {
        let _only_affects_the_order = code.set_modified(now);
    }
}

/// Removes entries, the least recently used first, until the rest takes up at most `max_bytes`. The entry with the code
/// at `keep` stays. Mapped code stays mapped.
///
/// Several processes may do this at once: each looks at the same files, and a file that is gone already is not an
/// error. Files that cannot be removed stay until the next time.
pub(super) fn trim(folder: &Path, max_bytes: u64, keep: &Path) {
    let Ok(listed) = std::fs::read_dir(folder) else { return };
    let now = SystemTime::now();
    let mut entries = Vec::new();
    let mut total = 0_u64;
    for path in listed.flatten().map(|entry| entry.path()) {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        let Ok(used) = metadata.modified() else { continue };
        if path.extension().is_some_and(|extension| extension == CODE_EXTENSION) {
            let bytes = metadata.len().saturating_add(blake3::OUT_LEN as u64);
            total = total.saturating_add(bytes);
            entries.push(Entry { code: path, used, bytes });
        } else if is_abandoned(&path, now.duration_since(used).unwrap_or_default()) {
            let _stays_for_the_next_time = std::fs::remove_file(&path);
        }
    }
    entries.sort_by(|a, b| (a.used, &a.code).cmp(&(b.used, &b.code)));
    for entry in entries.iter().filter(|entry| entry.code != keep) {
        if total <= max_bytes {
            return;
        }
        // The code is removed first: a process that finds no keyed hash then finds no code either, and treats the entry
        // as missing.
        if std::fs::remove_file(&entry.code).is_ok_and(|()| !entry.code.exists()) {
            let _stays_for_the_next_time = std::fs::remove_file(entry.code.with_extension(MAC_EXTENSION));
        }
        total = total.saturating_sub(entry.bytes);
    }
}

fn is_abandoned(path: &Path, age: Duration) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(TEMPORARY_PREFIX.as_bytes()) && age > ABANDONED_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of entries of 1000 bytes, the first of which was used longest ago.
    fn cache(entries: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in entries.iter().rev().enumerate() {
            let used = SystemTime::now() - Duration::from_secs(3 * 60 * 60 * (age as u64 + 1));
            std::fs::write(folder.path().join(format!("{name}.mac")), [0; 32]).unwrap();
            let code = folder.path().join(format!("{name}.cwasm"));
            std::fs::write(&code, [0; 968]).unwrap();
            File::open(code).unwrap().set_modified(used).unwrap();
        }
        folder
    }

    fn left(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn removes_least_recently_used_entries_first() {
        let folder = cache(&["a", "b", "c", "d"]);
        std::fs::write(folder.path().join("key"), [0; 32]).unwrap();
        touch(&File::open(folder.path().join("a.cwasm")).unwrap());
        trim(folder.path(), 2500, Path::new(""));
        assert_eq!(left(folder.path()), ["a.cwasm", "a.mac", "d.cwasm", "d.mac", "key"]);
        trim(folder.path(), 2000, Path::new(""));
        assert_eq!(left(folder.path()).len(), 5, "what fits stays");
    }

    #[test]
    fn keeps_the_entry_that_was_just_stored() {
        let folder = cache(&["a", "b"]);
        trim(folder.path(), 10, &folder.path().join("a.cwasm"));
        assert_eq!(left(folder.path()), ["a.cwasm", "a.mac"]);
    }

    #[test]
    fn records_a_use_only_if_the_last_one_is_old() {
        let folder = cache(&["a"]);
        let file = File::open(folder.path().join("a.cwasm")).unwrap();
        let lately = SystemTime::now() - Duration::from_secs(600);
        file.set_modified(lately).unwrap();
        touch(&file);
        assert_eq!(file.metadata().unwrap().modified().unwrap(), lately);
        file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
        touch(&file);
        assert!(file.metadata().unwrap().modified().unwrap() > lately);
    }

    #[test]
    fn removes_abandoned_temporary_files_only() {
        let folder = cache(&[]);
        for (name, age) in [(".new-old", 48), (".new-young", 1)] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age * 60 * 60)).unwrap();
        }
        trim(folder.path(), 0, Path::new(""));
        assert_eq!(left(folder.path()), [".new-young"]);
    }

    #[test]
    fn trims_from_several_threads_at_once() {
        let names: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
        let folder = cache(&names.iter().map(String::as_str).collect::<Vec<_>>());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| trim(folder.path(), 50_000, Path::new("")));
            }
        });
        let left = left(folder.path());
        assert_eq!(left.len(), 100);
        assert!(left.iter().all(|name| name.as_str() >= "150"), "{left:?}");
    }
}
