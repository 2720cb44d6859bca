//! The imports and exports of the contract, inside a component. The imports are the module `host` of this crate.

use std::panic;
use std::time::{Duration, SystemTime};

use crate::bindings::exports::fumehood::tool::tools;
use crate::bindings::fumehood::tool::{context, key_value, log as host_log, progress as host_progress, secrets, types};
use crate::log::Level;
use crate::progress::Update;
use crate::registry::{self, Entry, ResourceEntry};
use crate::resource_bindings::exports::fumehood::tool::resources;
use crate::store::{Page, StoreError};
use crate::{Annotations, Content, Contents, Definition, FailureKind, ResourceDefinition, ToolError, log};

pub(crate) fn call_id() -> String {
    context::call_id()
}

pub(crate) fn tool_name() -> String {
    context::tool_name()
}

pub(crate) fn remaining_ms() -> u64 {
    context::remaining_ms()
}

pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

pub(crate) fn actor() -> Option<String> {
    context::actor()
}

pub(crate) fn state() -> Option<String> {
    context::state()
}

pub(crate) fn secret_exists(name: &str) -> bool {
    secrets::exists(name)
}

pub(crate) fn log(level: Level, message: String) {
    let level = match level {
        Level::Trace => host_log::Level::Trace,
        Level::Debug => host_log::Level::Debug,
        Level::Info => host_log::Level::Info,
        Level::Warn => host_log::Level::Warn,
        Level::Error => host_log::Level::Error,
    };
    host_log::log(level, &message);
}

pub(crate) fn report(update: Update) {
    host_progress::report(&host_progress::Update {
        fraction: update.fraction,
        message: update.message,
        partial: update.partial.into_iter().map(content).collect(),
    });
}

pub(crate) fn get(key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    key_value::get(key).map_err(store_error)
}

pub(crate) fn set(key: &str, value: &[u8]) -> Result<(), StoreError> {
    key_value::set(key, value).map_err(store_error)
}

pub(crate) fn delete(key: &str) -> Result<bool, StoreError> {
    key_value::delete(key).map_err(store_error)
}

pub(crate) fn list(prefix: &str, cursor: Option<&str>, limit: u32) -> Result<Page, StoreError> {
    let page = key_value::list(prefix, cursor, limit).map_err(store_error)?;
    Ok(Page { keys: page.keys, next: page.next })
}

fn store_error(error: key_value::Error) -> StoreError {
    match error {
        key_value::Error::Denied => StoreError::Denied,
        key_value::Error::InvalidKey => StoreError::InvalidKey,
        key_value::Error::TooLarge => StoreError::TooLarge,
        key_value::Error::Full => StoreError::Full,
        key_value::Error::Unavailable => StoreError::Unavailable,
    }
}

/// Implements the export `describe`.
pub fn describe<F>(tools: &[Entry<F>]) -> Vec<tools::ToolDefinition> {
    log_panics();
    registry::describe(tools).map(definition).collect()
}

/// Implements the export `call`.
pub fn call(tools: &[Entry], request: tools::ToolCall) -> Result<Vec<types::Content>, types::Failure> {
    log_panics();
    match registry::call(tools, &request.tool, &request.arguments) {
        Ok(parts) => Ok(parts.into_iter().map(content).collect()),
        Err(error) => Err(failure(&error)),
    }
}

/// Implements the export `list`.
pub fn list_resources(entries: &[ResourceEntry]) -> Vec<resources::ResourceDefinition> {
    log_panics();
    registry::list(entries).map(resource_definition).collect()
}

/// Implements the export `read`.
pub fn read_resource(entries: &[ResourceEntry], uri: &str) -> Result<resources::ResourceContents, types::Failure> {
    log_panics();
    match registry::read(entries, uri) {
        Ok(Contents::Text(text)) => Ok(resources::ResourceContents::Text(text)),
        Ok(Contents::Blob(data)) => Ok(resources::ResourceContents::Blob(data)),
        Err(error) => Err(failure(&error)),
    }
}

fn resource_definition(definition: ResourceDefinition) -> resources::ResourceDefinition {
    let ResourceDefinition { uri, name, title, description, mime_type, page } = definition;
    let page = page.map(|page| resources::Page {
        tools: page.tools,
        connect_domains: page.connect_domains,
        resource_domains: page.resource_domains,
        frame_domains: page.frame_domains,
        base_uri_domains: page.base_uri_domains,
        prefers_border: page.prefers_border,
    });
    resources::ResourceDefinition { uri, name, title, description, mime_type, page }
}

/// Logs the messages of panics for operators: a panic ends in a trap, which carries no message.
pub(crate) fn log_panics() {
    panic::set_hook(Box::new(|info| log::error(info)));
}

pub(crate) fn definition(definition: Definition) -> tools::ToolDefinition {
    let Annotations { read_only, destructive, idempotent, open_world } = definition.annotations;
    tools::ToolDefinition {
        name: definition.name,
        title: definition.title,
        description: definition.description,
        input_schema: definition.input_schema.to_string(),
        output_schema: definition.output_schema.map(|schema| schema.to_string()),
        annotations: types::Annotations { read_only, destructive, idempotent, open_world },
    }
}

pub(crate) fn content(content: Content) -> types::Content {
    match content {
        Content::Text(text) => types::Content::Text(text),
        Content::Json(value) => types::Content::Json(value.to_string()),
        Content::Blob(blob) => types::Content::Blob(types::Blob { mime_type: blob.mime_type, data: blob.data }),
        Content::Link(link) => {
            types::Content::Link(types::Link { uri: link.uri, title: link.title, mime_type: link.mime_type })
        }
    }
}

pub(crate) fn failure(error: &ToolError) -> types::Failure {
    types::Failure {
        kind: match error.kind() {
            FailureKind::InvalidArguments => types::FailureKind::InvalidArguments,
            FailureKind::Failed => types::FailureKind::Failed,
            FailureKind::Unavailable => types::FailureKind::Unavailable,
            FailureKind::Denied => types::FailureKind::Denied,
        },
        message: error.message().to_owned(),
        retry_after_ms: error.retry_after_ms(),
    }
}

/// Defines the component's exports. Only for `export!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_component {
    ($tools:expr) => {
        struct Component;

        impl $crate::bindings::exports::fumehood::tool::tools::Guest for Component {
            fn describe() -> ::std::vec::Vec<$crate::bindings::exports::fumehood::tool::tools::ToolDefinition> {
                $crate::component::describe($tools)
            }

            fn call(
                request: $crate::bindings::exports::fumehood::tool::tools::ToolCall,
            ) -> ::core::result::Result<
                ::std::vec::Vec<$crate::bindings::exports::fumehood::tool::tools::Content>,
                $crate::bindings::exports::fumehood::tool::tools::Failure,
            > {
                $crate::component::call($tools, request)
            }
        }

        $crate::bindings::export!(Component with_types_in $crate::bindings);
    };
}

/// Defines the exports of a component with resources. Only for `export!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_component_with_resources {
    ($tools:expr, $resources:expr) => {
        $crate::__export_component!($tools);

        impl $crate::resource_bindings::exports::fumehood::tool::resources::Guest for Component {
            fn list()
            -> ::std::vec::Vec<$crate::resource_bindings::exports::fumehood::tool::resources::ResourceDefinition>
            {
                $crate::component::list_resources($resources)
            }

            fn read(
                uri: ::std::string::String,
            ) -> ::core::result::Result<
                $crate::resource_bindings::exports::fumehood::tool::resources::ResourceContents,
                $crate::bindings::exports::fumehood::tool::tools::Failure,
            > {
                $crate::component::read_resource($resources, &uri)
            }
        }

        $crate::resource_bindings::export_resources!(Component with_types_in $crate::resource_bindings);
    };
}
