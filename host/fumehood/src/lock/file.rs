//! The text of a lock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{Approval, ApprovalNote, Entry, Manifest, PinError};
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::name::Namespace;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::error::LockError;

/// The latest version of the format, that of a lock with signatures. Earlier ones are read, too.
const VERSION: u32 = 4;
/// The version of a lock without signatures, which earlier programs read.
const UNSIGNED_VERSION: u32 = 3;
/// Maximum size of a lock, in bytes. The definitions of a component have a few megabytes at most.
pub(super) const MAX_BYTES: u64 = 64 << 20;
const HEAD: &str = "\
# What was approved, written by `fumehood approve`: not to be edited by hand.
# Every entry is held against its pin, and an entry that does not fit it is refused.
";

/// The content of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Approved {
    pub(super) approvals: BTreeMap<Namespace, Approval>,
    pub(super) entries: BTreeMap<Namespace, Entry>,
    /// Signatures of entries, by their names and pins.
    pub(super) signatures: BTreeMap<(Namespace, Digest), String>,
}

/// One change of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Approve(Namespace, Box<Approval>),
    ApproveEntry(Namespace, Entry),
    Sign(Namespace, Digest, String),
    Revoke(Namespace),
}

impl Approved {
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Approve(name, approval) => drop(self.approvals.insert(name, *approval)),
            Change::ApproveEntry(name, entry) => drop(self.entries.insert(name, entry)),
            Change::Sign(name, pin, signature) => drop(self.signatures.insert((name, pin), signature)),
            Change::Revoke(name) => {
                self.approvals.remove(&name);
                self.entries.remove(&name);
            }
        }
        let Self { approvals, entries, signatures } = self;
        signatures.retain(|(name, pin), _| has_pin(approvals, entries, name, *pin));
    }

    /// Returns whether an entry of this name has this pin.
    pub(super) fn has(&self, name: &Namespace, pin: Digest) -> bool {
        has_pin(&self.approvals, &self.entries, name, pin)
    }

    /// Lists the names and pins of all entries.
    pub(super) fn pins(&self) -> impl Iterator<Item = (&Namespace, Digest)> {
        let approvals = self.approvals.iter().map(|(name, approval)| (name, approval.pin()));
        approvals.chain(self.entries.iter().map(|(name, entry)| (name, entry.pin())))
    }
}

fn has_pin(
    approvals: &BTreeMap<Namespace, Approval>,
    entries: &BTreeMap<Namespace, Entry>,
    name: &Namespace,
    pin: Digest,
) -> bool {
    approvals.get(name).is_some_and(|approval| approval.pin() == pin)
        || entries.get(name).is_some_and(|entry| entry.pin() == pin)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<N> {
    version: u32,
    #[serde(default = "Vec::new", rename = "approved")]
    approvals: Vec<WrittenApproval<N>>,
    #[serde(default = "Vec::new", rename = "servers", skip_serializing_if = "Vec::is_empty")]
    entries: Vec<WrittenEntry<N>>,
}

/// The approved way to start or reach a server.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry<N> {
    name: N,
    pin: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    lines: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenApproval<N> {
    /// The name as text, with its position if it is read from a file.
    name: N,
    pin: Digest,
    /// Its approver and the time in milliseconds since 1970, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<PrintableText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    /// The signature of a team's key over the name and the pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    parts: Manifest,
}

/// The version alone, to distinguish a later format from a damaged file.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Returns the text of a lock with these approvals.
pub(super) fn to_text(approved: &Approved) -> Result<String, toml::ser::Error> {
    let signature = |name: &Namespace, pin| approved.signatures.get(&(name.clone(), pin)).cloned();
    let approval = |(name, approval): (&Namespace, &Approval)| WrittenApproval {
        name: name.to_string(),
        pin: approval.pin(),
        by: approval.note().and_then(|note| note.by.clone()),
        at: approval.note().map(|note| note.at),
        signature: signature(name, approval.pin()),
        parts: approval.manifest().clone(),
    };
    let entry = |(name, entry): (&Namespace, &Entry)| WrittenEntry {
        name: name.to_string(),
        pin: entry.pin(),
        signature: signature(name, entry.pin()),
        lines: entry.lines().to_vec(),
    };
    let written = Written {
        version: if approved.signatures.is_empty() { UNSIGNED_VERSION } else { VERSION },
        approvals: approved.approvals.iter().map(approval).collect(),
        entries: approved.entries.iter().map(entry).collect(),
    };
    Ok(format!("{HEAD}{}", toml::to_string(&written)?))
}

/// Parses the text of a lock. A missing file is a lock without approvals.
pub(super) fn parse_if_there(path: &Path, text: Option<&str>) -> Result<Approved, LockError> {
    text.map_or_else(|| Ok(Approved::default()), |text| parse(path, text))
}

/// Reads the text of a lock; `None` if the file is missing.
pub(super) fn text_of(path: &Path) -> Result<Option<String>, LockError> {
    let io = |source| LockError::Read { path: path.to_owned(), source };
    let refused = || LockError::NotALock(path.to_owned());
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(io)?,
    };
    if !metadata.is_file() {
        return Err(refused());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused());
    }
    let not_text = |_| LockError::Damaged { path: path.to_owned(), message: "it is not UTF-8 text".to_owned() };
    String::from_utf8(bytes).map(Some).map_err(not_text)
}

fn parse(path: &Path, text: &str) -> Result<Approved, LockError> {
    let damaged = |error: toml::de::Error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        let message: String = error.message().replace('\n', " ").chars().take(200).collect();
        LockError::Damaged { path: path.to_owned(), message: format!("line {line}: {message}") }
    };
    let found = toml::from_str::<Versioned>(text).map_err(damaged)?.version;
    if found == 0 || found > VERSION {
        return Err(LockError::Version { path: path.to_owned(), found, known: VERSION });
    }
    let Written { approvals, entries, .. } = toml::from_str::<Written<Spanned<String>>>(text).map_err(damaged)?;
    let mut approved = Approved::default();
    for WrittenApproval { name, pin, by, at, signature, parts } in approvals {
        let note = at.map(|at| ApprovalNote { by, at });
        let approval = Approval::from_parts(pin, parts).map(|approval| approval.with_note(note));
        let name = add(&mut approved.approvals, (path, text), &name, approval)?;
        approved.signatures.extend(signature.map(|signature| ((name, pin), signature)));
    }
    for WrittenEntry { name, pin, signature, lines } in entries {
        let name = add(&mut approved.entries, (path, text), &name, Entry::from_parts(pin, lines))?;
        approved.signatures.extend(signature.map(|signature| ((name, pin), signature)));
    }
    Ok(approved)
}

/// Adds an entry of a lock, after a check of its name and its pin. Returns the name.
fn add<T>(
    to: &mut BTreeMap<Namespace, T>,
    (path, text): (&Path, &str),
    name: &Spanned<String>,
    found: Result<T, PinError>,
) -> Result<Namespace, LockError> {
    let path = path.to_owned();
    let line = line_of(text, name.span().start);
    let name = match Namespace::parse(name.get_ref()) {
        Ok(name) => name,
        Err(source) => return Err(LockError::Name { path, line, source }),
    };
    let edited = |source| LockError::Edited { path: path.clone(), line, name: name.clone(), source };
    if to.insert(name.clone(), found.map_err(edited)?).is_some() {
        return Err(LockError::Twice { path, line, name });
    }
    Ok(name)
}

/// Returns the line of the byte at `offset`, from 1 on.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or_default().matches('\n').count() + 1
}
