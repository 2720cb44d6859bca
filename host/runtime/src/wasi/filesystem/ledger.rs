//! The account of the bytes and names that a tool adds to a folder.
//!
//! Files are charged by their size, holes included: a hole is charged when it is made, and filling it later is free.
//! Files that had holes before the tool first wrote to them (their blocks are less than their size) are an exception:
//! those holes were never charged, so every write within such a file is charged in whole blocks, until as much was
//! charged as there were holes. Truncating or removing such a file gives back its size without those holes. So the
//! account is never less than the growth of the folder's files on disk, except for the rest of each file's last block.
//!
//! One lock is held from reading a file's size until the change is made, so that two writers never compute with the
//! same old size. It is held during one system call, on a thread for file work.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fumehood_core::policy::permission::files::{Account, Quota, QuotaExceeded};
use fumehood_platform::files::{self, FileStatus};
use fumehood_platform::limits;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Maximum number of removed files whose bytes are given back once no file is open. Further ones are not given back.
const MAX_PENDING_FILES: usize = 64;

/// Maximum number of files whose holes are remembered. In further ones, every write within a file with holes is
/// charged.
const MAX_KNOWN_FILES: usize = 65_536;
/// Minimum size of a block: a single byte in a hole takes up that much.
const MIN_BLOCK_BYTES: u64 = 4096;

/// The account of one folder, and how many of its files are open.
pub(crate) struct Ledger {
    state: Mutex<LedgerState>,
    open: AtomicUsize,
}

struct LedgerState {
    account: Account,
    /// Files that were removed while some call had a file open, and may still take up space.
    pending: Vec<File>,
    /// Bytes of holes that were never charged, by device and inode.
    holes: HashMap<(u64, u64), u64>,
}

/// An error of a change that was not made.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The quota is used up.
    QuotaExceeded(QuotaExceeded),
    /// An error of the system.
    System(ErrorCode),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::System(error.into())
    }
}

impl From<ErrorCode> for WriteError {
    fn from(code: ErrorCode) -> Self {
        Self::System(code)
    }
}

impl From<QuotaExceeded> for WriteError {
    fn from(spent: QuotaExceeded) -> Self {
        Self::QuotaExceeded(spent)
    }
}

/// The position of a write in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    At(u64),
    End,
}

impl Ledger {
    pub(crate) fn new(quota: Quota) -> Self {
        let state = LedgerState { account: Account::new(quota), pending: Vec::new(), holes: HashMap::new() };
        Self { state: Mutex::new(state), open: AtomicUsize::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all of `bytes`, or nothing if the quota does not suffice. Returns the number of bytes written.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], position: Position) -> Result<usize, WriteError> {
        let mut state = self.state();
        let status = FileStatus::of(file)?;
        let before = status.bytes;
        let start = match position {
            Position::At(offset) => offset,
            Position::End => before,
        };
        let end = start.checked_add(bytes.len() as u64).ok_or(ErrorCode::FileTooLarge)?;
        check_size(end)?;
        let growth = end.saturating_sub(before);
        let holes = state.uncharged_holes(&status);
        let filled = max_filled(&status, holes, start, end);
        state.account.grow(growth.saturating_add(filled))?;
        state.set_uncharged_holes(&status, holes.saturating_sub(filled));
        let written = write_all(file, bytes, position);
        if !matches!(written, Ok(all) if all == bytes.len()) {
            // A short write: give back what the file did not grow by. Holes stay charged.
            let grown = file.metadata().map_or(growth, |now| now.len().saturating_sub(before));
            state.account.shrink(growth.saturating_sub(grown));
        }
        match written {
            Ok(0) if !bytes.is_empty() => Err(ErrorCode::Io.into()),
            written => Ok(written?),
        }
    }

    pub(crate) fn set_size(&self, file: &File, size: u64) -> Result<(), WriteError> {
        let mut state = self.state();
        let status = FileStatus::of(file)?;
        let before = status.bytes;
        if size > before {
            check_size(size)?;
        }
        let growth = size.saturating_sub(before);
        let holes = state.uncharged_holes(&status);
        state.account.grow(growth)?;
        if let Err(error) = file.set_len(size) {
            state.account.shrink(growth);
            return Err(error.into());
        }
        // Holes are cut first: they were never charged, so nothing is given back for them.
        let cut = before.saturating_sub(size);
        state.account.shrink(cut.saturating_sub(holes));
        state.set_uncharged_holes(&status, holes.saturating_sub(cut));
        Ok(())
    }

    /// Calls `work` under the lock, so that this tool makes no other change to the folder meanwhile.
    pub(crate) fn change_names<R>(&self, work: impl FnOnce(&mut NameChanges<'_>) -> R) -> R {
        work(&mut NameChanges { state: self.state(), open: &self.open })
    }

    /// Counts one more open file of the folder. Must be called before the file is opened.
    pub(crate) fn add_open(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one open file less. Must be called after the file is closed.
    pub(crate) fn remove_open(&self) {
        if self.open.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        // This may be a thread that runs guests, which must not wait for a file system. If the lock is held, the next
        // close or removal settles the pending files.
        if let Ok(mut state) = self.state.try_lock() {
            state.settle(&self.open);
        }
    }
}

impl LedgerState {
    /// Gives back the bytes of removed files, if no file of the folder is open.
    fn settle(&mut self, open: &AtomicUsize) {
        if open.load(Ordering::SeqCst) > 0 {
            return;
        }
        for gone in self.pending.drain(..).filter_map(|gone| status_if_unlinked(&gone)) {
            let holes = self.holes.remove(&(gone.device, gone.inode)).unwrap_or_else(|| holes(&gone));
            self.account.shrink(gone.bytes.saturating_sub(holes));
        }
    }

    /// Returns the bytes of holes of a file that were never charged. A file that is seen for the first time was not
    /// made by this tool, or is empty.
    fn uncharged_holes(&self, file: &FileStatus) -> u64 {
        let known = self.holes.get(&(file.device, file.inode)).copied();
        known.unwrap_or_else(|| holes(file)).min(file.bytes)
    }

    /// Stores the bytes of holes of a file that were never charged.
    fn set_uncharged_holes(&mut self, file: &FileStatus, holes: u64) {
        let name = (file.device, file.inode);
        if self.holes.len() < MAX_KNOWN_FILES || self.holes.contains_key(&name) {
            self.holes.insert(name, holes);
        }
    }
}

/// Returns the bytes of a file without a block on disk.
fn holes(file: &FileStatus) -> u64 {
    file.bytes.saturating_sub(file.allocated_bytes)
}

/// Returns the maximum bytes of uncharged `holes` that a write from `start` to `end` can fill.
fn max_filled(file: &FileStatus, holes: u64, start: u64, end: u64) -> u64 {
    if holes == 0 || start >= file.bytes || start == end {
        return 0;
    }
    let block = file.block_bytes.max(MIN_BLOCK_BYTES);
    let first = start.checked_div(block).unwrap_or(0).saturating_mul(block);
    let last = end.min(file.bytes).div_ceil(block).saturating_mul(block);
    last.saturating_sub(first).min(holes)
}

/// Refuses a file size beyond the limit of this process, for which the system would end it.
fn check_size(size: u64) -> Result<(), ErrorCode> {
    if limits::max_file_bytes().is_some_and(|limit| size > limit) { Err(ErrorCode::FileTooLarge) } else { Ok(()) }
}

/// Returns the status of a regular file that has no name any more.
fn status_if_unlinked(file: &File) -> Option<FileStatus> {
    FileStatus::of(file).ok().filter(|status| status.is_regular && status.links == 0)
}

/// A change of names in a folder, which holds the lock of its account.
pub(crate) struct NameChanges<'a> {
    state: MutexGuard<'a, LedgerState>,
    open: &'a AtomicUsize,
}

impl NameChanges<'_> {
    /// Calls `work`, which adds one name, if the quota has one left.
    pub(crate) fn add<R, E: From<QuotaExceeded>>(&mut self, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.state.account.add_entry()?;
        let done = work();
        if done.is_err() {
            self.state.account.remove_entry();
        }
        done
    }

    /// Like [`Self::add`], for a symbolic link with a target of `bytes`, which are charged as those of a file.
    pub(crate) fn add_link<R, E: From<QuotaExceeded>>(
        &mut self,
        bytes: u64,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        self.state.account.grow(bytes)?;
        let done = self.add(work);
        if done.is_err() {
            self.state.account.shrink(bytes);
        }
        done
    }

    /// Counts a name that was removed. If it was the last name of a file or of a link, its bytes are given back.
    ///
    /// A file that some call has open still takes up space, so nothing is given back while any is open.
    pub(crate) fn remove(&mut self, removed: RemovedEntry) {
        self.state.account.remove_entry();
        match removed {
            RemovedEntry::File(file) => {
                if self.state.pending.len() < MAX_PENDING_FILES && status_if_unlinked(&file).is_some() {
                    self.state.pending.push(file);
                }
            }
            RemovedEntry::Link { bytes } => self.state.account.shrink(bytes),
            RemovedEntry::Other => {}
        }
        self.state.settle(self.open);
    }
}

/// The entry of a folder whose name is removed.
#[derive(Debug)]
pub(crate) enum RemovedEntry {
    /// A regular file, open.
    File(File),
    /// A symbolic link without another name.
    Link {
        /// The length of its target.
        bytes: u64,
    },
    /// Anything else, and a file that cannot be opened: nothing is given back for it.
    Other,
}

fn write_all(file: &File, bytes: &[u8], position: Position) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        let written = match position {
            Position::At(offset) => files::write_at(file, rest, offset + done as u64),
            Position::End => files::append(file, rest),
        };
        match written {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(bytes: u64) -> (Ledger, File) {
        (Ledger::new(Quota::new(bytes, 1).unwrap()), tempfile::tempfile().unwrap())
    }

    fn is_spent(result: Result<impl Sized, WriteError>) -> bool {
        matches!(result, Err(WriteError::QuotaExceeded(_)))
    }

    #[test]
    fn charges_growth_and_not_overwriting() {
        let (ledger, file) = ledger(10);
        assert_eq!(ledger.write(&file, b"12345678", Position::At(0)).unwrap(), 8);
        assert_eq!(ledger.write(&file, b"ab", Position::End).unwrap(), 2);
        for _ in 0..3 {
            assert_eq!(ledger.write(&file, b"1234567890", Position::At(0)).unwrap(), 10);
        }
        assert!(is_spent(ledger.write(&file, b"x", Position::End)));
        assert!(is_spent(ledger.write(&file, b"x", Position::At(1 << 40))));
        assert!(ledger.write(&file, b"x", Position::At(u64::MAX)).is_err());
        assert_eq!(file.metadata().unwrap().len(), 10);
    }

    #[test]
    fn charges_new_holes_and_gives_back_what_is_cut() {
        let (ledger, file) = ledger(10);
        assert!(is_spent(ledger.set_size(&file, 1 << 43)));
        ledger.set_size(&file, 10).unwrap();
        assert!(is_spent(ledger.write(&file, b"x", Position::End)));
        ledger.set_size(&file, 4).unwrap();
        assert_eq!(ledger.write(&file, b"123456", Position::End).unwrap(), 6);
        assert!(is_spent(ledger.write(&file, b"x", Position::End)));
    }

    const MIB: u64 = 1 << 20;

    /// A file that consists of holes and was not made by the tool.
    fn sparse(size: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file
    }

    #[test]
    fn charges_filling_of_holes_that_were_there_before() {
        let ledger = Ledger::new(Quota::new(MIB, 1).unwrap());
        let file = sparse(64 * MIB);
        let piece = vec![1; 1 << 16];
        let written = (0..1024).take_while(|n| ledger.write(&file, &piece, Position::At(n << 16)).is_ok()).count();
        assert_eq!(written, 16, "1 MiB in pieces of 64 KiB");
        assert!(is_spent(ledger.write(&file, b"x", Position::At(32 * MIB))));
        assert_eq!(file.metadata().unwrap().len(), 64 * MIB);
    }

    #[test]
    fn charges_a_whole_block_for_one_byte_in_a_hole() {
        let ledger = Ledger::new(Quota::new(MIB, 1).unwrap());
        let file = sparse(64 * MIB);
        let block = FileStatus::of(&file).unwrap().block_bytes.max(4096);
        let written = (0..10_000).take_while(|n| ledger.write(&file, b"x", Position::At(n * block)).is_ok()).count();
        assert_eq!(written as u64, MIB / block);
        assert!(FileStatus::of(&file).unwrap().allocated_bytes <= MIB);
    }

    #[test]
    fn charges_holes_once_and_gives_back_only_charged_bytes() {
        let ledger = Ledger::new(Quota::new(MIB, 1).unwrap());
        let other = tempfile::tempfile().unwrap();
        let file = sparse(MIB / 2);
        let all = vec![1; usize::try_from(MIB / 2).unwrap()];
        for _ in 0..3 {
            ledger.write(&file, &all, Position::At(0)).unwrap();
        }
        // The tool's own hole is charged when it is made, and filling it is free.
        ledger.set_size(&other, MIB / 2).unwrap();
        ledger.write(&other, &all, Position::At(0)).unwrap();
        assert!(is_spent(ledger.write(&other, b"x", Position::End)));
        // Cutting off uncharged holes gives nothing back.
        let large = sparse(64 * MIB);
        ledger.set_size(&large, MIB).unwrap();
        assert!(is_spent(ledger.write(&other, b"x", Position::End)));
        ledger.set_size(&file, 0).unwrap();
        assert_eq!(ledger.write(&other, &all, Position::End).unwrap(), all.len());
        assert!(is_spent(ledger.write(&other, b"x", Position::End)));
    }

    #[test]
    fn removing_a_file_of_uncharged_holes_gives_nothing_back() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(Quota::new(10, 1).unwrap());
        let path = folder.path().join("sparse");
        let own = tempfile::tempfile().unwrap();
        File::create(&path).unwrap().set_len(64 * MIB).unwrap();
        ledger.write(&own, b"1234567890", Position::End).unwrap();
        let seen = File::open(&path).unwrap();
        ledger.change_names(|names| {
            std::fs::remove_file(&path).unwrap();
            names.remove(RemovedEntry::File(seen));
        });
        assert!(is_spent(ledger.write(&own, b"x", Position::End)));
    }

    #[test]
    fn charges_nothing_for_failed_changes() {
        let (ledger, _) = ledger(10);
        let read_only = File::open("/dev/null").unwrap();
        assert!(ledger.write(&read_only, b"12345678", Position::At(0)).is_err());
        assert!(ledger.set_size(&read_only, 10).is_err());
        let file = tempfile::tempfile().unwrap();
        assert_eq!(ledger.write(&file, b"1234567890", Position::At(0)).unwrap(), 10);
        let add =
            |result: Result<(), ErrorCode>| ledger.change_names(|names| names.add(|| result.map_err(WriteError::from)));
        assert!(!is_spent(add(Err(ErrorCode::Exist))));
        assert!(add(Ok(())).is_ok());
        assert!(is_spent(add(Ok(()))));
    }

    fn remove_file(ledger: &Ledger, path: &std::path::Path) {
        let seen = File::open(path).unwrap();
        ledger.change_names(|names| {
            std::fs::remove_file(path).unwrap();
            names.remove(RemovedEntry::File(seen));
        });
    }

    #[test]
    fn removed_file_is_given_back_once_no_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let ledger = Ledger::new(Quota::new(10, 1).unwrap());
        let fill = || {
            let file = File::create(&path).unwrap();
            ledger.write(&file, b"1234567890", Position::At(0))
        };
        fill().unwrap();
        remove_file(&ledger, &path);
        fill().unwrap();
        ledger.add_open();
        remove_file(&ledger, &path);
        assert!(is_spent(fill()), "it takes up its room as long as it may be open");
        std::fs::remove_file(&path).unwrap();
        ledger.remove_open();
        fill().unwrap();
        assert!(is_spent(fill().and_then(|_| ledger.write(
            &File::options().append(true).open(&path).unwrap(),
            b"x",
            Position::End
        ))));
    }
}
