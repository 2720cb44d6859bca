//! Fumehood hooks as ordinary Rust types.
//!
//! A hook decides on calls of tools before they run, and on their results, for the operator of a host. This crate builds
//! such a component from a type that implements [`Hook`]:
//!
//! ```
//! use fumehood_guest_hooks::{Authorization, BeforeDecision, Hook, ToolCall};
//!
//! /// Refuses guests, and asks a person about calls that may change something.
//! struct Careful;
//!
//! impl Hook for Careful {
//!     fn authorize(call: ToolCall) -> Authorization {
//!         match call.actor {
//!             Some(_) => Authorization::Allow,
//!             None => Authorization::Deny("guests may not call tools".to_owned()),
//!         }
//!     }
//!
//!     fn before(call: ToolCall) -> BeforeDecision {
//!         match call.annotations.read_only {
//!             Some(true) => BeforeDecision::Allow,
//!             _ => BeforeDecision::Ask(format!("May `{}` run?", call.tool)),
//!         }
//!     }
//! }
//!
//! fumehood_guest_hooks::export!(Careful);
//!
//! // They are still functions, which tests can call without WebAssembly:
//! assert_ne!(Careful::authorize(ToolCall::default()), Authorization::Allow);
//! ```
//!
//! A hook has no power that its operator did not grant it. With `fumehood-guest` it can use those that it was granted:
//! its `store`, `log` and `clock` work in a hook, too.
//!
//! A panic, a decision over its limit, or taking too long refuses the call, or withholds the result.

extern crate self as fumehood_guest_hooks;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;

/// Hints of a tool about its own behaviour. They come from the tool, so they are no basis for trust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing outside itself.
    pub read_only: Option<bool>,
    /// It may remove or overwrite something irrecoverably.
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// It interacts with entities beyond those that its arguments name.
    pub open_world: Option<bool>,
}

/// A call of a tool. Its arguments match the schema of the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The id of the call. May be empty.
    pub id: String,
    /// The full name of the tool, `component__tool`, or the name alone for a function of the host.
    pub tool: String,
    /// The arguments, a JSON object. After the call they are those that the tool ran with.
    pub arguments: String,
    /// The actor on whose behalf the call runs; `None` for a guest. It comes from the host's session.
    pub actor: Option<String>,
    /// The id of the agent's session that makes the call, if an agent makes it.
    pub session: Option<String>,
    /// The name and version that a client of a server claims.
    pub client: Option<String>,
    /// The annotations of the tool.
    pub annotations: Annotations,
    /// The time of day, in milliseconds since 1970-01-01T00:00:00Z.
    pub time_ms: u64,
}

/// One part of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// One JSON value, as text.
    Json(String),
    /// Bytes with a MIME type.
    Blob {
        /// The MIME type.
        mime_type: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A link to a resource that the result does not contain.
    Link {
        /// The URI of the resource.
        uri: String,
        /// A short display name.
        title: Option<String>,
        /// The MIME type of the resource.
        mime_type: Option<String>,
    },
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The machine-readable kind, for example `tool_failed`. A hook cannot change it.
    pub kind: String,
    /// The problem.
    pub message: String,
}

/// The result of a call, or its failure.
pub type Outcome = Result<Vec<Content>, Failure>;

/// A decision on whether the actor may make the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// The actor may.
    Allow,
    /// The actor may not, for this reason. The caller sees it.
    Deny(String),
}

/// A decision before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeDecision {
    /// Lets the call run.
    Allow,
    /// Lets the call run with these arguments, a JSON object. They have to match the schema of the tool.
    Modify(String),
    /// Refuses the call, for this reason. The caller sees it.
    Deny(String),
    /// Asks a person, who sees this question, the tool and its arguments.
    Ask(String),
}

/// A decision after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterDecision {
    /// Passes the result on as it is.
    Keep,
    /// Passes this on in place of it. A result has to match the output schema of the tool.
    Replace(Outcome),
    /// Withholds the result, for this reason. The caller sees it.
    Reject(String),
}

/// A hook. A function that is left out allows every call, or keeps every result.
pub trait Hook {
    /// Decides whether the actor of a call may make it. Called first, for every hook.
    #[must_use]
    fn authorize(call: ToolCall) -> Authorization {
        let _ = call;
        Authorization::Allow
    }

    /// Decides on a call before it runs, once all hooks have authorized it.
    #[must_use]
    fn before(call: ToolCall) -> BeforeDecision {
        let _ = call;
        BeforeDecision::Allow
    }

    /// Decides on what a call returned, before anybody sees it.
    #[must_use]
    fn after(call: ToolCall, outcome: Outcome) -> AfterDecision {
        let _ = (call, outcome);
        AfterDecision::Keep
    }
}

/// Makes a component of a type that implements [`Hook`]. Natively it does nothing.
#[cfg(not(target_arch = "wasm32"))]
#[macro_export]
macro_rules! export {
    ($hook:ty) => {};
}

/// Makes a component of a type that implements [`Hook`].
#[cfg(target_arch = "wasm32")]
#[macro_export]
macro_rules! export {
    ($hook:ty) => {
        $crate::__export_component!($hook);
    };
}

/// For the code that `export!` generates.
#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
pub mod __private {
    pub use wit_bindgen;
}
