//! The knowledge and prompts of a configuration, as resources and prompts for MCP clients.

use std::fmt::Display;

use anyhow::Result;
use fumehood::ToolName;
use fumehood::mcp::{Entry, Library, Parameter, Prompt, Source};
use fumehood::settings::TextSource;

use crate::config::Config;
use crate::config::skill::{KnowledgeSection, PromptSection};
use crate::exit::UsageError;
use crate::text_file::FileBeneath;

/// MIME type of knowledge that names none.
const DEFAULT_MIME_TYPE: &str = "text/plain";

/// Creates the library of a configuration. Files are read when a client requests them, not here.
///
/// # Errors
/// If a name or a URI is invalid.
pub(crate) fn library_from_config(config: &Config) -> Result<Library> {
    let mut library = Library::default();
    for (name, section) in &config.knowledge {
        let wrong = |error: &dyn Display| UsageError(format!("[knowledge.{name}]: {error}"));
        ToolName::for_component(name).map_err(|error| wrong(&error))?;
        library.add_entry(knowledge_entry(config, name, section)).map_err(|error| wrong(&error))?;
    }
    for (name, section) in &config.prompts {
        let wrong = |error: &dyn Display| UsageError(format!("[prompts.{name}]: {error}"));
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
    let parameters = section.arguments.iter().map(|(name, argument)| Parameter {
        name: name.clone(),
        description: argument.description.clone(),
        required: argument.required,
    });
    let entries = section.knowledge.iter();
    Prompt {
        name: name.to_owned(),
        title: section.title.clone(),
        description: section.description.clone(),
        parameters: parameters.collect(),
        entries: entries.filter_map(|name| Some(resource_uri(name, config.knowledge.get(name)?))).collect(),
        text: text_source(config, &section.text),
    }
}

fn text_source(config: &Config, text: &TextSource) -> Source {
    let path = match text {
        TextSource::Here(text) => return Source::text(text.as_str()),
        TextSource::InFile(file) => &file.file,
    };
    let file = FileBeneath::new(config.folder(), path);
    Source::new(move || {
        let file = file.clone();
        Box::pin(async move { file.read().await.map_err(|error| error.for_readers().to_owned()) })
    })
}
