//! Selection of a compiler with the standard library for WebAssembly.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::catalogue::Target;
use crate::workspace::Workspace;

/// The environment variable with the compiler to use, which takes precedence.
const RUSTC_VARIABLE: &str = "FUMEHOOD_GUEST_RUSTC";

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
    /// Selects a compiler: the one in the environment; rustup's, if the target is installed; or the one that
    /// `setup-debian-rust.sh` unpacked.
    ///
    /// # Errors
    ///
    /// If none of them can build for `target`.
    pub fn choose(workspace: &Workspace, target: Target) -> Result<Self> {
        let default = PathBuf::from(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        if let Some(named) = env::var_os(RUSTC_VARIABLE) {
            let rustc = PathBuf::from(named);
            ensure!(
                has_target(&rustc, target)?,
                "{RUSTC_VARIABLE} names {}, which has no standard library for {}; name another, or unset it",
                rustc.display(),
                target.triple()
            );
            return Self::new(rustc, &default);
        }
        let unpacked = workspace.root().join(".guest-rust/rustc");
        if has_target(&default, target)? {
            return Self::new(default.clone(), &default);
        }
        if unpacked.is_file() && has_target(&unpacked, target)? {
            return Self::new(unpacked, &default);
        }
        bail!(
            "there is no Rust standard library for {triple}. Install it with `rustup target add {triple}`, or on \
             Debian and Ubuntu without rustup's servers with `example-tools/builder/setup-debian-rust.sh`, or name another \
             compiler in {RUSTC_VARIABLE}",
            triple = target.triple()
        )
    }

    fn new(rustc: PathBuf, default: &Path) -> Result<Self> {
        let version = run_rustc(&rustc, &["--version"])?;
        let sysroot = PathBuf::from(run_rustc(&rustc, &["--print", "sysroot"])?);
        let host = PathBuf::from(run_rustc(default, &["--print", "sysroot"])?);
        let triple = run_rustc(default, &["--print", "host-tuple"])?;
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
    ///
    /// If a folder's name cannot be part of a `PATH`.
    pub fn search_path(&self) -> Result<OsString> {
        let inherited = env::var_os("PATH").unwrap_or_default();
        let folders = self.linkers.iter().cloned().chain(env::split_paths(&inherited));
        env::join_paths(folders).context("a folder's name cannot be part of PATH")
    }
}

/// Returns whether the compiler has the standard library of the target.
fn has_target(rustc: &Path, target: Target) -> Result<bool> {
    let folder = run_rustc(rustc, &["--target", target.triple(), "--print", "target-libdir"])?;
    let Ok(mut entries) = fs::read_dir(folder) else {
        return Ok(false);
    };
    Ok(entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))))
}

fn run_rustc(rustc: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(rustc)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}; is it a Rust compiler?", rustc.display()))?;
    ensure!(
        output.status.success(),
        "`{} {}` failed: {}",
        rustc.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
