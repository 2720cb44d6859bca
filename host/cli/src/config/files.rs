//! Files and folders that a configuration names: whether they are there, and are what they should be.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use fumehood::permission::files::Folder;

use super::fault::Broken;
use super::file::{Config, resolve};
use super::text::TextSource;
use super::tool::{WriteFolder, WriteFolderTable};

/// The beginning of every WebAssembly file.
const MAGIC: [u8; 4] = *b"\0asm";

/// Everything that is named and cannot be used. Secrets are not looked at, since they may be another machine's, nor are
/// programs that are found by their name.
pub(super) fn check(config: &Config) -> Vec<Broken> {
    let mut found = Found { config, broken: Vec::new() };
    for (index, folder) in config.tools_in.iter().enumerate() {
        found.folder(&["tools_in", &index.to_string()], &config.path(folder));
    }
    for (name, tool) in &config.tools {
        found.component(&["tools", name, "component"], &config.path(&tool.component));
        for (index, text) in tool.read.iter().enumerate() {
            found.granted(&["tools", name, "read", &index.to_string()], text);
        }
        for (index, folder) in tool.write.iter().enumerate() {
            let keys = ["tools", name, "write", &index.to_string()];
            match folder {
                WriteFolder::Text(text) => found.granted(&keys, text),
                WriteFolder::Table(WriteFolderTable { folder, .. }) => {
                    found.folder(&keys, &resolve(config.folder(), Path::new(folder)));
                }
            }
        }
    }
    for (name, server) in &config.mcp.servers {
        if let Some(folder) = &server.folder {
            found.folder(&["mcp", "servers", name, "folder"], &config.path(folder));
        }
        if let Some(program) = server.command.iter().flatten().next().filter(|program| program.contains('/')) {
            let file = resolve(config.folder(), Path::new(program));
            found.file(&["mcp", "servers", name, "command"], "the program", &file);
        }
    }
    texts(&mut found);
    found.broken
}

fn texts(found: &mut Found<'_>) {
    let config = found.config;
    let mut text = |keys: &[&str], source: Option<&TextSource>| {
        if let Some(TextSource::InFile(file)) = source {
            found.file(keys, "the text", &config.path(&file.file));
        }
    };
    text(&["agent", "system"], config.agent.system.as_ref());
    for (name, skill) in &config.skills {
        text(&["skills", name, "instructions"], skill.instructions.as_ref());
    }
    for (name, knowledge) in &config.knowledge {
        text(&["knowledge", name, "text"], Some(&knowledge.text));
    }
    for (name, prompt) in &config.prompts {
        text(&["prompts", name, "text"], Some(&prompt.text));
    }
    let judge = config.guardrails.judge.as_ref();
    text(&["guardrails", "judge", "policy"], judge.map(|judge| &judge.policy));
    if let Some(file) = &config.guardrails.ignore_file {
        found.file(&["guardrails", "ignore_file"], "the ignore list", &config.path(file));
    }
}

/// What was found so far.
struct Found<'a> {
    config: &'a Config,
    broken: Vec<Broken>,
}

impl Found<'_> {
    fn add(&mut self, keys: &[&str], message: String) {
        self.broken.push((keys.iter().map(|key| (*key).to_owned()).collect(), message));
    }

    fn granted(&mut self, keys: &[&str], text: &str) {
        // What is no folder at all was found when the file was read.
        if let Ok(folder) = Folder::read(text) {
            self.folder(keys, &resolve(self.config.folder(), folder.host()));
        }
    }

    fn folder(&mut self, keys: &[&str], folder: &Path) {
        let shown = folder.display();
        match std::fs::metadata(folder) {
            Err(error) => {
                self.add(keys, format!("the folder {shown} cannot be used: {error}; create it, or correct the path"))
            }
            Ok(metadata) if !metadata.is_dir() => self.add(keys, format!("{shown} is not a folder; name one")),
            Ok(_) => {}
        }
    }

    fn file(&mut self, keys: &[&str], what: &str, file: &Path) {
        if let Err(message) = open(what, file) {
            self.add(keys, message);
        }
    }

    fn component(&mut self, keys: &[&str], file: &Path) {
        let mut begin = [0; MAGIC.len()];
        match open("the component", file).map(|mut opened| opened.read_exact(&mut begin)) {
            Err(message) => self.add(keys, message),
            Ok(Ok(())) if begin == MAGIC => {}
            Ok(_) => {
                let shown = file.display();
                self.add(keys, format!("{shown} is no WebAssembly; name a component, a `.wasm` file"));
            }
        }
    }
}

/// Opens a regular file; looked at before, because opening a pipe would wait for somebody to write.
fn open(what: &str, file: &Path) -> Result<File, String> {
    let shown = file.display();
    let unusable = |error: std::io::Error| format!("{what} {shown} cannot be read: {error}; correct the path");
    if !std::fs::metadata(file).map_err(unusable)?.is_file() {
        return Err(format!("{what} {shown} is not a regular file; correct the path"));
    }
    File::open(file).map_err(unusable)
}
