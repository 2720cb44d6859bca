//! The interpreter of code mode: QuickJS, compiled from C by Zig, and pre-initialized.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use fumehood_author::build::{CargoBuild, Labels, RustTarget, Toolchain, encode, finish};

use crate::compile::{choose_toolchain, target_folder};
use crate::preinitialize::preinitialize;
use crate::sources::digest_of;
use crate::workspace::Workspace;

/// The name of the interpreter's component.
pub const INTERPRETER: &str = "javascript";
/// The folder of its sources.
const FOLDER: &str = "interpreters/javascript";
/// Everything that it is built from, relative to the root of the checkout.
const SOURCES: &[&str] = &[
    "interpreters/javascript/Cargo.toml",
    "interpreters/javascript/Cargo.lock",
    "interpreters/javascript/src",
    "wit/code",
    "example-tools/builder/zig-cc",
    "example-tools/builder/zig-ar",
    "example-tools/builder/setup-zig.sh",
    "example-tools/builder/src/interpreter.rs",
    "example-tools/builder/src/preinitialize.rs",
];
/// The environment variable with the program of Zig to use, the same as for projects in C.
const ZIG_VARIABLE: &str = "FUMEHOOD_ZIG";

/// The compilers of the interpreter.
#[derive(Clone, Debug)]
pub struct InterpreterToolchain {
    rust: Toolchain,
    zig: PathBuf,
    zig_version: String,
}

impl InterpreterToolchain {
    /// Selects a Rust compiler as for the example tools, and Zig: the program in the environment, or the one that
    /// `setup-zig.sh` unpacked.
    ///
    /// # Errors
    ///
    /// If one of them is missing.
    pub fn choose(workspace: &Workspace) -> Result<Self> {
        let rust = choose_toolchain(workspace, RustTarget::Pure)?;
        let unpacked = workspace.root().join(".guest-zig/ziglang/zig");
        let zig = env::var_os(ZIG_VARIABLE).filter(|named| !named.is_empty()).map_or(unpacked, PathBuf::from);
        let output = Command::new(&zig).arg("version").output().with_context(|| {
            format!(
                "cannot start {}; `example-tools/builder/setup-zig.sh` unpacks it, or {ZIG_VARIABLE} names another one",
                zig.display()
            )
        })?;
        if !output.status.success() {
            bail!("{} version failed: {}", zig.display(), String::from_utf8_lossy(&output.stderr).trim());
        }
        let zig_version = format!("zig {}", String::from_utf8_lossy(&output.stdout).trim());
        Ok(Self { rust, zig, zig_version })
    }

    /// Returns the versions of the compilers.
    #[must_use]
    pub fn version(&self) -> String {
        format!("{}, {}", self.rust.version(), self.zig_version)
    }
}

/// Computes the SHA-256 digest of the interpreter's sources, in hexadecimal. Those of QuickJS are in its lock file.
///
/// # Errors
///
/// If a file cannot be read.
pub fn interpreter_digest(workspace: &Workspace) -> Result<String> {
    digest_of(workspace, SOURCES)
}

/// Builds the interpreter. Cargo reports its progress on stderr.
///
/// # Errors
///
/// If it does not compile, its initialization fails, or the result is not a valid component.
pub fn build_interpreter(workspace: &Workspace, toolchain: &InterpreterToolchain) -> Result<Vec<u8>> {
    let root = workspace.root();
    let builder = workspace.root().join("example-tools/builder");
    let build = CargoBuild {
        folder: &root.join(FOLDER),
        package: None,
        profile: "guest",
        target: RustTarget::Pure,
        target_folder: &target_folder(workspace),
        locked: true,
        renamed: &[(root.to_owned(), "/fumehood".to_owned())],
        renamed_crate: None,
        environment: &[
            ("CC_wasm32_unknown_unknown", builder.join("zig-cc").into_os_string()),
            ("AR_wasm32_unknown_unknown", builder.join("zig-ar").into_os_string()),
            (ZIG_VARIABLE, toolchain.zig.clone().into_os_string()),
        ],
    };
    let module = build.run_compiler(&toolchain.rust).context("cannot build the interpreter")?;
    let initialized = preinitialize(&module).context("cannot pre-initialize the interpreter")?;
    let component = encode(&initialized).context("cannot encode the interpreter")?;
    let labels = Labels { name: INTERPRETER.to_owned(), ..Labels::default() };
    finish(component, &labels, None, None).context("cannot finish the interpreter")
}
