//! The knowledge and prompts of a configuration, as resources and prompts for MCP clients.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use fumehood::ToolName;
use fumehood::mcp::{Entry, Library, Parameter, Prompt, Source};
use fumehood::settings::TextSource;

use crate::config::Config;
use crate::config::skill::{KnowledgeSection, PromptSection};
use crate::exit::UsageError;

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// MIME type of knowledge that names none.
const DEFAULT_MIME_TYPE: &str = "text/plain";

/// Creates the library of a configuration. Files are read when a client requests them, not here.
///
/// # Errors
/// If a name or a URI is invalid.
pub(crate) fn library_from_config(config: &Config) -> Result<Library> {
    let mut library = Library::default();
    for (name, section) in &config.knowledge {
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("[knowledge.{name}]: {error}"));
        ToolName::for_component(name).map_err(|error| wrong(&error))?;
        library.add_entry(knowledge_entry(config, name, section)).map_err(|error| wrong(&error))?;
    }
    for (name, section) in &config.prompts {
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("[prompts.{name}]: {error}"));
        ToolName::for_component(name).map_err(|error| wrong(&error))?;
        library.add_prompt(prompt_entry(config, name, section)).map_err(|error| wrong(&error))?;
    }
    Ok(library)
}

fn knowledge_entry(config: &Config, name: &str, section: &KnowledgeSection) -> Entry {
    Entry {
        uri: resource_uri(name, section),
        name: name.to_owned(),
        title: section.title.clone(),
        description: Some(section.description.clone()),
        mime_type: section.mime.clone().unwrap_or_else(|| DEFAULT_MIME_TYPE.to_owned()),
        source: text_source(config, &section.text),
    }
}

fn resource_uri(name: &str, section: &KnowledgeSection) -> String {
    section.uri.clone().unwrap_or_else(|| format!("fumehood://knowledge/{name}"))
}

fn prompt_entry(config: &Config, name: &str, section: &PromptSection) -> Prompt {
    let parameter = |(name, it): (&String, &crate::config::skill::PromptArgument)| Parameter {
        name: name.clone(),
        description: it.description.clone(),
        required: it.required,
    };
    let entries = section.knowledge.iter();
    Prompt {
        name: name.to_owned(),
        title: section.title.clone(),
        description: section.description.clone(),
        parameters: section.arguments.iter().map(parameter).collect(),
        entries: entries.filter_map(|name| Some(resource_uri(name, config.knowledge.get(name)?))).collect(),
        text: text_source(config, &section.text),
    }
}

fn text_source(config: &Config, text: &TextSource) -> Source {
    let path = match text {
        TextSource::Here(text) => return Source::text(text.as_str()),
        TextSource::InFile(file) => file.file.clone(),
    };
    let (folder, below) = split_location(config.folder(), &path);
    Source::new(move || {
        let (folder, below) = (folder.clone(), below.clone());
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || read_beneath(&folder, &below)).await;
            read.unwrap_or_else(|_| Err("the server stopped in the middle of reading it".to_owned()))
        })
    })
}

/// Splits a path into the folder that it must not leave and the path within: the folder of the configuration, or the
/// file's own folder if its path is absolute or contains `..`.
fn split_location(base: &Path, path: &Path) -> (PathBuf, PathBuf) {
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match (is_below, path.parent(), path.file_name()) {
        (false, Some(folder), Some(name)) => (base.join(folder), PathBuf::from(name)),
        _ => (base.to_owned(), path.to_owned()),
    }
}

/// Reads a file of at most [`MAX_FILE_BYTES`]. A link that leads out of `folder` is not followed: write access to the
/// folder must not expose other files of the machine. Errors do not reveal the path to clients.
fn read_beneath(folder: &Path, below: &Path) -> Result<Vec<u8>, String> {
    let fails = |_: std::io::Error| "it cannot be read now; its operator has to look at its file".to_owned();
    let folder = Dir::open_ambient_dir(folder, ambient_authority()).map_err(fails)?;
    // Without blocking: opening a pipe would otherwise wait for a writer.
    let file = folder.open_with(below, OpenOptions::new().read(true).nonblock(true)).map_err(fails)?;
    if !file.metadata().map_err(fails)?.is_file() {
        return Err("it is not a regular file; its operator has to look at it".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(fails)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err("it is larger than 1 MiB; its operator has to make it smaller".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_no_file_outside_of_its_folder() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let base = folder.path().join("base");
        std::fs::create_dir_all(base.join("sub")).unwrap();
        std::fs::write(base.join("sub/a"), "inside").unwrap();
        std::fs::write(folder.path().join("above"), "above").unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::write(base.join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        std::fs::write(base.join("largest"), vec![b'x'; 1 << 20]).unwrap();
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, base.join(name)).unwrap();
        link(&outside.path().join("secret"), "out");
        link(Path::new("../above"), "up");
        link(Path::new("sub/a"), "in");
        let whole = outside.path().join("secret");
        let check = |path: &str, expected: Result<&str, &str>| {
            let (folder, below) = split_location(&base, Path::new(path));
            let found = read_beneath(&folder, &below).map(|bytes| String::from_utf8(bytes).unwrap());
            match expected {
                Ok(text) => assert_eq!(found.as_deref(), Ok(text), "{path}"),
                Err(part) => assert!(found.clone().unwrap_err().contains(part), "{path}: {found:?}"),
            }
        };
        check("sub/a", Ok("inside"));
        check("./sub/a", Ok("inside"));
        check("in", Ok("inside"));
        // Paths that the operator named.
        check("../above", Ok("above"));
        check(whole.to_str().unwrap(), Ok("secret"));
        // Links that anybody with write access to the folder can make.
        check("out", Err("cannot be read"));
        check("up", Err("cannot be read"));
        check("sub", Err("not a regular file"));
        check("missing", Err("cannot be read"));
        check("large", Err("larger than 1 MiB"));
        check("largest", Ok(&"x".repeat(1 << 20)));
    }
}
