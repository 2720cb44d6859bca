//! A cache of compiled code on disk, so that a component is compiled once per installation and not once per process.
//!
//! An entry is two files: the code, and a keyed hash over its name and bytes. The key is made when the cache is first
//! opened and never leaves its folder. An entry that fails verification is compiled again and reported; it is never
//! mapped.
//!
//! The cache has a maximum size. After an entry was stored, the least recently used ones are removed until the rest
//! fits.

mod map;
mod recent;
pub(crate) mod sealed;
mod trim;

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use fumehood_core::digest::Digest;
use fumehood_platform::{files, private};
use wasmtime::Engine;
use wasmtime::component::Component;

pub(crate) use recent::RecentCode;
pub(crate) use sealed::FreshCode;

/// Default maximum size of all compiled code together.
const DEFAULT_CACHE_BYTES: u64 = 1 << 30;
const KEY_FILE: &str = "key";
const KEY_BYTES: usize = 32;
/// Size of the buffer for hashing and writing.
const CHUNK_BYTES: usize = 64 << 10;

/// A folder with compiled code that only this user can read and write.
///
/// ```
/// use fumehood_runtime::{CacheReport, CodeCache, LoadOptions, Sandbox, SandboxConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// # let folder = tempfile::tempdir()?;
/// let cache = CodeCache::open(folder.path().join("code"))?.max_bytes(256 << 20);
/// let sandbox = Sandbox::new(SandboxConfig { cache: Some(cache), ..SandboxConfig::default() })?;
/// let bytes = std::fs::read(path)?;
/// let first = sandbox.load(bytes.clone(), LoadOptions::default()).await?;
/// assert_eq!(first.report().cache, CacheReport::Stored);
/// // Nothing is compiled any more, in this process and in later ones.
/// let second = sandbox.load(bytes, LoadOptions::default()).await?;
/// assert_eq!(second.report().cache, CacheReport::Hit);
/// # sandbox.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CodeCache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
    max_bytes: u64,
}

/// An error when opening a cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The folder or its key cannot be read or created.
    #[error("cannot open the code cache at {path}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The folder or its key belongs to another user, is open to others, or is a link to elsewhere.
    #[error(
        "{path} is a link, belongs to another user, or other users can access it; make it private (`chmod -R \
         go-rwx`), or use another folder for the code cache"
    )]
    NotPrivate {
        /// The file or folder.
        path: PathBuf,
    },
    /// The key does not have the right length.
    #[error("{path} is not a key of {KEY_BYTES} bytes; remove the folder of the code cache, which is recreated")]
    Key {
        /// The file of the key.
        path: PathBuf,
    },
    /// The system provides no randomness for a new key.
    #[error("the system returned no random bytes for the key of the code cache")]
    Random(#[source] getrandom::Error),
}

/// The result of looking up one component in the code cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheReport {
    /// No cache is configured, and the component was compiled.
    Off,
    /// The compiled code was found: on disk, or among that of components which this host loaded lately.
    Hit,
    /// The compiled code was not found, and was stored.
    Stored,
    /// The compiled code was not found, and cannot be stored, with the reason.
    NotStored(String),
    /// The entry failed verification, with the reason, and the component was compiled again.
    Damaged(String),
}

/// An open file of compiled code that may be mapped. Its keyed hash, owner and mode were verified, or it was made from
/// [`FreshCode`], or the host of this worker process sent it after one of these two held there.
pub(crate) struct AuthenticCode(File);

impl AuthenticCode {
    /// Wraps the code that the host of this worker process sent with the component.
    pub(crate) fn from_host(file: File) -> Self {
        Self(file)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

/// The result of [`CodeCache::find`].
pub(crate) enum CodeLookup {
    Code(AuthenticCode),
    Missing,
    Damaged(String),
}

/// The result of [`CodeCache::load`].
pub(crate) enum ComponentLookup {
    Hit(Component),
    Missing,
    Damaged(String),
}

impl std::fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeCache").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl CodeCache {
    /// Opens the cache in `folder`, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or if other users can access it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, CacheError> {
        let folder = folder.into();
        let io = |source| CacheError::Io { path: folder.clone(), source };
        private::create_folders(&folder).map_err(io)?;
        let metadata = std::fs::symlink_metadata(&folder).map_err(io)?;
        if !metadata.is_dir() || !is_private(&metadata) {
            return Err(CacheError::NotPrivate { path: folder });
        }
        let key = read_or_create_key(&folder)?;
        Ok(Self { folder, key, max_bytes: DEFAULT_CACHE_BYTES })
    }

    /// Sets the maximum size of all compiled code together, in bytes; by default 1 GiB. After an entry was stored,
    /// those that were not used for longest are removed until the rest fits. The entry that was just stored always
    /// stays.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Returns the folder of the cache.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks up and maps the compiled code of a component for this engine.
    pub(crate) fn load(&self, engine: &Engine, digest: &Digest) -> ComponentLookup {
        match self.find(engine, digest) {
            CodeLookup::Code(authentic) => match map::map(engine, &authentic) {
                Ok(component) => ComponentLookup::Hit(component),
                Err(error) => ComponentLookup::Damaged(error.to_string()),
            },
            CodeLookup::Missing => ComponentLookup::Missing,
            CodeLookup::Damaged(reason) => ComponentLookup::Damaged(reason),
        }
    }

    /// Like [`Self::load`], without mapping the code, for another process.
    pub(crate) fn find(&self, engine: &Engine, digest: &Digest) -> CodeLookup {
        let name = entry_name(engine, digest);
        let path = self.path(&name, trim::CODE_EXTENSION);
        let file = match open_private(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return CodeLookup::Missing,
            Err(error) => return CodeLookup::Damaged(error.to_string()),
        };
        match self.authenticate(file, &name) {
            Ok(authentic) => {
                trim::touch(&authentic.0);
                CodeLookup::Code(authentic)
            }
            // Another process has just removed it to trim the cache.
            Err(_) if !path.exists() => CodeLookup::Missing,
            Err(reason) => CodeLookup::Damaged(reason),
        }
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{name}.{extension}"))
    }

    /// Stores compiled code, through a small buffer. Each of the two files is replaced atomically; a process that reads
    /// between the two replacements finds that they do not match, and compiles.
    pub(crate) fn store(&self, engine: &Engine, digest: &Digest, mut code: impl Read) -> std::io::Result<()> {
        let name = entry_name(engine, digest);
        let mut hasher = self.hasher(&name);
        let mut file = self.new_file()?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = code.read(&mut chunk)?;
            let Some(piece) = chunk.get(..read).filter(|piece| !piece.is_empty()) else { break };
            hasher.update(piece);
            file.write_all(piece)?;
        }
        let mut mac = self.new_file()?;
        mac.write_all(hasher.finalize().as_bytes())?;
        let code = self.path(&name, trim::CODE_EXTENSION);
        mac.persist(self.path(&name, trim::MAC_EXTENSION)).map_err(|error| error.error)?;
        file.persist(&code).map_err(|error| error.error)?;
        trim::trim(&self.folder, self.max_bytes, &code);
        Ok(())
    }

    /// Like [`Self::store`], for code that was just compiled.
    pub(crate) fn store_fresh(&self, engine: &Engine, digest: &Digest, code: &FreshCode) -> std::io::Result<()> {
        let mut file = code.file();
        file.rewind()?;
        self.store(engine, digest, file)
    }

    fn authenticate(&self, mut file: File, name: &str) -> Result<AuthenticCode, String> {
        let mut hasher = self.hasher(name);
        hasher.update_reader(&mut file).map_err(|error| error.to_string())?;
        let mut expected = [0; blake3::OUT_LEN];
        open_private(&self.path(name, trim::MAC_EXTENSION))
            .and_then(|mut mac| mac.read_exact(&mut expected))
            .map_err(|error| format!("cannot read its keyed hash: {error}"))?;
        // `Hash` compares in constant time.
        if hasher.finalize() != expected {
            return Err("its keyed hash was not written by this installation".to_owned());
        }
        Ok(AuthenticCode(file))
    }

    fn hasher(&self, name: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(name.as_bytes());
        hasher
    }

    fn new_file(&self) -> std::io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new().prefix(trim::TEMPORARY_PREFIX).tempfile_in(&self.folder)
    }
}

/// Maps code that was just compiled, without a cache.
pub(crate) fn map_fresh(engine: &Engine, code: &FreshCode) -> wasmtime::Result<Component> {
    map::map(engine, &AuthenticCode(code.file().try_clone()?))
}

/// Maps code that the host of this worker process sent.
pub(crate) fn map_from_host(engine: &Engine, code: &AuthenticCode) -> wasmtime::Result<Component> {
    map::map(engine, code)
}

/// Returns the name of an entry: the digest of the component, and a hash of everything about the engine that compiled
/// code depends on, such as its version and settings.
fn entry_name(engine: &Engine, digest: &Digest) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{}-{:016x}", digest.hex(), hasher.finish())
}

fn read_or_create_key(folder: &Path) -> Result<[u8; KEY_BYTES], CacheError> {
    let path = folder.join(KEY_FILE);
    let io = |source| CacheError::Io { path: path.clone(), source };
    let file = match open_private(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut key = [0; KEY_BYTES];
            getrandom::fill(&mut key).map_err(CacheError::Random)?;
            let mut new = tempfile::Builder::new().prefix(trim::TEMPORARY_PREFIX).tempfile_in(folder).map_err(io)?;
            new.write_all(&key).map_err(io)?;
            // If another process was faster, its key is used.
            match new.persist_noclobber(&path) {
                Ok(_) => return Ok(key),
                Err(_lost) => open_private(&path).map_err(io)?,
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(CacheError::NotPrivate { path });
        }
        opened => opened.map_err(io)?,
    };
    let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    bytes.try_into().map_err(|_| CacheError::Key { path })
}

/// Opens a regular file that belongs to this user and that other users cannot access. Links are not followed.
fn open_private(path: &Path) -> std::io::Result<File> {
    let file = files::open_without_following(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || !is_private(&metadata) {
        let why = "it is not a regular file, belongs to another user, or other users can access it";
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

fn is_private(metadata: &std::fs::Metadata) -> bool {
    private::is_own(metadata) && !private::is_open_to_others(metadata)
}
