//! Keys of publishers: their places on this machine, and the passphrases that open them.

use std::fmt::Display;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use etcetera::BaseStrategy as _;
use fumehood_platform::private;
use fumehood_registry::signature::{KeyError, MAX_KEY_BYTES, Passphrase, PublicKey, SigningKey};

use crate::args::PassphraseArguments;
use crate::exit::KeyFileError;
use crate::question;
use crate::render;

/// The variable with the passphrase, for automation.
const PASSPHRASE_VARIABLE: &str = "FUMEHOOD_KEY_PASSPHRASE";
/// Maximum size of a file with a passphrase, in bytes.
const MAX_PASSPHRASE_BYTES: u64 = 4096;
/// Maximum length of a key's name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Number of times that a passphrase is asked for.
const ATTEMPTS: u32 = 3;
/// The extension of private keys in the user's folder.
const PRIVATE: &str = "pem";
/// The extension of their public halves.
const PUBLIC: &str = "pub";

/// The files of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyFiles {
    /// The name, or the path, by which the key is known.
    pub(crate) name: String,
    /// The encrypted private key.
    pub(crate) private: PathBuf,
    /// The public key beside it.
    pub(crate) public: PathBuf,
}

impl KeyFiles {
    /// Finds the files of a key by its name among the user's, or by its path, which has a `/` in it or ends with `.pem`.
    pub(crate) fn find(key: &str) -> Result<Self, KeyFileError> {
        let is_path = key.contains(std::path::MAIN_SEPARATOR) || key.ends_with(".pem") || key.ends_with(".key");
        if is_path { Self::at(Path::new(key)) } else { Self::named(key) }
    }

    /// Returns the files of a key of this name among the user's.
    pub(crate) fn named(name: &str) -> Result<Self, KeyFileError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.starts_with('-') || !name.chars().all(is_plain) {
            return Err(KeyFileError::Name(name.to_owned()));
        }
        let folder = folder().ok_or(KeyFileError::NoFolder)?;
        let private = folder.join(name).with_extension(PRIVATE);
        Ok(Self { name: name.to_owned(), public: private.with_extension(PUBLIC), private })
    }

    /// Returns the files of a key at this path.
    pub(crate) fn at(path: &Path) -> Result<Self, KeyFileError> {
        let name = path.display().to_string();
        let public = path.with_extension(PUBLIC);
        if public == path {
            return Err(KeyFileError::PublicName(name));
        }
        Ok(Self { name, private: path.to_owned(), public })
    }

    /// Lists the user's keys.
    pub(crate) fn list() -> Result<Vec<Self>> {
        let folder = folder().ok_or(KeyFileError::NoFolder)?;
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut keys = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str());
            if let (Some(name), Some(PRIVATE)) = (name, path.extension().and_then(|extension| extension.to_str())) {
                keys.extend(Self::named(name).ok());
            }
        }
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(keys)
    }

    /// Writes a new key, encrypted, and its public half.
    ///
    /// # Errors
    /// If one of the files exists, or cannot be written.
    pub(crate) fn write(&self, key: &SigningKey, passphrase: &Passphrase) -> Result<()> {
        self.check_absent()?;
        if let Some(folder) = self.private.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_folders(folder).map_err(|source| write_error(folder, source))?;
        }
        key.write(&self.private, passphrase)?;
        let created = fs::OpenOptions::new().write(true).create_new(true).open(&self.public);
        let written = created.and_then(|mut file| {
            file.write_all(key.public().to_pem().as_bytes())?;
            file.sync_all()
        });
        Ok(written.map_err(|source| write_error(&self.public, source))?)
    }

    /// Refuses files that exist, before anybody is asked for a passphrase.
    pub(crate) fn check_absent(&self) -> Result<(), KeyFileError> {
        let existing = [&self.private, &self.public].into_iter().find(|path| path.symlink_metadata().is_ok());
        existing.map_or(Ok(()), |path| Err(KeyFileError::Exists(path.display().to_string())))
    }

    /// Opens the private key.
    ///
    /// # Errors
    /// If there is none, or the passphrase is missing or wrong.
    pub(crate) fn open(&self, passphrase: &PassphraseArguments) -> Result<SigningKey> {
        if self.private.symlink_metadata().is_err() && !self.name.contains(['/', '.']) {
            let folder = self.private.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
            return Err(KeyFileError::Missing { name: self.name.clone(), folder }.into());
        }
        Ok(open_key(&self.private, &format!("the key `{}`", self.name), passphrase)?.0)
    }

    /// Reads the public key: that beside the private one, or, if there is none, that in it.
    ///
    /// # Errors
    /// If neither can be read.
    pub(crate) fn public_key(&self, passphrase: &PassphraseArguments) -> Result<PublicKey> {
        match self.stored_public_key()? {
            Some(key) => Ok(key),
            None => Ok(self.open(passphrase)?.public().clone()),
        }
    }

    /// Reads the public key beside the private one; `None` if there is none.
    pub(crate) fn stored_public_key(&self) -> Result<Option<PublicKey>, KeyError> {
        let io = |source| KeyError::Io { path: self.public.clone(), source };
        let file = match fs::File::open(&self.public) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io)?,
        };
        let mut text = String::new();
        file.take(MAX_KEY_BYTES as u64 + 1).read_to_string(&mut text).map_err(io)?;
        text.parse().map(Some)
    }
}

/// Opens a private key in a file. Returns the passphrase too, unless it is not encrypted.
///
/// # Errors
/// If it cannot be read, or the passphrase is missing or wrong.
pub(crate) fn open_key(
    path: &Path,
    what: &str,
    passphrase: &PassphraseArguments,
) -> Result<(SigningKey, Option<Passphrase>)> {
    match SigningKey::read(path, None) {
        Err(KeyError::Encrypted) => {}
        read => return Ok((read?, None)),
    }
    if let Some(given) = given_passphrase(passphrase)? {
        return Ok((SigningKey::read(path, Some(&given))?, Some(given)));
    }
    for attempt in 1.. {
        let typed = ask(what, &format!("passphrase of {what}: "))?;
        match SigningKey::read(path, Some(&typed)) {
            Err(KeyError::Passphrase) if attempt < ATTEMPTS => render::note("wrong passphrase; try again"),
            read => return Ok((read?, Some(typed))),
        }
    }
    Err(KeyFileError::GivenUp.into())
}

/// Returns the passphrase for a new key. A person types it twice.
///
/// # Errors
/// If there is none, it is too short, or the two differ.
pub(crate) fn new_passphrase(what: &str, arguments: &PassphraseArguments) -> Result<Passphrase> {
    if let Some(given) = given_passphrase(arguments)? {
        given.check_new()?;
        return Ok(given);
    }
    let typed = ask(what, &format!("new passphrase for {what}: "))?;
    typed.check_new()?;
    if ask(what, "repeat the passphrase: ")? == typed { Ok(typed) } else { Err(KeyFileError::Different.into()) }
}

fn ask(what: &str, prompt: &str) -> Result<Passphrase> {
    if !question::can_ask() {
        return Err(KeyFileError::NoPassphrase(what.to_owned()).into());
    }
    let typed = question::ask_hidden(prompt)?.ok_or(KeyFileError::GivenUp)?;
    Ok(Passphrase::new(typed.to_string()))
}

fn passphrase_error(path: &Path, reason: &dyn Display) -> KeyFileError {
    KeyFileError::PassphraseFile { file: path.display().to_string(), reason: reason.to_string() }
}

/// Returns the passphrase of the file that was named, or of the variable.
fn given_passphrase(arguments: &PassphraseArguments) -> Result<Option<Passphrase>> {
    let Some(path) = &arguments.passphrase_file else {
        let variable = std::env::var(PASSPHRASE_VARIABLE).ok().filter(|value| !value.is_empty());
        return Ok(variable.map(Passphrase::new));
    };
    let failed = |reason: &dyn Display| passphrase_error(path, reason);
    let file = fs::File::open(path).map_err(|error| failed(&error))?;
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if metadata.is_file() && private::is_open_to_others(&metadata) {
        return Err(failed(&"other users can read it; make it private (`chmod 600`)").into());
    }
    let mut text = String::new();
    file.take(MAX_PASSPHRASE_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    match text.len() as u64 {
        0 => Err(failed(&"it is empty").into()),
        size if size > MAX_PASSPHRASE_BYTES => Err(failed(&"it is too long for a passphrase").into()),
        _ => Ok(Some(Passphrase::new(text))),
    }
}

/// Reads a public key that is trusted: a file in PEM, or one of the user's keys.
///
/// # Errors
/// If there is none.
pub(crate) fn read_public_key(key: &str) -> Result<PublicKey> {
    let is_path = key.contains([std::path::MAIN_SEPARATOR, '.']);
    let files = if is_path {
        KeyFiles { name: key.to_owned(), private: key.into(), public: key.into() }
    } else {
        KeyFiles::named(key)?
    };
    Ok(files.stored_public_key()?.ok_or_else(|| KeyFileError::NoPublic(key.to_owned()))?)
}

/// Returns the folder of the user's keys. No tool is ever granted it.
pub(crate) fn folder() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.data_dir().join("fumehood").join("keys"))
}

fn write_error(path: &Path, source: std::io::Error) -> KeyFileError {
    KeyFileError::Write { file: path.display().to_string(), source }
}
