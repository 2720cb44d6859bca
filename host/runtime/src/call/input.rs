//! The input of a guest, its output, and the end of a call.

use std::borrow::Cow;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_core::tool::ValidatedCall;
use fumehood_core::tool::definition::RawDefinition;
use fumehood_core::tool::resource::RawResource;
use serde_json::Value;

use crate::engine::deadline::Deadline;
use crate::wasi::CommandInput;
use crate::wasi::bindings::fumehood::tool::types;

/// Size of the arguments in bytes above which a call never runs on its caller's thread.
const FIRST_SLICE_ARGUMENT_BYTES: usize = 64 << 10;

/// Arguments that have passed the tool's schema.
#[derive(Debug)]
pub(crate) enum Arguments {
    Validated(ValidatedCall),
    /// In a worker, whose host has checked them.
    Text(String),
}

impl Arguments {
    /// Returns them as compact JSON text.
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Validated(call) => call.to_text(),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }

    /// Returns the command line of a program and its input.
    ///
    /// # Errors
    /// If they do not match the schema of programs, or the text is not JSON.
    pub(crate) fn command_input(&self) -> Result<CommandInput, CallError> {
        match self {
            Self::Validated(call) => CommandInput::from_arguments(call.arguments()),
            Self::Text(text) => {
                let value = serde_json::from_str(text);
                let value = value.map_err(|error| CallError::new(ErrorKind::InvalidArguments, error.to_string()))?;
                CommandInput::from_arguments(&value)
            }
        }
    }

    /// Returns the URI of a resource that is to be read.
    ///
    /// # Errors
    /// If there is none, or the text is not JSON.
    pub(crate) fn uri(&self) -> Result<String, CallError> {
        let found = match self {
            Self::Validated(call) => uri_of(call.arguments()),
            Self::Text(text) => serde_json::from_str(text).ok().as_ref().and_then(uri_of),
        };
        found.ok_or_else(|| CallError::new(ErrorKind::InvalidArguments, "the arguments have no `uri`"))
    }
}

fn uri_of(arguments: &Value) -> Option<String> {
    arguments.get("uri").and_then(Value::as_str).map(str::to_owned)
}

/// The input of a guest.
#[derive(Debug)]
pub(crate) enum Input {
    Describe,
    ListResources,
    ReadResource { arguments: Arguments },
    Contract { arguments: Arguments },
    Typed { tool: usize, arguments: Arguments },
    Command { arguments: Arguments },
}

impl Input {
    /// Returns whether converting the arguments may take longer than a slice.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Describe | Self::ListResources | Self::ReadResource { .. } => false,
            Self::Contract { arguments } | Self::Typed { arguments, .. } | Self::Command { arguments } => {
                match arguments {
                    Arguments::Validated(call) => call.is_larger_than(FIRST_SLICE_ARGUMENT_BYTES),
                    Arguments::Text(text) => text.len() > FIRST_SLICE_ARGUMENT_BYTES,
                }
            }
        }
    }
}

/// The return value of `call` in the contract.
pub(super) type Returned = Result<Vec<types::Content>, types::Failure>;

/// The output of a guest, converted, before anything of it was checked.
pub(crate) enum Output {
    Described(Vec<RawDefinition>),
    Listed(Vec<RawResource>),
    Content(Vec<Content>),
}

/// The end of one call.
pub(crate) struct Ended {
    pub(crate) outcome: Result<Output, CallError>,
    pub(crate) metadata: Metadata,
    /// The time by which its result is to be delivered.
    pub(crate) deadline: Deadline,
}
