//! Components in Rust: cargo, and the encoding of its module.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use wit_component::ComponentEncoder;

use super::sbom::{CargoMetadata, CargoPackage};
use super::target_folder::TargetFolder;
use super::{BuildError, CompilerOutput, Dependencies, Labels, RustTarget, Toolchain, Workspace, digest, toolchain};
use crate::project::{About, Project};
use fumehood_platform::files;

/// Size of the heap that a component begins with, in bytes. A call that needs no more never grows its memory, which
/// costs two system calls each time.
const INITIAL_HEAP_BYTES: usize = 1 << 20;
/// The profile of cargo that components of projects are built with, and the name of its folder.
const PROFILE: &str = "release";
/// Settings of cargo for a draft, which replace those of the profile. Link-time optimization takes most of the time of a build.
const DRAFT_SETTINGS: [(&str, &str); 4] = [
    ("CARGO_INCREMENTAL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_INCREMENTAL", "true"),
];

/// One build of a crate by cargo.
#[derive(Debug, Clone)]
pub struct CargoBuild<'a> {
    /// The folder that cargo runs in.
    pub folder: &'a Path,
    /// The package, where the folder is that of a workspace.
    pub package: Option<&'a str>,
    /// The profile.
    pub profile: &'a str,
    /// The target.
    pub target: RustTarget,
    /// The folder of compiled files.
    pub target_folder: &'a Path,
    /// True if a lock file that is missing or outdated is an error.
    pub locked: bool,
    /// Folders of sources, with the names that replace them in panic messages.
    pub renamed: &'a [(PathBuf, String)],
    /// The folder of the crate itself, if it is not in `renamed`. It is an argument for this crate alone, so that others
    /// are compiled once for all crates that need them.
    pub renamed_crate: Option<&'a Path>,
    /// Environment variables for cargo, for instance with a C compiler for the target.
    pub environment: &'a [(&'a str, OsString)],
}

/// A line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

impl CargoBuild<'_> {
    /// Builds the crate, and returns its component. Cargo reports its progress on stderr.
    ///
    /// # Errors
    /// If the crate does not compile, or the result is not a component.
    pub fn run(&self, toolchain: &Toolchain) -> Result<Vec<u8>, BuildError> {
        let module = self.run_compiler(toolchain)?;
        match self.target {
            // The linker of this target produces components itself.
            RustTarget::Wasi => Ok(module),
            RustTarget::Pure => encode(&module),
        }
    }

    /// Builds the crate, and returns the result of the linker: a component for [`RustTarget::Wasi`], and a module that
    /// [`encode`] makes a component of for [`RustTarget::Pure`].
    ///
    /// # Errors
    /// If the crate does not compile.
    pub fn run_compiler(&self, toolchain: &Toolchain) -> Result<Vec<u8>, BuildError> {
        let mut cargo = cargo();
        // Not as an `rlib` too, which tests need: then cargo would leave out link-time optimization.
        cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--message-format=json-render-diagnostics"]);
        cargo.args(["--profile", self.profile]);
        cargo.args(["--target", self.target.triple(), "--target-dir"]).arg(self.target_folder);
        // One crate at a time: otherwise cargo would unify the features of all of them.
        cargo.args(self.package.iter().flat_map(|package| ["--package", package]));
        cargo.args(self.locked.then_some("--locked"));
        cargo.arg("--").args(self.renamed_crate.iter().flat_map(|folder| renaming_flags(folder, "/source")));
        cargo.envs(self.environment.iter().map(|(name, value)| (name, value)));
        cargo.current_dir(self.folder).env("RUSTC", toolchain.rustc()).env("PATH", toolchain.search_path()?);
        let mut flags = compiler_flags(toolchain, self.renamed)?;
        for flag in renaming_flags(self.target_folder, "/target") {
            flags.push("\x1f");
            flags.push(flag);
        }
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = cargo.output().map_err(|source| BuildError::Start { program: "cargo".to_owned(), source })?;
        if !output.status.success() {
            let reason = "; see its messages above".to_owned();
            return Err(BuildError::Failed { program: "cargo rustc".to_owned(), reason });
        }
        let path =
            find_module(&output.stdout).ok_or_else(|| BuildError::Component("cargo names no file".to_owned()))?;
        fs::read(&path).map_err(|source| BuildError::Io { action: "read", path, source })
    }
}

/// Returns compiler flags that give the component its memory, and that remap the paths of source files, which panic
/// messages contain, so that a component reveals nothing about the machine that built it, and builds are reproducible.
fn compiler_flags(toolchain: &Toolchain, renamed: &[(PathBuf, String)]) -> Result<OsString, BuildError> {
    let home = cargo_home()?;
    // If several prefixes match, the compiler uses the last.
    let mut remapped = vec![(home.clone(), "/cargo"), (toolchain.sysroot().to_owned(), "/rust")];
    remapped.extend(renamed.iter().map(|(folder, name)| (folder.clone(), name.as_str())));
    // The folders in here are named after the registry's URL, which differs with a mirror.
    let mut crates = Vec::new();
    for sources in [home.join("registry/src"), home.join("git/checkouts")] {
        crates.extend(fs::read_dir(&sources).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    crates.sort();
    remapped.extend(crates.into_iter().map(|folder| (folder, "/crates")));
    let mut flags = OsString::from(format!("-Clink-arg=--initial-heap={INITIAL_HEAP_BYTES}"));
    for flag in remapped.iter().flat_map(|(folder, name)| renaming_flags(folder, name)) {
        flags.push("\x1f");
        flags.push(flag);
    }
    Ok(flags)
}

/// Returns the compiler flags that replace a folder by a name in panic messages: as given and, if that differs, without
/// symbolic links.
fn renaming_flags(folder: &Path, name: &str) -> Vec<OsString> {
    let canonical = folder.canonicalize().ok().filter(|canonical| canonical != folder);
    let forms = [Some(folder.to_owned()), canonical].into_iter().flatten();
    forms
        .map(|form| {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.push(form);
            flag.push("=");
            flag.push(name);
            flag
        })
        .collect()
}

/// Returns the component that a module of WIT bindings makes.
///
/// # Errors
/// If the module has no bindings, or does not fit them.
pub fn encode(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut encoder = ComponentEncoder::default();
    let encoded = encoder.validate(true).module(module).and_then(ComponentEncoder::encode);
    encoded.map_err(|error| BuildError::Component(format!("{error:#}")))
}

/// Finds the module of the crate in cargo's messages: the last one, because dependencies come first.
fn find_module(messages: &[u8]) -> Option<PathBuf> {
    let parsed = messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    let artifacts = parsed.filter(|message| message.reason == "compiler-artifact");
    let mut files = artifacts.flat_map(|message| message.filenames);
    files.rfind(|file| file.extension().is_some_and(|e| e == "wasm"))
}

pub(super) fn compile(project: &Project, workspace: Workspace<'_>) -> Result<CompilerOutput, BuildError> {
    let manifest = project.folder.join("Cargo.toml");
    let triple = project.rust_target();
    let target = RustTarget::from_triple(triple).ok_or_else(|| {
        let reason = format!("unknown target `{triple}`; expected wasm32-unknown-unknown or wasm32-wasip2");
        BuildError::setting(manifest.clone(), reason)
    })?;
    let toolchain = Toolchain::choose(target, &project.folder, &[])?;
    let metadata = read_metadata(&project.folder, &toolchain, target)?;
    let root = metadata.resolve.as_ref().and_then(|resolve| resolve.root.as_deref());
    let renamed = other_sources(&metadata, root);
    let mut target_folder = choose_target_folder(&metadata, workspace, &toolchain, &renamed)?;
    target_folder.claim(&project.folder, |folder| clean(project, &toolchain, root, folder))?;
    let mut environment = Vec::new();
    if workspace.is_draft {
        environment.extend(DRAFT_SETTINGS.map(|(name, value)| (name, OsString::from(value))));
    }
    if let Some(fresh) = workspace.fresh {
        // Macros and build scripts run on this machine, and were compiled for the first component.
        link_host_files(target_folder.path(), fresh)?;
        // A setting of cargo may name another folder.
        environment.push(("CARGO_BUILD_BUILD_DIR", fresh.as_os_str().to_owned()));
    }
    let build = CargoBuild {
        folder: &project.folder,
        package: None,
        profile: PROFILE,
        target,
        target_folder: workspace.fresh.unwrap_or(target_folder.path()),
        // `cargo metadata` has written the lock file where there was none.
        locked: true,
        renamed: &renamed,
        renamed_crate: Some(&metadata.workspace_root),
        environment: &environment,
    };
    let component = build.run(&toolchain)?;
    let dependencies = Dependencies::from_metadata(&metadata)?;
    let own = metadata.packages.iter().find(|package| Some(package.id.as_str()) == root);
    let labels = Labels::of(project, own.map(about).unwrap_or_default());
    Ok(CompilerOutput { component, labels, dependencies: Some(dependencies), messages: String::new() })
}

/// Returns the folder of compiled files: the one that cargo's settings name, or else the one that projects share, which
/// differs for compilers and for folders of sources that are not the project's own.
fn choose_target_folder(
    metadata: &CargoMetadata,
    workspace: Workspace<'_>,
    toolchain: &Toolchain,
    renamed: &[(PathBuf, String)],
) -> Result<TargetFolder, BuildError> {
    let is_default = metadata.target_directory == metadata.workspace_root.join("target")
        && metadata.build_directory.as_ref().is_none_or(|folder| *folder == metadata.target_directory);
    let Some(shared) = workspace.shared.filter(|_| is_default) else {
        return Ok(TargetFolder::own(metadata.target_directory.join("fumehood")));
    };
    let flags = compiler_flags(toolchain, renamed)?;
    let key = digest(&[toolchain.version().as_bytes(), flags.as_encoded_bytes()].join(&0));
    TargetFolder::shared(shared.join(key.get(..16).unwrap_or(&key)))
}

/// Removes what was compiled of a package with the name and version of the project's.
fn clean(project: &Project, toolchain: &Toolchain, package: Option<&str>, folder: &Path) -> Result<(), BuildError> {
    let mut cargo = cargo();
    cargo.args(["clean", "--quiet", "--locked", "--profile", PROFILE, "--target", project.rust_target()]);
    cargo.args(package.iter().flat_map(|package| ["--package", package])).arg("--target-dir").arg(folder);
    cargo.current_dir(&project.folder).env("RUSTC", toolchain.rustc()).env("PATH", toolchain.search_path()?);
    toolchain::capture(&mut cargo, "cargo clean").map(|_| ())
}

/// Links the compiled files that run on this machine into another target folder.
fn link_host_files(from: &Path, to: &Path) -> Result<(), BuildError> {
    let link = to.join(PROFILE);
    files::create_link(from.join(PROFILE), &link).map_err(|source| BuildError::io("link", &link, source))
}

fn about(package: &CargoPackage) -> About {
    About {
        version: Some(package.version.clone()),
        description: package.description.clone(),
        license: package.license.clone(),
        repository: package.repository.clone(),
        homepage: package.homepage.clone(),
        authors: package.authors.clone(),
    }
}

fn read_metadata(folder: &Path, toolchain: &Toolchain, target: RustTarget) -> Result<CargoMetadata, BuildError> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version", "1", "--filter-platform", target.triple()]);
    cargo.current_dir(folder).env("RUSTC", toolchain.rustc()).env("PATH", toolchain.search_path()?);
    let text = toolchain::capture(&mut cargo, "cargo metadata")?;
    serde_json::from_slice(&text).map_err(|error| BuildError::Failed {
        program: "cargo metadata".to_owned(),
        reason: format!(": cannot parse its output: {error}"),
    })
}

/// Returns the folders of all crates that do not come from a registry, with the names for them. That of the project is
/// among them only if it contains another crate.
fn other_sources(metadata: &CargoMetadata, root: Option<&str>) -> Vec<(PathBuf, String)> {
    let others = metadata.packages.iter().filter(|package| Some(package.id.as_str()) != root);
    let mut renamed = Vec::new();
    if others.clone().any(|package| package.manifest_path.starts_with(&metadata.workspace_root)) {
        renamed.push((metadata.workspace_root.clone(), "/source".to_owned()));
    }
    for package in others.filter(|package| package.source.is_none()) {
        if let Some(folder) = package.manifest_path.parent() {
            renamed.push((folder.to_owned(), format!("/{}", package.name)));
        }
    }
    // The compiler uses the last prefix that matches, so that the longest one comes last.
    renamed.sort_by_key(|(folder, _)| folder.as_os_str().len());
    renamed
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn cargo_home() -> Result<PathBuf, BuildError> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(home));
    }
    let home = env::home_dir().ok_or_else(|| BuildError::MissingTool {
        what: "there is no home folder, where cargo keeps its crates".to_owned(),
        remedy: "set CARGO_HOME".to_owned(),
    })?;
    Ok(home.join(".cargo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_module_among_messages() {
        let messages = br#"{"reason":"compiler-artifact","filenames":["/t/libserde.rlib"]}
{"reason":"compiler-artifact","filenames":["/t/tool.wasm","/t/libtool.rlib"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(find_module(messages), Some(PathBuf::from("/t/tool.wasm")));
        assert_eq!(find_module(b"{}\nnonsense"), None);
    }

    #[test]
    fn rejects_a_module_without_bindings() {
        let error = encode(b"\0asm").unwrap_err().to_string();
        assert!(error.starts_with("the compiler did not produce a component"), "{error}");
    }
}
