//! The SDK for tools in JavaScript, which is part of this program: a package of npm.

use std::path::{Path, PathBuf};

use super::{BuildError, write_file};
use crate::contract;

/// Includes a file of the SDK.
macro_rules! sdk {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../../guest-sdk/javascript/", $path)))
    };
}

/// The files of the package.
const FILES: [(&str, &str); 13] = [
    sdk!("component.js"),
    sdk!("console.js"),
    sdk!("content.js"),
    sdk!("engine.js"),
    sdk!("errors.js"),
    sdk!("host-component.js"),
    sdk!("host-outside.js"),
    sdk!("host.js"),
    sdk!("index.d.ts"),
    sdk!("index.js"),
    sdk!("package.json"),
    sdk!("stack.js"),
    sdk!("tool.js"),
];
/// The folder of the package in a project, where editors, tests and esbuild find it.
const FOLDER: &str = "node_modules/fumehood-tool";

/// The module of the package that interpreters use too.
pub(super) const STACK: &str = include_str!("../../../../guest-sdk/javascript/stack.js");

/// Writes the package to a project.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write_package(project: &Path) -> Result<(), BuildError> {
    let package = project.join(FOLDER);
    FILES.into_iter().try_for_each(|(name, text)| write_file(&package.join(name), text))
}

/// Writes the WIT of the contract, and other files of WIT, to the scratch folder of a build. Returns the folder of the WIT.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write_wit(scratch: &Path, others: &[(&str, &str)]) -> Result<PathBuf, BuildError> {
    let wit = scratch.join("wit");
    for (name, text) in contract::FILES.iter().chain(others) {
        write_file(&wit.join(name), text)?;
    }
    Ok(wit)
}

/// Returns the texts of the WIT that [`write_wit`] writes.
pub(super) fn wit_texts<'a>(others: &'a [(&str, &'a str)]) -> impl Iterator<Item = &'a str> {
    contract::FILES.iter().chain(others).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn has_every_file_of_the_package() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/javascript");
        let known = FILES.map(|(name, _)| name);
        for entry in fs::read_dir(package).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(known.contains(&name.as_str()) || ["README.md", "tests"].contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn files_of_another_version_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let stale = folder.path().join(FOLDER).join("tool.js");
        write_file(&stale, "stale").unwrap();
        write_package(folder.path()).unwrap();
        let wit = write_wit(folder.path(), &[]).unwrap();
        assert!(fs::read_to_string(stale).unwrap().contains("export function tool"));
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_path(&wit).unwrap();
        resolve.select_world(&[package], Some("tool")).unwrap();
    }
}
