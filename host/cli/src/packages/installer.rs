//! The installation of packages by the user's npm, and by their uv or pip: without scripts of packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use fumehood::sanitize::printable;
use fumehood_config::package::{PackageReference, PackageRegistry};
use fumehood_platform::files::is_executable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::UsageError;

/// Maximum length of the end of an installer's output that is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 2000;

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// The version of the package.
    pub(crate) version: String,
    /// The programs of the package itself.
    pub(crate) programs: Vec<String>,
    /// All packages with their versions, the package itself among them.
    pub(crate) packages: BTreeMap<String, String>,
    /// Packages whose install scripts were not run.
    pub(crate) skipped_scripts: Vec<String>,
}

/// Installs a package with its dependencies into an empty folder.
///
/// # Errors
/// If there is no installer, it fails, or what it installed cannot be read.
pub(super) fn install(package: &PackageReference, folder: &Path) -> Result<Contents> {
    match package.registry {
        PackageRegistry::Npm => {
            run(npm(package, folder))?;
            npm_contents(package, folder)
        }
        PackageRegistry::Pypi => {
            run(pip(package, folder)?)?;
            pypi_contents(package, folder)
        }
    }
}

/// Returns the programs of a package by their names, relative to its folder.
pub(super) fn program_path(registry: PackageRegistry, program: &str) -> String {
    match registry {
        PackageRegistry::Npm => format!("node_modules/.bin/{program}"),
        PackageRegistry::Pypi => format!("bin/{program}"),
    }
}

fn npm(package: &PackageReference, folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--save-exact", "--prefix"]);
    let version = package.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    command.arg(folder).arg("--").arg(format!("{}{version}", package.name));
    command
}

fn pip(package: &PackageReference, folder: &Path) -> Result<Command> {
    let mut command = if is_on_path("uv") {
        let mut command = Command::new("uv");
        command.args(["pip", "install", "--quiet"]);
        command
    } else if is_on_path("python3") {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "install", "--quiet", "--no-compile", "--no-input", "--disable-pip-version-check"]);
        command
    } else {
        return Err(
            UsageError("packages of PyPI are installed by `uv` or `python3 -m pip`; install one".to_owned()).into()
        );
    };
    let version = package.version.as_ref().map(|version| format!("=={version}")).unwrap_or_default();
    command.args(["--only-binary", ":all:", "--target"]).arg(folder).arg(format!("{}{version}", package.name));
    Ok(command)
}

fn is_on_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_executable(&folder.join(program)))
}

fn run(mut command: Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = command.stdin(Stdio::null()).output();
    let output = started.map_err(|error| UsageError(format!("cannot run `{name}`: {error}; install it first")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let end = said.get(said.len().saturating_sub(MAX_SHOWN_BYTES)..).unwrap_or_default();
    let said = String::from_utf8_lossy(end);
    let lines: Vec<_> = said.lines().map(printable).collect();
    bail!("`{name}` could not install the package:\n{}", lines.join("\n").trim());
}

/// The lock file of npm.
#[derive(Deserialize)]
struct NpmLock {
    packages: BTreeMap<String, NpmPackage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NpmPackage {
    #[serde(default)]
    version: String,
    #[serde(default)]
    has_install_script: bool,
}

/// The description of an npm package.
#[derive(Deserialize)]
struct NpmManifest {
    version: String,
    /// Programs by their names, or the path of the only one, which is named as the package.
    #[serde(default)]
    bin: Value,
}

fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
}

fn npm_contents(package: &PackageReference, folder: &Path) -> Result<Contents> {
    let lock: NpmLock = read_json(&folder.join("package-lock.json"))?;
    let mut packages = BTreeMap::new();
    let mut skipped_scripts = Vec::new();
    for (place, NpmPackage { version, has_install_script }) in lock.packages {
        let Some(name) = place.strip_prefix("node_modules/") else { continue };
        if has_install_script {
            skipped_scripts.push(name.to_owned());
        }
        packages.insert(name.to_owned(), version);
    }
    let manifest: NpmManifest = read_json(&folder.join("node_modules").join(&package.name).join("package.json"))?;
    let programs = match manifest.bin {
        Value::String(_) => vec![package.short_name().to_owned()],
        Value::Object(programs) => programs.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    };
    Ok(Contents { version: manifest.version, programs, packages, skipped_scripts })
}

fn pypi_contents(package: &PackageReference, folder: &Path) -> Result<Contents> {
    let mut packages = BTreeMap::new();
    let mut own = None;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some((name, version)) = name.strip_suffix(".dist-info").and_then(|name| name.split_once('-')) else {
            continue;
        };
        if normalized(name) == normalized(&package.name) {
            own = Some((format!("{name}-{version}.dist-info"), version.to_owned()));
        }
        packages.insert(normalized(name), version.to_owned());
    }
    let (info, version) = own.with_context(|| format!("the installer did not install `{}`", package.name))?;
    let entry_points = std::fs::read_to_string(folder.join(info).join("entry_points.txt")).unwrap_or_default();
    Ok(Contents { version, programs: console_scripts(&entry_points), packages, skipped_scripts: Vec::new() })
}

/// Returns the name by which PyPI compares packages (PEP 503).
fn normalized(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// Returns the names in the section `console_scripts` of `entry_points.txt`.
fn console_scripts(text: &str) -> Vec<String> {
    let section = text.lines().map(str::trim).skip_while(|line| *line != "[console_scripts]").skip(1);
    let entries = section.take_while(|line| !line.starts_with('['));
    entries.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_python_packages_are_their_console_scripts() {
        let text =
            "[other]\na = b:c\n[console_scripts]\nmcp-server-time = t:main\nsecond=t:two\n\n[gui_scripts]\nx = y:z\n";
        assert_eq!(console_scripts(text), ["mcp-server-time", "second"]);
        assert!(console_scripts("").is_empty());
    }

    #[test]
    fn contents_of_an_npm_package_are_read_from_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let package: PackageReference = "npm:@acme/server".parse().unwrap();
        let home = folder.path().join("node_modules/@acme/server");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("package.json"), r#"{"version": "1.2.3", "bin": "dist/index.js"}"#).unwrap();
        let lock = r#"{"packages": {"": {}, "node_modules/@acme/server": {"version": "1.2.3"},
            "node_modules/esbuild": {"version": "0.2.0", "hasInstallScript": true}}}"#;
        std::fs::write(folder.path().join("package-lock.json"), lock).unwrap();
        let contents = npm_contents(&package, folder.path()).unwrap();
        assert_eq!((contents.version.as_str(), contents.programs), ("1.2.3", vec!["server".to_owned()]));
        assert_eq!(contents.skipped_scripts, ["esbuild"]);
        assert_eq!(contents.packages.len(), 2);
    }
}
