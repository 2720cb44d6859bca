//! Toolchains: running the tools of languages, and selection of a Rust compiler with the standard library for WebAssembly.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::BuildError;

/// The environment variable with the compiler to use, which takes precedence.
pub const RUSTC_VARIABLE: &str = "FUMEHOOD_GUEST_RUSTC";

/// Exit code of a program of this crate after an error in the sources of a project.
const SOURCE_ERROR: i32 = 3;
/// Maximum length of the output of a failed tool that an error quotes, in bytes.
const MAX_QUOTE_BYTES: usize = 4000;

/// The compilation target of a component in Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RustTarget {
    /// No system interface: the component imports only the interfaces of its WIT.
    Pure,
    /// WASI 0.2: the component also imports the interfaces that the language's runtime uses.
    Wasi,
}

impl RustTarget {
    /// Returns the target triple.
    #[must_use]
    pub const fn triple(self) -> &'static str {
        match self {
            Self::Pure => "wasm32-unknown-unknown",
            Self::Wasi => "wasm32-wasip2",
        }
    }

    /// Returns the target with this triple.
    #[must_use]
    pub fn from_triple(triple: &str) -> Option<Self> {
        [Self::Pure, Self::Wasi].into_iter().find(|target| target.triple() == triple)
    }
}

/// A compiler that can build for one target.
#[derive(Clone, Debug)]
pub struct Toolchain {
    rustc: PathBuf,
    version: String,
    sysroot: PathBuf,
    /// The folders of the linkers of rustup's toolchain. Another compiler may not include any.
    linkers: Vec<PathBuf>,
}

impl Toolchain {
    /// Selects a compiler for the crate in `folder`: the one in the environment; that of the crate, if it can build for
    /// the target; or the first of `others` that can.
    ///
    /// # Errors
    /// If none of them can build for `target`.
    pub fn choose(target: RustTarget, folder: &Path, others: &[PathBuf]) -> Result<Self, BuildError> {
        let default = PathBuf::from(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let triple = target.triple();
        if let Some(named) = env::var_os(RUSTC_VARIABLE).filter(|named| !named.is_empty()) {
            let rustc = PathBuf::from(named);
            if has_target(&rustc, folder, target)? {
                return Self::new(rustc, &default, folder);
            }
            return Err(BuildError::MissingTool {
                what: format!(
                    "{RUSTC_VARIABLE} is set to {}, which has no standard library for {triple}",
                    rustc.display()
                ),
                remedy: "change or unset it".to_owned(),
            });
        }
        if has_target(&default, folder, target)? {
            return Self::new(default.clone(), &default, folder);
        }
        for other in others.iter().filter(|other| other.is_file()) {
            if has_target(other, folder, target)? {
                return Self::new(other.clone(), &default, folder);
            }
        }
        Err(BuildError::MissingTool {
            what: format!("there is no Rust standard library for {triple}"),
            remedy: format!(
                "install it with `rustup target add {triple}`, or name a compiler that has it in {RUSTC_VARIABLE}"
            ),
        })
    }

    fn new(rustc: PathBuf, default: &Path, folder: &Path) -> Result<Self, BuildError> {
        let version = run_rustc(&rustc, folder, &["--version"])?;
        let sysroot = PathBuf::from(run_rustc(&rustc, folder, &["--print", "sysroot"])?);
        let host = PathBuf::from(run_rustc(default, folder, &["--print", "sysroot"])?);
        let triple = run_rustc(default, folder, &["--print", "host-tuple"])?;
        let linkers = host.join("lib/rustlib").join(triple).join("bin");
        Ok(Self { rustc, version, sysroot, linkers: vec![linkers.clone(), linkers.join("gcc-ld")] })
    }

    /// Returns the path of the compiler.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// Returns the version of the compiler: `rustc 1.95.0 (…)`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the folder with the compiler's libraries.
    #[must_use]
    pub fn sysroot(&self) -> &Path {
        &self.sysroot
    }

    /// Returns the environment's `PATH`, with the linkers first.
    ///
    /// # Errors
    /// If the folder of the linkers cannot be part of it.
    pub fn search_path(&self) -> Result<OsString, BuildError> {
        let inherited = env::var_os("PATH").unwrap_or_default();
        let folders = self.linkers.iter().cloned().chain(env::split_paths(&inherited));
        env::join_paths(folders).map_err(|error| BuildError::Failed {
            program: "rustc".to_owned(),
            reason: format!(": cannot add the folder of its linkers to PATH: {error}"),
        })
    }
}

/// Returns whether the compiler has the standard library of the target.
fn has_target(rustc: &Path, folder: &Path, target: RustTarget) -> Result<bool, BuildError> {
    let library = run_rustc(rustc, folder, &["--target", target.triple(), "--print", "target-libdir"])?;
    let Ok(mut entries) = fs::read_dir(library) else {
        return Ok(false);
    };
    Ok(entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))))
}

/// Runs the compiler in the folder of the crate, because a file there may choose its version.
fn run_rustc(rustc: &Path, folder: &Path, arguments: &[&str]) -> Result<String, BuildError> {
    let what = format!("{} {}", rustc.display(), arguments.join(" "));
    let output = capture(Command::new(rustc).args(arguments).current_dir(folder), &what);
    let output = output.map_err(|error| match error {
        BuildError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => missing(rustc),
        error => error,
    })?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

fn missing(rustc: &Path) -> BuildError {
    BuildError::MissingTool {
        what: format!("there is no Rust compiler {}", rustc.display()),
        remedy: "install Rust with rustup, from https://rustup.rs".to_owned(),
    }
}

/// Finds a program: the one that a variable names, one in a folder of the project, or one of the search path.
pub(super) fn find_program(variable: &str, folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    if let Some(named) = env::var_os(variable).filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    search_program(folders, name)
}

/// Finds a program in these folders, or in those of the search path.
pub(super) fn search_program(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let search = folders.iter().cloned().chain(env::split_paths(&path));
    search.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a tool whose output is for people, and sends all of it to stderr, because stdout belongs to this command.
pub(super) fn run(command: &mut Command, what: &str) -> Result<(), BuildError> {
    let program = name_of(command);
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.map_err(|source| BuildError::Start { program, source })?;
    if status.success() {
        return Ok(());
    }
    Err(BuildError::Failed { program: what.to_owned(), reason: "; see its messages above".to_owned() })
}

/// Runs a tool and returns its standard output. Its messages appear in the error if it fails.
pub(super) fn capture(command: &mut Command, what: &str) -> Result<Vec<u8>, BuildError> {
    capture_all(command, what).map(|(stdout, _)| stdout)
}

/// Runs a tool and returns what it wrote. Its messages appear in the error if it fails.
pub(super) fn capture_messages(command: &mut Command, what: &str) -> Result<String, BuildError> {
    let (stdout, stderr) = capture_all(command, what)?;
    Ok(String::from_utf8_lossy(&[stdout, stderr].concat()).trim().to_owned())
}

/// Runs a program of this crate, which writes an error of the sources to its standard output, and ends with
/// [`SOURCE_ERROR`]. Returns its messages.
pub(super) fn capture_source_errors(command: &mut Command, what: &str) -> Result<String, BuildError> {
    let output = run_silently(command)?;
    if output.status.code() == Some(SOURCE_ERROR) {
        return Err(BuildError::Syntax(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()));
    }
    let (stdout, stderr) = check(output, what)?;
    Ok(String::from_utf8_lossy(&[stdout, stderr].concat()).trim().to_owned())
}

fn capture_all(command: &mut Command, what: &str) -> Result<(Vec<u8>, Vec<u8>), BuildError> {
    check(run_silently(command)?, what)
}

fn run_silently(command: &mut Command) -> Result<Output, BuildError> {
    let program = name_of(command);
    command.stdin(Stdio::null()).output().map_err(|source| BuildError::Start { program, source })
}

/// Returns what a tool wrote, or the error with its messages if it failed.
fn check(output: Output, what: &str) -> Result<(Vec<u8>, Vec<u8>), BuildError> {
    let Output { status, stdout, stderr } = output;
    if status.success() {
        return Ok((stdout, stderr));
    }
    let text = String::from_utf8_lossy(&stderr);
    let text = text.trim();
    let start = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= MAX_QUOTE_BYTES).unwrap_or_default();
    let quoted = text.get(start..).unwrap_or_default();
    Err(BuildError::Failed { program: what.to_owned(), reason: format!(": {quoted}") })
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("a program")).to_string_lossy().into_owned()
}
