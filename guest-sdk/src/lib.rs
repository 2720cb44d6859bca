//! Write a Fumehood tool as an ordinary Rust function.
//!
//! Fumehood runs tools for language models as WebAssembly components, each call in a fresh instance with nothing but
//! what it was granted. This crate makes such a component of functions:
//!
//! ```
//! use fumehood_guest::{ToolError, tool};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// What `convert` takes.
//! #[derive(Deserialize, JsonSchema)]
//! pub struct Temperature {
//!     /// In degrees Celsius; absolute zero is -273.15.
//!     #[schemars(range(min = -273.15))]
//!     pub celsius: f64,
//! }
//!
//! #[derive(Debug, PartialEq, Serialize, JsonSchema)]
//! pub struct Converted {
//!     /// In degrees Fahrenheit.
//!     pub fahrenheit: f64,
//! }
//!
//! /// Converts a temperature from Celsius to Fahrenheit.
//! #[tool(title = "To Fahrenheit", read_only, idempotent)]
//! pub fn convert(args: Temperature) -> Result<Converted, ToolError> {
//!     let fahrenheit = args.celsius * 1.8 + 32.0;
//!     if fahrenheit.is_finite() { Ok(Converted { fahrenheit }) } else { Err(ToolError::failed("too hot to convert")) }
//! }
//!
//! /// Says hello.
//! #[tool]
//! pub fn greet(
//!     /// Whom to greet.
//!     name: String,
//!     /// How often.
//!     #[default(1)]
//!     #[schemars(range(min = 1, max = 10))]
//!     times: usize,
//! ) -> String {
//!     vec![format!("Hello, {name}."); times].join(" ")
//! }
//!
//! fumehood_guest::export!(convert, greet);
//!
//! // They are still functions, and tests need no WebAssembly:
//! assert_eq!(convert(Temperature { celsius: 100.0 }), Ok(Converted { fahrenheit: 212.0 }));
//! assert_eq!(greet("Ada".to_owned(), 2), "Hello, Ada. Hello, Ada.");
//! ```
//!
//! Everything a model reads comes from the code: the doc comment of a function is the tool's description, those of
//! fields and parameters describe its properties, and the types are its JSON Schema. See [`tool`](macro@tool) for the
//! rules, [`progress`], [`log`] and [`context`] for what a running tool can say and ask, [`store`] for what it keeps, and
//! [`clock`] for time.
//!
//! # Testing
//!
//! A tool is a function, and a test may call it. The module `testing`, which exists outside of WebAssembly only, calls it as a
//! host does, with JSON through the same checks, and runs it in surroundings that a test sets: the store, the time, the actor.
//!
//! ```
//! # #[cfg(not(target_arch = "wasm32"))] {
//! use fumehood_guest::serde_json::json;
//! use fumehood_guest::{Content, testing, tool};
//!
//! /// Says hello.
//! #[tool]
//! fn greet(name: String) -> String {
//!     format!("Hello, {name}.")
//! }
//!
//! assert_eq!(testing::call::<greet>(&json!({"name": "Ada"})), Ok(vec![Content::text("Hello, Ada.")]));
//! let error = testing::call::<greet>(&json!({"nom": "Ada"})).unwrap_err();
//! assert!(error.message().contains("/nom"), "{error}");
//! # }
//! ```
//!
//! # Building a component
//!
//! A tool's crate is a library with `crate-type = ["cdylib", "rlib"]`: the first is the component, the second is for tests. The
//! README has the whole `Cargo.toml`, from an empty folder to the first call.
//!
//! For `wasm32-wasip2` the compiler makes the component itself. It imports what Rust's standard library asks WASI for,
//! and an operator can grant some of that:
//!
//! ```sh
//! rustup target add wasm32-wasip2
//! cargo build --release --target wasm32-wasip2
//! ```
//!
//! For `wasm32-unknown-unknown` it makes a module, which `wasm-tools component new` turns into a component. That one is
//! *pure*: it imports nothing but Fumehood's own interfaces. There is no clock, no file and no randomness in it:
//! `std::time::Instant::now`, for example, panics.
//!
//! ```sh
//! rustup target add wasm32-unknown-unknown
//! cargo build --release --target wasm32-unknown-unknown
//! wasm-tools component new target/wasm32-unknown-unknown/release/my_tool.wasm -o my_tool.wasm
//! ```
//!
//! # Panics
//!
//! A panic ends the call, and only that: the host reports a trap. Its message goes to the log, at
//! [`Level::Error`](log::Level::Error), where the people who run the tool find it; the model never sees it. Return a
//! [`ToolError`] for what a model should know.
//!
//! # Unsafe code
//!
//! None is written here or needed in a tool; both may `forbid(unsafe_code)`. What wit-bindgen generates to move values
//! across the component's boundary contains some, and the compiler does not apply the lint to the expansions of another
//! crate's macros. [`export!`] keeps it that way for tools.

extern crate self as fumehood_guest;

mod arguments;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
pub mod clock;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
mod content;
pub mod context;
mod definition;
mod error;
pub mod log;
pub mod progress;
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "natively no host calls"))]
mod registry;
mod returned;
mod schema;
pub mod secret;
pub mod store;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

#[cfg(target_arch = "wasm32")]
use component as host;
#[cfg(not(target_arch = "wasm32"))]
use testing::host;

pub use content::{Blob, Content, Link};
pub use definition::{Annotations, Definition, Tool};
pub use error::{FailureKind, ToolError};
/// Makes a tool of an ordinary function.
///
/// The function stays as it is. Beside it comes a type of the same name, which implements [`Tool`] and which
/// [`export!`] takes; the two do not clash, as Rust keeps types and functions apart.
///
/// # The description
///
/// The doc comment of the function, of 4 KiB at most. There has to be one: a model chooses by it.
///
/// # The options
///
/// | Option | Meaning |
/// |---|---|
/// | `name = "…"` | The tool's name, if it is not the function's: 1 to 64 of `a-z`, `0-9`, `_`, `-`. |
/// | `title = "…"` | A short name for people. |
/// | `read_only` | It changes nothing outside itself. |
/// | `destructive` | It may remove or overwrite something that cannot be brought back. |
/// | `idempotent` | Calling it again with the same arguments has no further effect. |
/// | `open_world` | It reaches things beyond what its arguments name, such as the internet. |
///
/// The last four may also be denied, as in `destructive = false`. Without either, nothing is said, and a host assumes
/// the worst.
///
/// # The arguments
///
/// A function whose only parameter is called `args` (or `_args`) takes the whole JSON object: the parameter's type has
/// to implement `serde::Deserialize` and `schemars::JsonSchema`, and its fields are the properties.
///
/// Otherwise each parameter is one property of its own name. It takes a doc comment, `#[default]` or `#[default(…)]`
/// for when it is absent, and the attributes that a field may have for serde and schemars. An `Option` may be absent
/// too.
///
/// ```
/// use fumehood_guest::tool;
///
/// /// Finds notes.
/// #[tool(read_only)]
/// fn find_notes(
///     /// A word that the notes contain.
///     #[schemars(length(min = 1))]
///     word: String,
///     /// The most notes to return.
///     #[default(20)]
///     limit: u32,
///     /// Only notes of this author.
///     author: Option<String>,
/// ) -> Vec<String> {
///     Vec::new()
/// }
/// ```
///
/// The host checks arguments against the schema before the tool runs. What the schema lets through and the types do not
/// fails as [invalid arguments](FailureKind::InvalidArguments), with serde's message.
///
/// # The result
///
/// | The function returns | The tool's result |
/// |---|---|
/// | `String`, `&'static str` | text |
/// | [`Content`], `Vec<Content>` | these parts |
/// | `()` | nothing |
/// | a type of yours with [`IntoContent`] | what that says |
/// | anything else with `serde::Serialize` and `schemars::JsonSchema` | one JSON value, with its schema |
/// | a `Result` of these whose error is `Into<`[`ToolError`]`>` | the same, or a failure |
///
/// Other types do not compile:
///
/// ```compile_fail
/// struct Opaque;
///
/// /// Returns what nobody can read.
/// #[fumehood_guest::tool]
/// fn opaque() -> Opaque {
///     Opaque
/// }
/// ```
///
/// # What cannot be a tool
///
/// Functions that are async, unsafe or generic, that take `self`, or whose parameters are patterns or references:
///
/// ```compile_fail
/// /// Waits.
/// #[fumehood_guest::tool]
/// async fn wait() {}
/// ```
pub use fumehood_guest_macros::tool;
pub use returned::IntoContent;
pub use {schemars, serde, serde_json};

/// What the macros' expansions name. Nothing here is for people, and all of it may change.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        arguments::arguments,
        registry::{Entry, is_acceptable},
        returned::{Outcome, ReturnKind, Returned, Unreturnable},
        schema::input_schema,
    };
    pub use schemars;
    pub use serde;
    #[cfg(target_arch = "wasm32")]
    pub use wit_bindgen;
}

/// Makes a component's tools of functions with `#[tool]`: once per component, with all of them.
///
/// Outside of WebAssembly it only checks the list: 1 to 64 tools, whose names still differ when `-` and `_` are taken
/// for the same character.
///
/// ```compile_fail
/// /// One.
/// #[fumehood_guest::tool(name = "to-do")]
/// fn one() {}
///
/// /// Another.
/// #[fumehood_guest::tool(name = "to_do")]
/// fn another() {}
///
/// fumehood_guest::export!(one, another);
/// ```
#[macro_export]
macro_rules! export {
    () => {
        ::core::compile_error!("`export!` needs the component's tools: `export!(add, subtract)`");
    };
    ($($tool:path),+ $(,)?) => {
        const _: () = {
            const TOOLS: &[$crate::__private::Entry] = &[$($crate::__private::Entry::of::<$tool>()),+];
            ::core::assert!(
                $crate::__private::is_acceptable(TOOLS),
                "a component has 1 to 64 tools, and their names must differ when `-` and `_` are the same",
            );
            #[cfg(target_arch = "wasm32")]
            $crate::__export_component!(TOOLS);
        };
    };
}
