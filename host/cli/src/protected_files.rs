//! The files that a configuration names and that no tool may change.

use std::path::{Path, PathBuf};

use fumehood::permission::files::FileRole;
use fumehood::settings::{TextSource, ValueSource};

use crate::config::{Config, resolve};
use crate::configured::components_in_folders;
use crate::source::named_secrets;

/// Returns the file that a secret is in; `None` if it is in none.
pub(crate) fn secret_file(base: &Path, source: &ValueSource) -> Option<(PathBuf, FileRole)> {
    match source {
        ValueSource::File(path) => Some((resolve(base, path), FileRole::Secret)),
        ValueSource::Env(_) | ValueSource::Keyring(_) => None,
    }
}

/// Returns the files that a configuration names and that are kept from all tools: those of secrets, ignore lists, knowledge, components,
/// programs of servers, and programs and schemas of skills.
pub(crate) fn named_files(config: &Config) -> Vec<(PathBuf, FileRole)> {
    let secrets = named_secrets(config);
    let mut files: Vec<_> = secrets.iter().filter_map(|secret| secret_file(config.folder(), secret.source)).collect();
    #[cfg(feature = "cell")]
    if let Some(cell) = &config.cell {
        let keys = std::iter::once(&cell.key).chain(&cell.certificate_key);
        files.extend(keys.map(|file| (config.path(file), FileRole::Secret)));
    }
    for folder in &config.tools_in {
        files.push((config.path(folder), FileRole::ComponentFolder));
    }
    // Each by itself as well, because a link there may lead elsewhere. A folder that cannot be read is reported later.
    let in_folders = components_in_folders(config).unwrap_or_default();
    files.extend(in_folders.into_iter().map(|(_, file)| (file, FileRole::Component)));
    files.extend(config.guardrails.ignore_file.iter().map(|file| (config.path(file), FileRole::Policy)));
    // They are read while tools run, and a model takes them for texts of the operator.
    let texts = config.knowledge.values().filter_map(|entry| match &entry.text {
        TextSource::InFile(file) => Some(config.path(&file.file)),
        TextSource::Here(_) => None,
    });
    files.extend(texts.map(|file| (file, FileRole::Policy)));
    for tool in config.tools.values() {
        let of_tool = tool.component.iter().chain(&tool.wit);
        files.extend(of_tool.map(|file| (config.path(file), FileRole::Component)));
    }
    for server in config.mcp.servers.values() {
        let folder = server.folder.as_ref().map_or_else(|| PathBuf::from("."), |folder| config.path(folder));
        // An argument may be a script, which counts from where the program is started; the program itself does not.
        let words = server.command.iter().flatten().map(|word| folder.join(word));
        let program = server.command.iter().flatten().take(1).map(|word| config.folder().join(word));
        let programs = words.chain(program).filter(|file| file.is_file());
        files.extend(programs.map(|file| (file, FileRole::Program)));
    }
    for skill in config.skills.values() {
        let program = match skill.implemented_by.as_ref().and_then(|by| by.program.as_ref()) {
            Some(TextSource::InFile(file)) => Some(&file.file),
            Some(TextSource::Here(_)) | None => None,
        };
        let of_skill = program.into_iter().chain(&skill.output_schema);
        files.extend(of_skill.map(|file| (config.path(file), FileRole::Program)));
    }
    files
}
