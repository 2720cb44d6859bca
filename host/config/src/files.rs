//! Checks of the files and folders that a configuration names: they have to exist, and to be of the right kind.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use fumehood_core::policy::permission::files::Folder;

use crate::fault::KeyFault;
use crate::file::Config;
use crate::folder::{WriteFolder, WriteFolderTable};
use crate::secret::resolve;
use crate::text::TextSource;

/// The beginning of every WebAssembly file.
const MAGIC: [u8; 4] = *b"\0asm";

/// Returns everything that is named and cannot be used. Secrets are not checked, since they may be those of another
/// machine, nor are programs that are found by their name.
pub(crate) fn check(config: &Config) -> Vec<KeyFault> {
    let mut faults = FileFaults { config, found: Vec::new() };
    for (index, folder) in config.tools_in.iter().enumerate() {
        faults.check_folder(&["tools_in", &index.to_string()], &config.path(folder));
    }
    for (name, tool) in &config.tools {
        if let Some(file) = &tool.component {
            faults.check_component(&["tools", name, "component"], &config.path(file));
        }
        for (index, text) in tool.powers.read.iter().enumerate() {
            faults.check_granted_folder(&["tools", name, "read", &index.to_string()], text);
        }
        for (index, folder) in tool.powers.write.iter().enumerate() {
            let keys = ["tools", name, "write", &index.to_string()];
            match folder {
                WriteFolder::Text(text) => faults.check_granted_folder(&keys, text),
                WriteFolder::Table(WriteFolderTable { folder, .. }) => {
                    faults.check_folder(&keys, &resolve(config.folder(), Path::new(folder)));
                }
            }
        }
    }
    for (name, server) in &config.mcp.servers {
        if let Some(folder) = &server.folder {
            faults.check_folder(&["mcp", "servers", name, "folder"], &config.path(folder));
        }
        if let Some(program) = server.command.iter().flatten().next().filter(|program| program.contains('/')) {
            let file = resolve(config.folder(), Path::new(program));
            faults.check_file(&["mcp", "servers", name, "command"], "the program", &file);
        }
    }
    check_texts(&mut faults);
    check_registry(&mut faults);
    faults.found
}

fn check_texts(faults: &mut FileFaults<'_>) {
    let config = faults.config;
    faults.check_text(&["agent", "system"], config.agent.system.as_ref());
    for (name, skill) in &config.skills {
        faults.check_text(&["skills", name, "instructions"], skill.instructions.as_ref());
        let program = skill.implemented_by.as_ref().and_then(|by| by.program.as_ref());
        faults.check_text(&["skills", name, "implemented_by", "program"], program);
    }
    for (name, knowledge) in &config.knowledge {
        faults.check_text(&["knowledge", name, "text"], Some(&knowledge.text));
    }
    for (name, prompt) in &config.prompts {
        faults.check_text(&["prompts", name, "text"], Some(&prompt.text));
    }
    let judge = config.guardrails.judge.as_ref();
    faults.check_text(&["guardrails", "judge", "policy"], judge.map(|judge| &judge.policy));
    for (name, skill) in &config.skills {
        if let Some(file) = &skill.output_schema {
            faults.check_file(&["skills", name, "output_schema"], "the schema", &config.path(file));
        }
    }
    if let Some(file) = &config.guardrails.ignore_file {
        faults.check_file(&["guardrails", "ignore_file"], "the ignore list", &config.path(file));
    }
}

fn check_registry(faults: &mut FileFaults<'_>) {
    let config = faults.config;
    let registry = &config.registry;
    for (index, file) in registry.tls_roots.iter().enumerate() {
        faults.check_file(&["registry", "tls_roots", &index.to_string()], "the certificates", &config.path(file));
    }
    faults.check_keys(&["registry", "trusted_keys"], &registry.trusted_keys);
    for (pattern, keys) in &registry.trusted {
        faults.check_keys(&["registry", "trusted", pattern], keys);
    }
    for (name, index) in &registry.indexes {
        faults.check_keys(&["registry", "indexes", name, "keys"], &index.keys);
    }
}

/// The faults that were found so far.
struct FileFaults<'a> {
    config: &'a Config,
    found: Vec<KeyFault>,
}

impl FileFaults<'_> {
    fn add(&mut self, keys: &[&str], message: String) {
        self.found.push((keys.iter().map(|key| (*key).to_owned()).collect(), message));
    }

    fn check_granted_folder(&mut self, keys: &[&str], text: &str) {
        // A malformed text was reported when the file was read.
        if let Ok(folder) = Folder::read(text) {
            self.check_folder(keys, &resolve(self.config.folder(), folder.host()));
        }
    }

    fn check_folder(&mut self, keys: &[&str], folder: &Path) {
        let shown = folder.display();
        match std::fs::metadata(folder) {
            Err(error) => {
                self.add(keys, format!("cannot use the folder {shown}: {error}; create it, or correct the path"))
            }
            Ok(metadata) if !metadata.is_dir() => self.add(keys, format!("{shown} is not a folder")),
            Ok(_) => {}
        }
    }

    fn check_file(&mut self, keys: &[&str], what: &str, file: &Path) {
        if let Err(message) = open(what, file) {
            self.add(keys, message);
        }
    }

    fn check_text(&mut self, keys: &[&str], source: Option<&TextSource>) {
        if let Some(TextSource::InFile(file)) = source {
            self.check_file(keys, "the text", &self.config.path(&file.file));
        }
    }

    fn check_keys(&mut self, path: &[&str], keys: &[TextSource]) {
        for (index, key) in keys.iter().enumerate() {
            if let TextSource::InFile(file) = key {
                self.check_file(&[path, &[&index.to_string()]].concat(), "the key", &self.config.path(&file.file));
            }
        }
    }

    fn check_component(&mut self, keys: &[&str], file: &Path) {
        let mut begin = [0; MAGIC.len()];
        match open("the component", file).map(|mut opened| opened.read_exact(&mut begin)) {
            Err(message) => self.add(keys, message),
            Ok(Ok(())) if begin == MAGIC => {}
            Ok(_) => {
                let shown = file.display();
                self.add(keys, format!("{shown} is not WebAssembly; expected a component, a `.wasm` file"));
            }
        }
    }
}

/// Opens a regular file. The kind is checked before, because opening a pipe would wait for a writer.
fn open(what: &str, file: &Path) -> Result<File, String> {
    let shown = file.display();
    let unusable = |error: std::io::Error| format!("cannot read {what} {shown}: {error}; correct the path");
    if !std::fs::metadata(file).map_err(unusable)?.is_file() {
        return Err(format!("{what} {shown} is not a regular file; correct the path"));
    }
    File::open(file).map_err(unusable)
}
