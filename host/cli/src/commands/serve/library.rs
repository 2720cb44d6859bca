//! The knowledge and the prompts of a configuration, for clients.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use fumehood::ToolName;
use fumehood::mcp::{Entry, Library, Parameter, Prompt, Source};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::config::Config;
use crate::config::skill::{KnowledgeSection, PromptSection};
use crate::config::text::TextSource;
use crate::exit::UsageError;

/// Bytes of one file.
const MOST: u64 = 1 << 20;
const PLAIN: &str = "text/plain";

/// All of it. Files are read whenever somebody asks for them, not here.
///
/// # Errors
/// If a name or an address cannot be one.
pub(crate) fn library(config: &Config) -> Result<Library> {
    let mut library = Library::default();
    for (name, section) in &config.knowledge {
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("[knowledge.{name}]: {error}"));
        ToolName::parse(name).map_err(|error| wrong(&error))?;
        library.add_entry(entry(config, name, section)).map_err(|error| wrong(&error))?;
    }
    for (name, section) in &config.prompts {
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("[prompts.{name}]: {error}"));
        ToolName::parse(name).map_err(|error| wrong(&error))?;
        library.add_prompt(prompt(config, name, section)).map_err(|error| wrong(&error))?;
    }
    Ok(library)
}

fn entry(config: &Config, name: &str, section: &KnowledgeSection) -> Entry {
    Entry {
        uri: address(name, section),
        name: name.to_owned(),
        title: section.title.clone(),
        description: Some(section.description.clone()),
        mime_type: section.mime.clone().unwrap_or_else(|| PLAIN.to_owned()),
        source: source(config, &section.text),
    }
}

fn address(name: &str, section: &KnowledgeSection) -> String {
    section.uri.clone().unwrap_or_else(|| format!("fumehood://knowledge/{name}"))
}

fn prompt(config: &Config, name: &str, section: &PromptSection) -> Prompt {
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
        entries: entries.filter_map(|name| Some(address(name, config.knowledge.get(name)?))).collect(),
        text: source(config, &section.text),
    }
}

fn source(config: &Config, text: &TextSource) -> Source {
    let written = match text {
        TextSource::Here(text) => return Source::text(text.as_str()),
        TextSource::InFile(file) => file.file.clone(),
    };
    let (folder, below) = place(config.folder(), &written);
    Source::new(move || {
        let (folder, below) = (folder.clone(), below.clone());
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || read(&folder, &below)).await;
            read.unwrap_or_else(|_| Err("the server stopped in the middle of reading it".to_owned()))
        })
    })
}

/// The folder that a file may not lead out of, and the file within: the folder of the configuration, or that of the file
/// where it was named with its whole path, or from above.
fn place(base: &Path, written: &Path) -> (PathBuf, PathBuf) {
    let is_below = written.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match (is_below, written.parent(), written.file_name()) {
        (false, Some(folder), Some(name)) => (base.join(folder), PathBuf::from(name)),
        _ => (base.to_owned(), written.to_owned()),
    }
}

/// A whole small file. A link in `folder` that leads out of it is not followed: whoever may write there must not be able
/// to hand out the rest of the machine. Clients are told nothing of where it is.
fn read(folder: &Path, below: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |_: rustix::io::Errno| "it cannot be read now; its operator has to look at its file".to_owned();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags | OFlags::DIRECTORY, Mode::empty()).map_err(unreadable)?;
    // Without waiting: opening a pipe would otherwise last until somebody writes.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(&folder, below, flags, Mode::empty(), resolve).map_err(unreadable)?);
    let fails = |_: std::io::Error| "it cannot be read now; its operator has to look at its file".to_owned();
    if !file.metadata().map_err(fails)?.is_file() {
        return Err("it is not a regular file; its operator has to look at it".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(fails)?;
    if bytes.len() as u64 > MOST {
        return Err("it is larger than 1 MiB; its operator has to make it smaller".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_where_it_is_and_nowhere_else() {
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
        let check = |written: &str, expected: Result<&str, &str>| {
            let (folder, below) = place(&base, Path::new(written));
            let found = read(&folder, &below).map(|bytes| String::from_utf8(bytes).unwrap());
            match expected {
                Ok(text) => assert_eq!(found.as_deref(), Ok(text), "{written}"),
                Err(part) => assert!(found.clone().unwrap_err().contains(part), "{written}: {found:?}"),
            }
        };
        check("sub/a", Ok("inside"));
        check("./sub/a", Ok("inside"));
        check("in", Ok("inside"));
        // The operator named these.
        check("../above", Ok("above"));
        check(whole.to_str().unwrap(), Ok("secret"));
        // Somebody who may write into the folder made these.
        check("out", Err("cannot be read"));
        check("up", Err("cannot be read"));
        check("sub", Err("not a regular file"));
        check("missing", Err("cannot be read"));
        check("large", Err("larger than 1 MiB"));
        check("largest", Ok(&"x".repeat(1 << 20)));
    }
}
