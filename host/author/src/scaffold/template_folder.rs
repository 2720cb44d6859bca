//! Templates of one's own: a folder whose files become those of a new project.

use std::fs;
use std::path::{Path, PathBuf};

use super::ScaffoldError;

/// Folders of results and packages, which are no part of a template, beside hidden ones.
const LEFT_OUT: [&str; 4] = ["__pycache__", "dist", "node_modules", "target"];
/// Hidden folders and files that are a part of a template.
const HIDDEN: [&str; 4] = [".cargo", ".editorconfig", ".github", ".gitignore"];
/// What the name of the project replaces, in texts and in paths.
const NAME: &str = "{{name}}";
/// Like [`NAME`], for code: the name with `_` in place of `-`.
const IDENTIFIER: &str = "{{identifier}}";
/// Maximum number of files and folders of a template.
const MAX_ENTRIES: usize = 2000;
/// Maximum size of the files of a template, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// Reads the files of a template for a project of this name: paths within its folder, and contents. Links are left out.
///
/// # Errors
/// If the folder cannot be read, or has no files, or too many.
pub(super) fn read(folder: &Path, name: &str) -> Result<Vec<(PathBuf, Vec<u8>)>, ScaffoldError> {
    let failed = |reason: String| ScaffoldError::Template { path: folder.to_owned(), reason };
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut entries = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        let found = fs::read_dir(folder.join(&inner)).map_err(|error| failed(error.to_string()))?;
        for entry in found {
            let entry = entry.map_err(|error| failed(error.to_string()))?;
            entries += 1;
            let path = inner.join(entry.file_name());
            let kind = entry.file_type().map_err(|error| failed(error.to_string()))?;
            if entries > MAX_ENTRIES {
                return Err(failed(format!("it has more than {MAX_ENTRIES} files; name a smaller folder")));
            }
            if kind.is_dir() && is_part(&path) && !entry.path().join("pyvenv.cfg").exists() {
                folders.push(path);
            } else if kind.is_file() && is_part(&path) {
                let contents = fs::read(entry.path()).map_err(|error| failed(error.to_string()))?;
                bytes += contents.len();
                if bytes > MAX_BYTES {
                    return Err(failed(format!("it has more than {} MiB; name a smaller folder", MAX_BYTES >> 20)));
                }
                files.push((fill_path(&path, name), fill_contents(contents, name)));
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(failed("it has no files; name the folder of a project that new ones begin as".to_owned()));
    }
    Ok(files)
}

fn is_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !LEFT_OUT.contains(&&*name) && (!name.starts_with('.') || HIDDEN.contains(&&*name))
}

fn fill_path(path: &Path, name: &str) -> PathBuf {
    path.to_str().map_or_else(|| path.to_owned(), |text| PathBuf::from(fill(text, name)))
}

/// Fills in a text. Other contents stay as they are.
fn fill_contents(contents: Vec<u8>, name: &str) -> Vec<u8> {
    match String::from_utf8(contents) {
        Ok(text) => fill(&text, name).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

fn fill(text: &str, name: &str) -> String {
    text.replace(NAME, name).replace(IDENTIFIER, &name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_get_the_name_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let binary = b"\xff{{name}}".to_vec();
        for (name, contents) in [
            ("tool.toml", b"name = \"{{name}}\"\n".to_vec()),
            ("src/{{identifier}}.c", b"int {{identifier}}(void);".to_vec()),
            ("icon.png", binary.clone()),
            (".gitignore", b"/dist".to_vec()),
            (".git/config", b"secret".to_vec()),
            (".env", b"TOKEN=secret".to_vec()),
            ("env/pyvenv.cfg", Vec::new()),
            ("node_modules/a/index.js", Vec::new()),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let files = read(folder.path(), "city-facts").unwrap();
        let expected = [
            (PathBuf::from(".gitignore"), b"/dist".to_vec()),
            (PathBuf::from("icon.png"), binary),
            (PathBuf::from("src/city_facts.c"), b"int city_facts(void);".to_vec()),
            (PathBuf::from("tool.toml"), b"name = \"city-facts\"\n".to_vec()),
        ];
        assert_eq!(files, expected);
        let empty = tempfile::tempdir().unwrap();
        let error = read(empty.path(), "a").unwrap_err().to_string();
        assert!(error.contains("it has no files"), "{error}");
        let error = read(&empty.path().join("gone"), "a").unwrap_err().to_string();
        assert!(error.contains("cannot use"), "{error}");
    }
}
