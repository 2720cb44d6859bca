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

/// Writes the package to a project, and the WIT of the contract to the scratch folder of a build. Returns the folder of the WIT.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(project: &Path, scratch: &Path) -> Result<PathBuf, BuildError> {
    let package = project.join(FOLDER);
    for (name, text) in FILES {
        write_file(&package.join(name), text)?;
    }
    let wit = scratch.join("wit");
    for (name, text) in contract::FILES {
        write_file(&wit.join(name), text)?;
    }
    Ok(wit)
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
        let wit = write(folder.path(), folder.path()).unwrap();
        assert!(fs::read_to_string(stale).unwrap().contains("export function tool"));
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_path(&wit).unwrap();
        resolve.select_world(&[package], Some("tool")).unwrap();
    }
}
