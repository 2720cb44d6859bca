//! Outcomes of operations, and the promises that they settle.

use fumehood::event_log::Report;
use fumehood::settings::{AddedServer, ServerError, SettingsError};
use fumehood::{CallResult, Component, ErrorKind, Host, LoadError};
use napi::bindgen_prelude::{Either, Object};
use napi::{Env, JsDeferred};
use serde_json::{Value, json};

use crate::fault::{Code, error_chain, settings_fault};
use crate::result::NativeResult;

/// The outcome of an operation, as JavaScript gets it: a result, or JSON with a `component`, a `report`, a `fault`, or none.
pub(crate) type OperationOutcome = Either<NativeResult, String>;

type Resolver = Box<dyn FnOnce(Env) -> napi::Result<OperationOutcome>>;

/// The outcome of an operation.
pub(crate) enum Outcome {
    Called(Box<CallResult>),
    Loaded(Value),
    /// The report is with the run.
    Ran,
    /// A server, or whether one was removed.
    Server(Value),
    Verified(Value),
    Fault(Code, String),
    ShutDown,
}

impl Outcome {
    /// Creates the outcome of a load; `name` is that of the component.
    pub(crate) fn of_load(host: &Host, name: &str, loaded: Result<Component, LoadError>) -> Self {
        let component = match loaded {
            Ok(component) => component,
            Err(error @ LoadError::Different { .. }) => {
                return Self::Fault(Code::Load, format!("{error} with `{{ replace: true }}`"));
            }
            Err(error) => return Self::Fault(Code::Load, error_chain(&error)),
        };
        let there = host.component(name);
        let tools: Vec<&str> = there.iter().flat_map(|there| there.tools()).map(|tool| tool.full_name()).collect();
        let digest = component.digest().to_string();
        let isolated = component.is_isolated();
        Self::Loaded(json!({"name": name, "digest": digest, "isolated": isolated, "tools": tools}))
    }

    /// Creates the outcome of adding a server.
    pub(crate) fn of_server(added: Result<AddedServer, ServerError>) -> Self {
        match added {
            Ok(AddedServer { name, tools, ignored }) => {
                Self::Server(json!({"name": name, "tools": tools, "ignored": ignored}))
            }
            Err(ServerError::Settings(error)) => {
                let fault = settings_fault(&error);
                Self::Fault(fault.status, fault.reason)
            }
            Err(error @ ServerError::Closed) => Self::Fault(Code::Host, error_chain(&error)),
            Err(error) => Self::Fault(Code::Load, error_chain(&error)),
        }
    }

    /// Creates the outcome of verifying the event log.
    pub(crate) fn of_verification(verified: Result<Report, SettingsError>) -> Self {
        match verified {
            Ok(report) => Self::Verified(json!({
                "ok": report.finding.is_none(),
                "rows": report.rows,
                "sealedUpTo": report.sealed_up_to,
                "finding": report.finding.map(|finding| finding.to_string()),
            })),
            Err(error) => {
                let fault = settings_fault(&error);
                Self::Fault(fault.status, fault.reason)
            }
        }
    }

    fn fault(code: Code, message: &str) -> OperationOutcome {
        Either::B(json!({"fault": {"code": code.as_str(), "message": message}}).to_string())
    }

    /// Converts the outcome. Failures of tools are results; those of the host are faults.
    pub(crate) fn settle(self) -> OperationOutcome {
        match self {
            Self::Called(result) => match result.error().filter(|error| error.kind == ErrorKind::Host) {
                Some(error) => Self::fault(Code::Host, error.message.as_ref()),
                None => Either::A(NativeResult::from(*result)),
            },
            Self::Loaded(component) => Either::B(json!({"component": component}).to_string()),
            Self::Server(server) => Either::B(json!({"server": server}).to_string()),
            Self::Verified(report) => Either::B(json!({"report": report}).to_string()),
            Self::Fault(code, message) => Self::fault(code, &message),
            Self::Ran | Self::ShutDown => Either::B("{}".to_owned()),
        }
    }
}

/// A promise that is settled once, whatever becomes of the operation: an open one would keep the process running.
pub(crate) struct Promise(Option<JsDeferred<OperationOutcome, Resolver>>);

impl Promise {
    /// Creates a promise, and the object that JavaScript awaits.
    pub(crate) fn create(env: &Env) -> napi::Result<(Self, Object<'_>)> {
        let (deferred, promise) = env.create_deferred()?;
        Ok((Self(Some(deferred)), promise))
    }

    /// Settles the promise, from any thread.
    pub(crate) fn settle(mut self, outcome: Outcome) {
        self.resolve(outcome);
    }

    fn resolve(&mut self, outcome: Outcome) {
        if let Some(deferred) = self.0.take() {
            deferred.resolve(Box::new(move |_| Ok(outcome.settle())));
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let message = "the operation was stopped before it had an outcome";
        self.resolve(Outcome::Fault(Code::Host, message.to_owned()));
    }
}
