//! The lock: a file, `fumehood.lock`, with the approvals of an operator.

pub(crate) mod approval_check;
pub(crate) mod error;
mod file;
mod user_record;

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{Approval, ApprovalNote, Entry, Manifest};
use fumehood_core::tool::name::Namespace;

use self::approval_check::LockedApproval;
use self::error::LockError;
use self::file::{Approved, Change, parse_if_there, text_of, to_text};
use self::user_record::UserRecord;

/// Maximum wait for another process that is writing.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Interval of the checks whether that process has finished.
const POLL: Duration = Duration::from_millis(10);
/// Prefix of the text that the signature of an entry covers, so that the signature has no other meaning.
const SIGNATURE_CONTEXT: &str = "fumehood lock entry 1\n";

/// Approvals, by the names of components and servers in a host.
///
/// A lock prevents calls of components that have changed since an operator approved them. It is a file that may come from
/// elsewhere, such as with a checkout. [`Lock::open`] takes all of it, for a program that vouches for its own lock;
/// [`Lock::open_for_user`] takes only what this user approved at this path, and the rest is a proposal.
///
/// ```
/// use fumehood::{Call, ErrorKind, Host, Load, Lock, Namespace};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// # let folder = tempfile::tempdir()?;
/// let mut lock = Lock::open(folder.path().join("fumehood.lock"))?;
/// let name = Namespace::parse("calculator")?;
/// let host = Host::builder().build()?;
/// host.load(Load::path(path).approval(lock.get(&name).cloned())).await?;
/// let refused = host.call(Call::new("calculator__add", r#"{"a": 3, "b": 5}"#)).await;
/// assert!(refused.error().is_some_and(|error| error.kind == ErrorKind::NeedsApproval));
///
/// // An operator has looked at its definitions and grants.
/// let loaded = host.component("calculator").ok_or("it is loaded")?;
/// lock.approve(name.clone(), loaded.approval().ok_or("it needs an approval")?.parts().clone());
/// lock.save()?;
/// host.reload(Load::path(path).approval(lock.get(&name).cloned())).await?;
/// assert!(host.call(Call::new("calculator__add", r#"{"a": 3, "b": 5}"#)).await.is_ok());
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    path: PathBuf,
    /// The content of the file, with the unsaved changes.
    written: Approved,
    acceptance: Acceptance,
    /// Changes since the file was read that are not in it yet.
    unsaved: Vec<Change>,
}

/// The entries of the file that are approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Acceptance {
    /// All of them.
    All,
    /// Those of this user, and those with a signature that was accepted.
    User { record: UserRecord, signed: BTreeSet<(Namespace, Digest)> },
}

impl Lock {
    /// Reads the lock at `path`, and takes every entry for an approval. A missing file is a lock without approvals.
    ///
    /// # Errors
    /// If the file cannot be read, is not a lock, or was edited by hand.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LockError> {
        let path = path.into();
        let written = parse_if_there(&path, text_of(&path)?.as_deref())?;
        Ok(Self { path, written, acceptance: Acceptance::All, unsaved: Vec::new() })
    }

    /// Reads the lock at `path`, and takes those entries for approvals that this user gave at this path, as a record in
    /// `folder` says. The others are proposals. Without a folder, all are proposals, and nothing can be saved.
    ///
    /// # Errors
    /// Like [`Lock::open`], or if the record is damaged.
    pub fn open_for_user(path: impl Into<PathBuf>, folder: Option<&Path>) -> Result<Self, LockError> {
        let path = path.into();
        let text = text_of(&path)?;
        let written = parse_if_there(&path, text.as_deref())?;
        let file = folder.map(|folder| UserRecord::path_for(folder, &path));
        let record = UserRecord::read(file, text.as_deref(), &written)?;
        let acceptance = Acceptance::User { record, signed: BTreeSet::new() };
        Ok(Self { path, written, acceptance, unsaved: Vec::new() })
    }

    /// Returns the path of the record of this user's approvals for the lock at `path`. It changes with every approval.
    #[must_use]
    pub fn record_path(folder: &Path, path: &Path) -> PathBuf {
        UserRecord::path_for(folder, path)
    }

    /// Takes proposals for approvals whose signatures are accepted. `verify` gets the signed text and the signature.
    pub fn accept_signed(&mut self, verify: impl Fn(&[u8], &str) -> bool) {
        let Acceptance::User { signed, .. } = &mut self.acceptance else { return };
        for ((name, pin), signature) in &self.written.signatures {
            if verify(&signed_text(name, *pin), signature) {
                signed.insert((name.clone(), *pin));
            }
        }
    }

    /// Signs all approvals. `sign` gets the text to be signed. [`Lock::save`] writes the signatures to the file.
    ///
    /// # Errors
    /// If `sign` fails.
    pub fn sign(&mut self, sign: impl Fn(&[u8]) -> Result<String, String>) -> Result<(), LockError> {
        let mut changes = Vec::new();
        for (name, pin) in self.written.pins().filter(|(name, pin)| self.accepts(name, *pin)) {
            let signature = sign(&signed_text(name, pin));
            let signature = signature.map_err(|reason| LockError::Unsigned { name: name.clone(), reason })?;
            changes.push(Change::Sign(name.clone(), pin, signature));
        }
        changes.into_iter().for_each(|change| self.change(change));
        Ok(())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn accepts(&self, name: &Namespace, pin: Digest) -> bool {
        match &self.acceptance {
            Acceptance::All => true,
            Acceptance::User { record, signed } => record.has(name, pin) || signed.contains(&(name.clone(), pin)),
        }
    }

    /// Returns the approval of the component or server with that name.
    #[must_use]
    pub fn get(&self, name: &Namespace) -> Option<&Approval> {
        self.written.approvals.get(name).filter(|approval| self.accepts(name, approval.pin()))
    }

    /// Returns the entry of the component or server with that name that is no approval, because somebody else wrote it.
    #[must_use]
    pub fn proposal(&self, name: &Namespace) -> Option<&Approval> {
        self.written.approvals.get(name).filter(|approval| !self.accepts(name, approval.pin()))
    }

    /// Returns the approval of that name, and what is known beside it: a proposal, and this user's last approval.
    #[must_use]
    pub fn locked(&self, name: &Namespace) -> LockedApproval {
        let previous = match &self.acceptance {
            Acceptance::All => None,
            Acceptance::User { record, .. } => record.approved.approvals.get(name),
        };
        LockedApproval::new(self.get(name).cloned(), self.proposal(name).cloned(), previous.cloned())
    }

    /// Returns all approvals, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Namespace, &Approval)> {
        self.written.approvals.iter().filter(|(name, approval)| self.accepts(name, approval.pin()))
    }

    /// Returns the approved way to start or reach the server of that name.
    #[must_use]
    pub fn entry(&self, name: &Namespace) -> Option<&Entry> {
        self.written.entries.get(name).filter(|entry| self.accepts(name, entry.pin()))
    }

    /// Returns the way to start or reach the server of that name that this user approved last, whatever the file has.
    #[must_use]
    pub fn previous_entry(&self, name: &Namespace) -> Option<&Entry> {
        match &self.acceptance {
            Acceptance::All => self.entry(name),
            Acceptance::User { record, .. } => record.approved.entries.get(name),
        }
    }

    /// Returns the approved ways to start or reach servers, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&Namespace, &Entry)> {
        self.written.entries.iter().filter(|(name, entry)| self.accepts(name, entry.pin()))
    }

    /// Returns the names of entries that are no approvals, because somebody else wrote them.
    #[must_use]
    pub fn proposed_names(&self) -> BTreeSet<&Namespace> {
        let proposed = self.written.pins().filter(|(name, pin)| !self.accepts(name, *pin));
        proposed.map(|(name, _)| name).collect()
    }

    /// Returns the names of all entries.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&Namespace> {
        self.written.pins().map(|(name, _)| name).collect()
    }

    /// Approves these parts under that name, in place of an earlier approval. [`Lock::save`] writes it to the file.
    pub fn approve(&mut self, name: Namespace, parts: Manifest) {
        self.change(Change::Approve(name, Box::new(Approval::new(parts))));
    }

    /// Like [`Self::approve`], and keeps by whom and when. A proposal of exactly these parts stays as it is written, unless
    /// the approver has a name.
    pub fn approve_with_note(&mut self, name: Namespace, parts: Manifest, note: ApprovalNote) {
        let is_named = note.by.is_some();
        let approval = Approval::new(parts).with_note(Some(note));
        let proposed = self.proposal(&name).filter(|proposed| proposed.pin() == approval.pin() && !is_named);
        let approval = proposed.cloned().unwrap_or(approval);
        self.change(Change::Approve(name, Box::new(approval)));
    }

    /// Approves the way to start or reach the server of that name. [`Lock::save`] writes it to the file.
    pub fn approve_entry(&mut self, name: Namespace, entry: Entry) {
        self.change(Change::ApproveEntry(name, entry));
    }

    /// Revokes the approval under that name, and that of the way to start or reach the server, proposals included. Returns
    /// whether there was one. [`Lock::save`] writes it to the file.
    pub fn revoke(&mut self, name: &Namespace) -> bool {
        let was_there = self.written.approvals.contains_key(name) || self.written.entries.contains_key(name);
        self.change(Change::Revoke(name.clone()));
        was_there
    }

    fn change(&mut self, change: Change) {
        self.written.apply(change.clone());
        if let Acceptance::User { record, .. } = &mut self.acceptance {
            record.apply(change.clone());
        }
        self.unsaved.push(change);
    }

    /// Applies the changes to the file as it is now, so that changes of other processes are kept. The new file is
    /// written beside the old one and then renamed over it, so that a reader always sees a complete file.
    ///
    /// # Errors
    /// If the file cannot be read again, another process holds it for ten seconds, or it cannot be written. The old
    /// file is then unchanged.
    pub fn save(&mut self) -> Result<(), LockError> {
        let _held = self.hold()?;
        let old = text_of(&self.path)?;
        let before = parse_if_there(&self.path, old.as_deref())?;
        if let Acceptance::User { record, .. } = &mut self.acceptance {
            record.read_again(old.as_deref(), &before)?;
            record.prepare(&self.path, &before, &self.unsaved)?;
        }
        let mut written = before;
        self.unsaved.iter().cloned().for_each(|change| written.apply(change));
        self.write(&written, old.as_deref())?;
        if let Acceptance::User { record, .. } = &self.acceptance {
            record.commit(&self.path)?;
        }
        self.written = written;
        self.unsaved.clear();
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Prevents other processes from writing, with a lock on the folder: the file itself is replaced with each change.
    fn hold(&self) -> Result<File, LockError> {
        let io = |source| LockError::Write { path: self.path.clone(), source };
        let folder = File::open(self.folder()).map_err(io)?;
        let started = Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(folder),
                Err(TryLockError::WouldBlock) if started.elapsed() < MAX_WAIT => std::thread::sleep(POLL),
                Err(TryLockError::WouldBlock) => return Err(LockError::Busy(self.path.clone())),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
    }

    fn write(&self, approved: &Approved, old: Option<&str>) -> Result<(), LockError> {
        let io = |source| LockError::Write { path: self.path.clone(), source };
        let text = to_text(approved).map_err(|error| io(std::io::Error::other(error)))?;
        // An approval of what the file proposes changes nothing in it.
        if old == Some(text.as_str()) {
            return Ok(());
        }
        // Readable by all: it has no secrets, and every user who runs the tools has to read it.
        let readable = fumehood_platform::private::readable_permissions();
        let mut builder = tempfile::Builder::new();
        let mut file =
            builder.prefix(".fumehood.lock.").permissions(readable).tempfile_in(self.folder()).map_err(io)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(io)?;
        file.persist(&self.path).map_err(|error| io(error.error))?;
        Ok(())
    }
}

/// Returns the text that the signature of an entry covers.
fn signed_text(name: &Namespace, pin: Digest) -> Vec<u8> {
    format!("{SIGNATURE_CONTEXT}{name}\n{pin}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use fumehood_core::policy::approval::ApprovalStatus;
    use fumehood_core::time::Timestamp;

    use super::approval_check::ApprovalCheck;
    use super::*;

    fn parts(grant: &str) -> Manifest {
        Manifest::new(Some(Digest::of(b"code")), "0.1.0", vec![grant.to_owned()], &[])
    }

    fn notes() -> Namespace {
        Namespace::parse("notes").unwrap()
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        assert_eq!(lock.iter().count(), 0);
        lock.approve(notes(), parts("read = \"./a\nb\":/docs"));
        lock.save().unwrap();
        assert_eq!(Lock::open(&path).unwrap(), lock);
        assert!(lock.revoke(&notes()) && !lock.revoke(&notes()));
        lock.save().unwrap();
        assert_eq!(Lock::open(&path).unwrap().get(&notes()), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn the_approver_is_kept_and_changes_no_pin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("state = true"));
        let pin = lock.get(&notes()).unwrap().pin();
        let note = ApprovalNote { by: Some("ann\u{202e}".into()), at: Timestamp(1_700_000_000_000) };
        lock.approve_with_note(notes(), parts("state = true"), note.clone());
        lock.save().unwrap();
        let read = Lock::open(&path).unwrap();
        assert_eq!(read, lock);
        let approval = read.get(&notes()).unwrap();
        assert_eq!((approval.pin(), approval.note()), (pin, Some(&note)));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("at = 1700000000000\n") && text.contains("ann"), "{text}");
        // A lock of an earlier version has neither.
        let old: Vec<&str> =
            text.lines().filter(|line| !line.starts_with("by =") && !line.starts_with("at =")).collect();
        std::fs::write(&path, old.join("\n").replace("version = 3", "version = 2")).unwrap();
        assert_eq!(Lock::open(&path).unwrap().get(&notes()).unwrap().note(), None);
    }

    #[test]
    fn a_lock_that_was_touched_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("state = true"));
        lock.save().unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let check = |text: &str, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Lock::open(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&good.replace("state = true", "http = everything"), "`notes` in line 6 of the lock");
        check(&good.replace("state = true", "http = everything"), "was edited by hand; remove it, and approve");
        check(&good.replace("name = \"notes\"", "name = \"No tes\""), "an entry with an invalid name in line 6");
        check(&good.replace("contract = \"0.1.0\"\n", ""), "is damaged (line");
        check(&good.replace("version = 3", "version = 5"), "has version 5");
        check(&good.replace("version = 3\n", "version = 3\n}"), "is damaged (line 4");
        check(
            &format!("{good}\n{}", good.split_once("\n[[").map(|(_, rest)| format!("[[{rest}")).unwrap()),
            "a second entry for `notes` in line 1",
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(Lock::open(&path), Err(LockError::NotALock(_))));
        assert!(matches!(lock.save(), Err(LockError::NotALock(_))));
    }

    fn entry(line: &str) -> Entry {
        Entry::new(vec![line.to_owned()])
    }

    #[test]
    fn the_entry_of_a_server_is_kept_beside_its_tools() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("run: [\"a\"]"));
        lock.approve_entry(notes(), entry("run: [\"a\"]"));
        lock.save().unwrap();
        let read = Lock::open(&path).unwrap();
        assert_eq!(read, lock);
        assert_eq!(read.entry(&notes()), Some(&entry("run: [\"a\"]")));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("lines = ['run: [\"a\"]']", "lines = ['run: [\"b\"]']")).unwrap();
        assert!(matches!(Lock::open(&path), Err(LockError::Edited { .. })));
        std::fs::write(&path, &text).unwrap();
        assert!(lock.revoke(&notes()));
        lock.save().unwrap();
        assert_eq!(Lock::open(&path).unwrap().entry(&notes()), None);
    }

    #[test]
    fn a_lock_of_the_first_version_approves_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("run: [\"a\"]"));
        lock.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("version = 3", "version = 1")).unwrap();
        let read = Lock::open(&path).unwrap();
        assert!(read.get(&notes()).is_some() && read.entry(&notes()).is_none());
    }

    #[test]
    fn changes_of_two_that_read_the_same_lock_are_both_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let other = Namespace::parse("other").unwrap();
        let mut one = Lock::open(&path).unwrap();
        one.approve(notes(), parts("state = true"));
        one.save().unwrap();
        let mut revokes = Lock::open(&path).unwrap();
        let mut approves = Lock::open(&path).unwrap();
        revokes.revoke(&notes());
        revokes.save().unwrap();
        approves.approve(other.clone(), parts("state = true"));
        approves.save().unwrap();
        assert_eq!(approves.get(&notes()), None, "a revocation of another process is not undone");
        let read = Lock::open(&path).unwrap();
        assert!(read.get(&notes()).is_none() && read.get(&other).is_some());
    }

    /// A lock that somebody else wrote, and the folder with this user's approvals.
    struct Checkout {
        folder: tempfile::TempDir,
    }

    impl Checkout {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self) -> PathBuf {
            let folder = self.folder.path().join("work");
            std::fs::create_dir_all(&folder).unwrap();
            folder.join("fumehood.lock")
        }

        fn text(&self) -> String {
            std::fs::read_to_string(self.path()).unwrap()
        }

        fn write_as_other(&self, name: &Namespace, parts: Manifest) {
            let mut lock = Lock::open(self.path()).unwrap();
            let note = ApprovalNote { by: Some("mallory".into()), at: Timestamp(1) };
            lock.approve_with_note(name.clone(), parts, note);
            lock.save().unwrap();
        }

        fn open(&self) -> Lock {
            Lock::open_for_user(self.path(), Some(&self.folder.path().join("state"))).unwrap()
        }

        fn approve(&self, parts: Manifest) {
            let mut lock = self.open();
            lock.approve_with_note(notes(), parts, ApprovalNote { by: None, at: Timestamp(2) });
            lock.save().unwrap();
        }
    }

    #[test]
    fn entries_of_others_are_proposals() {
        let checkout = Checkout::new();
        checkout.write_as_other(&notes(), parts("state = true"));
        let lock = checkout.open();
        assert!(lock.get(&notes()).is_none() && lock.iter().count() == 0);
        assert_eq!(lock.proposal(&notes()).unwrap().manifest(), &parts("state = true"));
        assert_eq!(lock.proposed_names().into_iter().collect::<Vec<_>>(), [&notes()]);
        let text = checkout.text();
        checkout.approve(parts("state = true"));
        assert_eq!(checkout.text(), text, "approving what a lock proposes does not change it");
        let lock = checkout.open();
        assert!(lock.get(&notes()).is_some() && lock.proposal(&notes()).is_none() && lock.proposed_names().is_empty());
        assert!(Lock::open_for_user(checkout.path(), None).unwrap().get(&notes()).is_none());
        let elsewhere = checkout.folder.path().join("fumehood.lock");
        std::fs::copy(checkout.path(), &elsewhere).unwrap();
        let copy = Lock::open_for_user(elsewhere, Some(&checkout.folder.path().join("state"))).unwrap();
        assert!(copy.get(&notes()).is_none(), "an approval counts for the lock at one path");
    }

    #[test]
    fn a_lock_that_others_change_proposes_again() {
        let checkout = Checkout::new();
        let other = Namespace::parse("other").unwrap();
        checkout.approve(parts("state = true"));
        checkout.write_as_other(&other, parts("state = true"));
        let lock = checkout.open();
        assert!(lock.get(&notes()).is_some() && lock.get(&other).is_none());
        checkout.write_as_other(&notes(), parts("http = everything"));
        let lock = checkout.open();
        assert!(lock.get(&notes()).is_none() && lock.proposal(&notes()).is_some());
        assert_eq!(lock.proposed_names().len(), 2);
        let standing = ApprovalCheck::compare(parts("http = everything"), &lock.locked(&notes())).standing().clone();
        assert!(
            matches!(standing, ApprovalStatus::Proposed(changes) if changes.len() == 2),
            "compared with this user's"
        );
        checkout.write_as_other(&notes(), parts("state = true"));
        assert!(checkout.open().get(&notes()).is_some(), "what this user approved is approved");
    }

    #[test]
    fn what_was_revoked_stays_revoked_whatever_the_lock_says() {
        let checkout = Checkout::new();
        checkout.approve(parts("state = true"));
        let text = checkout.text();
        let mut lock = checkout.open();
        assert!(lock.revoke(&notes()));
        lock.save().unwrap();
        std::fs::write(checkout.path(), text).unwrap();
        assert!(checkout.open().get(&notes()).is_none());
        checkout.approve(parts("state = true"));
        checkout.approve(parts("http = GET"));
        checkout.write_as_other(&notes(), parts("state = true"));
        assert!(checkout.open().get(&notes()).is_none(), "an earlier approval is replaced");
    }

    #[test]
    fn a_process_that_is_killed_leaves_the_old_approval_or_the_new_one() {
        let checkout = Checkout::new();
        checkout.approve(parts("state = true"));
        let mut lock = checkout.open();
        lock.approve(notes(), parts("http = GET"));
        let Acceptance::User { record, .. } = &mut lock.acceptance else { panic!("it is this user's") };
        let before = parse_if_there(&lock.path, text_of(&lock.path).unwrap().as_deref()).unwrap();
        record.read_again(None, &before).unwrap();
        record.prepare(&lock.path, &before, &lock.unsaved).unwrap();
        assert_eq!(checkout.open().get(&notes()).unwrap().manifest(), &parts("state = true"), "killed before the lock");
        checkout.write_as_other(&notes(), parts("http = GET"));
        assert_eq!(checkout.open().get(&notes()).unwrap().manifest(), &parts("http = GET"), "killed after the lock");
        let mut lock = checkout.open();
        lock.approve(Namespace::parse("other").unwrap(), parts("state = true"));
        lock.save().unwrap();
        assert!(checkout.open().get(&notes()).is_some(), "the next one takes it over");
    }

    #[test]
    fn a_record_that_others_may_write_counts_for_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let checkout = Checkout::new();
        checkout.approve(parts("state = true"));
        let record = Lock::record_path(&checkout.folder.path().join("state"), &checkout.path());
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(checkout.open().get(&notes()).is_none());
        std::fs::remove_file(&record).unwrap();
        std::os::unix::fs::symlink(checkout.path(), &record).unwrap();
        assert!(checkout.open().get(&notes()).is_none());
    }

    #[test]
    fn approvals_without_a_place_to_keep_them_are_errors() {
        let checkout = Checkout::new();
        checkout.write_as_other(&notes(), parts("state = true"));
        let text = checkout.text();
        let mut lock = Lock::open_for_user(checkout.path(), None).unwrap();
        lock.approve(notes(), parts("http = GET"));
        let error = lock.save().unwrap_err().to_string();
        assert!(error.contains("set HOME or XDG_STATE_HOME") && error.contains("`--accept-lock`"), "{error}");
        std::fs::write(checkout.folder.path().join("state"), "").unwrap();
        let mut lock = checkout.open();
        lock.approve(notes(), parts("http = GET"));
        let error = lock.save().unwrap_err().to_string();
        assert!(error.contains("your approvals cannot be saved in ") && error.contains("`--accept-lock`"), "{error}");
        assert_eq!(checkout.text(), text);
        let mut lock = Lock::open_for_user(checkout.path(), None).unwrap();
        assert!(lock.revoke(&notes()));
        lock.save().unwrap();
        assert!(Lock::open(checkout.path()).unwrap().get(&notes()).is_none(), "revoking needs no record");
    }

    #[test]
    fn a_signature_counts_for_one_name_and_pin() {
        let checkout = Checkout::new();
        checkout.approve(parts("state = true"));
        let mut lock = checkout.open();
        let sign = |text: &[u8]| Ok(format!("signed {}", Digest::of(text)));
        let verify = |text: &[u8], signature: &str| signature == format!("signed {}", Digest::of(text));
        lock.sign(sign).unwrap();
        lock.save().unwrap();
        let signed = checkout.text();
        assert!(signed.contains("version = 4\n"), "{signed}");
        let open = || {
            let mut lock = Lock::open_for_user(checkout.path(), None).unwrap();
            lock.accept_signed(verify);
            lock
        };
        assert!(open().get(&notes()).is_some() && open().proposed_names().is_empty());
        std::fs::write(checkout.path(), signed.replace("name = \"notes\"", "name = \"other\"")).unwrap();
        assert!(open().get(&Namespace::parse("other").unwrap()).is_none());
        let signature = signed.lines().find(|line| line.starts_with("signature = ")).unwrap();
        checkout.write_as_other(&notes(), parts("http = everything"));
        let moved = checkout
            .text()
            .replace("version = 3", "version = 4")
            .replace("at = 1\n", &format!("at = 1\n{signature}\n"));
        std::fs::write(checkout.path(), moved).unwrap();
        assert!(open().get(&notes()).is_none(), "the signature of other parts");
    }
}
