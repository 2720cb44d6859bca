//! The SDK for tools in Python, which is part of this program: its modules, and the WIT that they are built for.

use std::path::{Path, PathBuf};

use super::{BuildError, write_file};
use crate::contract;

/// Includes a file of the SDK.
macro_rules! sdk {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../../guest-sdk/python/fumehood_tool/", $path)))
    };
}

/// The modules.
const MODULES: [(&str, &str); 16] = [
    sdk!("__init__.py"),
    sdk!("_component.py"),
    sdk!("_content.py"),
    sdk!("_data.py"),
    sdk!("_documentation.py"),
    sdk!("_errors.py"),
    sdk!("_hook_component.py"),
    sdk!("_host.py"),
    sdk!("_library.py"),
    sdk!("_program.py"),
    sdk!("_tool.py"),
    sdk!("_transport.py"),
    sdk!("_types.py"),
    sdk!("_urllib.py"),
    sdk!("hooks.py"),
    sdk!("http.py"),
];
/// The marker of a package with types.
const TYPED: (&str, &str) = ("py.typed", "");
/// The WIT beside the contract.
const WIT: [(&str, &str); 5] = [
    sdk!("wit/deps/clocks.wit"),
    ("wit/deps/hooks.wit", include_str!("../../../../wit/hooks/hook.wit")),
    sdk!("wit/deps/http.wit"),
    sdk!("wit/deps/io.wit"),
    sdk!("wit/python.wit"),
];
/// The folder of the modules in a project, where editors and tests find them.
const FOLDER: &str = ".fumehood/python";
/// The name of the module that a component begins with.
pub(super) const ENTRY: &str = "fumehood_entry";

/// What the component of a project exports.
#[derive(Debug, Clone, Copy)]
pub(super) enum PythonEntry {
    Tools,
    Hooks,
}

impl PythonEntry {
    /// Returns the module that a component with the exports of `module` begins with.
    fn text(self, module: &str) -> String {
        let (component, class) = match self {
            Self::Tools => ("_component", "Tools"),
            Self::Hooks => ("_hook_component", "Hook"),
        };
        format!(
            "from fumehood_tool import {component}, _program\nfrom fumehood_tool.{component} import {class}, WitWorld\n\n\
             _program.prepare({component}.load, {module:?})\n"
        )
    }
}

/// The files that a build needs.
pub(super) struct PythonSdk {
    /// The folder with the modules.
    pub(super) modules: PathBuf,
    /// The folder with the module that the component begins with.
    pub(super) entry: PathBuf,
    /// The folder of the WIT.
    pub(super) wit: PathBuf,
}

impl PythonSdk {
    /// Writes the modules to the project, and the rest to the scratch folder of a build. The component has the tools or hooks
    /// of `module`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(project: &Path, scratch: &Path, entry: PythonEntry, module: &str) -> Result<Self, BuildError> {
        Self::write_entry(project, scratch, &entry.text(module))
    }

    /// Like [`Self::write`], for a component that begins with this module.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write_entry(project: &Path, scratch: &Path, text: &str) -> Result<Self, BuildError> {
        let modules = project.join(FOLDER);
        let package = modules.join("fumehood_tool");
        for (name, text) in MODULES.into_iter().chain([TYPED]) {
            write_file(&package.join(name), text)?;
        }
        let wit = scratch.join("wit");
        for (name, text) in contract::FILES {
            write_file(&wit.join(name), text)?;
        }
        for (name, text) in WIT {
            write_file(&wit.join(name.trim_start_matches("wit/")), text)?;
        }
        let entry = scratch.join("entry");
        write_file(&entry.join(format!("{ENTRY}.py")), text)?;
        Ok(Self { modules, entry, wit })
    }

    /// Returns the texts that components are built from, for a digest of all of them.
    pub(super) fn texts() -> impl Iterator<Item = &'static str> {
        MODULES.into_iter().chain(WIT).chain(contract::FILES).map(|(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn has_every_file_of_the_package() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/python/fumehood_tool");
        let known: Vec<&str> = MODULES.iter().map(|(name, _)| *name).chain([TYPED.0]).collect();
        for entry in fs::read_dir(package).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(known.contains(&name.as_str()) || ["wit", "__pycache__"].contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn its_wit_has_a_world_of_each_kind() {
        let folder = tempfile::tempdir().unwrap();
        let sdk = PythonSdk::write(folder.path(), folder.path(), PythonEntry::Tools, "app").unwrap();
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_path(&sdk.wit).unwrap();
        for world in ["tool", "tool-with-http", "hook", "hook-with-http"] {
            resolve.select_world(&[package], Some(world)).unwrap();
        }
    }
}
