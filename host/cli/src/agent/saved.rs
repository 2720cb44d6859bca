//! Saved sessions in the event log.

use anyhow::{Context as _, Result};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::driver::Driver;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::session::{RestoredSession, SavedSession, SavedSessionError};
use fumehood::event_log::{EventLog, Reader};

use super::interrupt::Interruption;
use crate::args::run::AgentArguments;
use crate::exit::UsageError;

/// The saving of a session that `run` or `chat` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SaveMode {
    /// It is not saved.
    No,
    /// A new session of this id is saved.
    Begin(String),
    /// The session of this id goes on.
    Resume(String),
    /// The session of this id goes on if it exists, and begins otherwise.
    Open(String),
}

impl SaveMode {
    /// Returns the id of the session; `None` if it is not saved.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::No => None,
            Self::Begin(id) | Self::Resume(id) | Self::Open(id) => Some(id),
        }
    }

    /// Returns the effect of Ctrl-C: a saved run is suspended; in a conversation, an answer is cut off, and the next message
    /// follows.
    pub(crate) fn interruption(&self) -> Interruption {
        match self {
            Self::Begin(_) | Self::Resume(_) => Interruption::Suspends,
            Self::No | Self::Open(_) => Interruption::Cancels,
        }
    }

    /// Reads the session that goes on. Returns `None` for one that begins.
    ///
    /// # Errors
    /// If there is no log, it exists and should not, or should and does not, it cannot be read, or it has an option that
    /// it cannot take.
    pub(crate) fn read(&self, log: Option<&EventLog>, typed: &AgentArguments) -> Result<Option<SavedSession>> {
        let Some(id) = self.id() else { return Ok(None) };
        let log = log.ok_or_else(|| {
            UsageError("sessions are saved in the event log, which is off; leave `--no-log` out".to_owned())
        })?;
        let found = find(log.reader(), id)?;
        match (self, &found) {
            // One that was stopped before its first message was stored has nothing in it, and begins.
            (Self::Begin(id), Some(saved)) if saved.messages().next().is_some() => {
                let message = format!(
                    "the session `{id}` already exists; resume it with `--resume {id}`, or remove it with `fumehood \
                     sessions rm {id}`"
                );
                Err(UsageError(message).into())
            }
            (Self::Resume(id), None) => Err(missing(id).into()),
            (_, Some(_)) if typed.output_schema.is_some() => {
                let message = "the output schema of a saved session cannot be changed; leave `--output-schema` out";
                Err(UsageError(message.to_owned()).into())
            }
            _ => Ok(found),
        }
    }
}

/// Returns the saved session of this id, if there is one.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn find(reader: &Reader, id: &str) -> Result<Option<SavedSession>> {
    match SavedSession::from_entries(&reader.session_entries(id)?) {
        Ok(saved) => Ok(Some(saved)),
        Err(SavedSessionError::Missing) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("session {id} cannot be read")),
    }
}

/// Restores the saved session of this id, if there is one.
///
/// # Errors
/// If it cannot be read, or was saved with a driver that this program does not have.
pub(crate) fn restore(reader: &Reader, id: &str) -> Result<Option<RestoredSession>> {
    let Some(saved) = find(reader, id)? else { return Ok(None) };
    let driver = driver_named(saved.driver())
        .ok_or_else(|| UsageError(format!("session {id} was saved by another program, with an unknown driver")))?;
    saved.restore(driver, None).map(Some).with_context(|| format!("session {id} cannot be read"))
}

/// Returns the error for an id that no saved session has.
pub(crate) fn missing(id: &str) -> UsageError {
    UsageError(format!("unknown session `{id}`; `fumehood sessions list` lists the saved sessions"))
}

/// Returns a driver of the protocol that a session was begun with; `None` for one that this program does not have.
fn driver_named(name: &str) -> Option<Box<dyn Driver>> {
    match name {
        "native" => Some(Box::new(NativeDriver::default())),
        "react" => Some(Box::new(ReactDriver::default())),
        "batch" => Some(Box::new(BatchDriver::new())),
        _ => None,
    }
}
