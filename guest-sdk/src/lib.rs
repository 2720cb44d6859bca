//! Fumehood tools as ordinary Rust functions.
//!
//! Fumehood runs tools for language models as WebAssembly components, each call in a fresh instance that can access
//! only what it was granted. This crate builds such a component from functions:
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
//! // They are still functions, which tests can call without WebAssembly:
//! assert_eq!(convert(Temperature { celsius: 100.0 }), Ok(Converted { fahrenheit: 212.0 }));
//! assert_eq!(greet("Ada".to_owned(), 2), "Hello, Ada. Hello, Ada.");
//! ```
//!
//! Everything that a model reads comes from the code: the doc comment of a function is the tool's description, those of
//! fields and parameters describe its properties, and the types become its JSON Schema. See [`tool`](macro@tool) for
//! the rules, [`progress`] and [`log`] for output of a running tool, [`context`] for information about the call,
//! [`store`] for persistent data, and [`clock`] for time.
//!
//! # Testing
//!
//! A tool is a function, and a test can call it directly. The module `testing`, which exists outside of WebAssembly
//! only, calls it like a host, with JSON and the same validation, and with a store, a time and an actor that the test
//! sets.
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
//! A tool's crate is a library with `crate-type = ["cdylib", "rlib"]`: the first is the component, the second is for
//! tests. The README shows the complete `Cargo.toml`, and every step from an empty folder to the first call.
//!
//! For `wasm32-wasip2` the compiler produces the component itself. It imports those parts of WASI that Rust's standard
//! library uses, of which an operator can grant some:
//!
//! ```sh
//! rustup target add wasm32-wasip2
//! cargo build --release --target wasm32-wasip2
//! ```
//!
//! For `wasm32-unknown-unknown` it produces a module, which `wasm-tools component new` converts to a component. Such a
//! component is *pure*: it imports only Fumehood's own interfaces. It has no clock, no files and no random numbers:
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
//! A panic ends only the call: the host reports a trap. Its message is logged for operators at
//! [`Level::Error`](log::Level::Error); the model never sees it. Return a [`ToolError`] for errors that a model should
//! see.
//!
//! # Unsafe code
//!
//! A tool needs none, and may `forbid(unsafe_code)`. This crate contains none but the bindings, which wit-bindgen
//! generates to pass values across the component's boundary. The compiler does not apply the lint to the expansions of
//! another crate's macros, such as [`export!`].

#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate self as fumehood_guest;

#[cfg(all(target_arch = "wasm32", feature = "async"))]
#[doc(hidden)]
#[rustfmt::skip]
pub mod async_bindings;
#[cfg(all(target_arch = "wasm32", feature = "async"))]
#[doc(hidden)]
pub mod async_component;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[rustfmt::skip]
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
#[cfg(feature = "async")]
pub mod parts;
pub mod progress;
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "natively no host calls"))]
mod registry;
mod resource;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[rustfmt::skip]
pub mod resource_bindings;
mod return_kind;
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
pub use definition::{Annotations, AsyncTool, Definition, Tool, ToolFuture};
pub use error::{FailureKind, ToolError};
/// Turns a function without parameters into a resource, which clients of the host read.
///
/// The function itself is unchanged. The macro adds a type of the same name, which implements [`Resource`] and is passed to
/// [`export!`] behind `resources:`. The doc comment is the description of the resource.
///
/// | Option | Meaning |
/// |---|---|
/// | `uri = "…"` | The URI, which is required: a scheme, a colon and visible ASCII, at most 1024 bytes. |
/// | `name = "…"` | The name, for programs. Default: the function's name. |
/// | `title = "…"` | A short name for people. |
/// | `mime_type = "…"` | The MIME type, such as `text/markdown`. |
///
/// A URI with the scheme `ui` makes it a page (MCP Apps): HTML that clients show beside the results of tools. It has these
/// options, too:
///
/// | Option | Meaning |
/// |---|---|
/// | `tools("…")` | The names of the tools whose results it shows. |
/// | `connect_domains("…")`, `resource_domains("…")`, `frame_domains("…")`, `base_uri_domains("…")` | The origins that it asks to reach. It gets those that the operator allows, by default none. |
/// | `prefers_border` | The client should draw a border around it. |
///
/// The function returns text (`String`, `&'static str`), bytes (`Vec<u8>`, `&'static [u8]`), [`Contents`], or a `Result` of
/// these whose error is `Into<`[`ToolError`]`>`.
///
/// ```
/// use fumehood_guest::{resource, tool};
///
/// /// Rolls a die.
/// #[tool]
/// fn roll() -> u8 {
///     4
/// }
///
/// /// The rules of the game.
/// #[resource(uri = "dice://rules", mime_type = "text/markdown")]
/// fn rules() -> &'static str {
///     "The highest number wins."
/// }
///
/// /// Shows a die.
/// #[resource(uri = "ui://dice/view", tools("roll"))]
/// fn view() -> &'static str {
///     "<!doctype html><title>Die</title>"
/// }
///
/// fumehood_guest::export!(roll; resources: rules, view);
/// ```
pub use fumehood_guest_macros::resource;
/// Turns a function into a tool.
///
/// The function itself is unchanged. The macro adds a type of the same name, which implements [`Tool`] and is passed to
/// [`export!`]. The names do not clash, because types and functions are in separate namespaces.
///
/// # The description
///
/// The doc comment of the function, of at most 4 KiB. It is required, because a model chooses a tool by its
/// description.
///
/// # The options
///
/// | Option | Meaning |
/// |---|---|
/// | `name = "…"` | The tool's name: 1 to 64 of `a-z`, `0-9`, `_`, `-`. Default: the function's name. |
/// | `title = "…"` | A short name for people. |
/// | `read_only` | It changes nothing outside itself. |
/// | `destructive` | It may remove or overwrite something irrecoverably. |
/// | `idempotent` | Calling it again with the same arguments has no further effect. |
/// | `open_world` | It interacts with entities beyond those that its arguments name, such as the internet. |
///
/// The last four may also be negated, as in `destructive = false`. For an absent option a host assumes the worst.
///
/// # The arguments
///
/// A function whose only parameter is called `args` (or `_args`) takes the whole JSON object: the parameter's type must
/// implement `serde::Deserialize` and `schemars::JsonSchema`, and its fields are the properties.
///
/// Otherwise each parameter is one property with its name. It may have a doc comment, `#[default]` or `#[default(…)]`
/// to make it optional, and the attributes of serde and schemars for fields. An `Option` is optional too.
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
/// The host validates arguments against the schema before the tool runs. Arguments that match the schema but not the
/// types fail as [invalid arguments](FailureKind::InvalidArguments), with serde's message.
///
/// # The result
///
/// | The function returns | The tool's result |
/// |---|---|
/// | `String`, `&'static str` | text |
/// | [`Content`], `Vec<Content>` | these parts |
/// | `()` | an empty result |
/// | a type that implements [`IntoContent`] | the parts that it returns |
/// | any other type with `serde::Serialize` and `schemars::JsonSchema` | one JSON value, with its schema |
/// | a `Result` of these whose error is `Into<`[`ToolError`]`>` | the result of the `Ok` value, or a failure |
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
/// # Unsupported functions
///
/// Functions that are unsafe or generic, that take `self`, or whose parameters are patterns or references do not compile:
///
/// ```compile_fail
/// /// Waits.
/// #[fumehood_guest::tool]
/// unsafe fn wait() {}
/// ```
///
/// # Asynchronous functions
///
/// An `async` function becomes an [`AsyncTool`], which `export_async!` exports. [`export!`] does not compile with it:
///
/// ```compile_fail
/// /// Waits.
/// #[fumehood_guest::tool]
/// async fn wait() {}
///
/// fumehood_guest::export!(wait);
/// ```
pub use fumehood_guest_macros::tool;
pub use resource::{Contents, IntoContents, Page, Resource, ResourceDefinition};
pub use return_kind::IntoContent;
pub use {schemars, serde, serde_json};

/// Items that the expansions of the macros use. They are not part of the public interface, and may change.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        registry::{AsyncEntry, Entry, ResourceEntry, are_acceptable, is_acceptable},
        return_kind::{Outcome, ReturnKind, ReturnProbe, UnsupportedKind},
        schema::{input_schema, parse_arguments},
    };
    pub use schemars;
    pub use serde;
    #[cfg(target_arch = "wasm32")]
    pub use wit_bindgen;
}

/// Exports functions with `#[tool]` as the component's tools, and those with `#[resource]` as its resources:
/// `export!(draw; resources: view)`. Call it once per component, with all of them.
///
/// Outside of WebAssembly it only validates the list: 1 to 64 tools, whose names differ even if `-` and `_` are treated
/// as the same character.
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
    ($($tool:path),+ $(,)?; resources: $($resource:path),+ $(,)?) => {
        const _: () = {
            const TOOLS: &[$crate::__private::Entry] = &[$($crate::__private::Entry::of::<$tool>()),+];
            const RESOURCES: &[$crate::__private::ResourceEntry] =
                &[$($crate::__private::ResourceEntry::of::<$resource>()),+];
            ::core::assert!(
                $crate::__private::is_acceptable(TOOLS),
                "a component has 1 to 64 tools, and their names must differ when `-` and `_` are the same",
            );
            ::core::assert!(
                $crate::__private::are_acceptable(RESOURCES),
                "a component has at most 64 resources, and their URIs must differ",
            );
            #[cfg(target_arch = "wasm32")]
            $crate::__export_component_with_resources!(TOOLS, RESOURCES);
        };
    };
}

/// Exports functions with `#[tool]` as the tools of an asynchronous component, whose results arrive in parts: version 0.2 of
/// the contract. `async` functions send parts before they return with [`parts::send`]; other functions may be among them.
///
/// Hosts run such a component only in worker processes. It needs the feature `async` of this crate.
///
/// ```
/// use fumehood_guest::{parts, tool};
///
/// /// Counts.
/// #[tool]
/// async fn count(to: u32) -> String {
///     for number in 1..to {
///         parts::send(number.to_string()).await;
///     }
///     to.to_string()
/// }
///
/// fumehood_guest::export_async!(count);
/// ```
#[cfg(feature = "async")]
#[macro_export]
macro_rules! export_async {
    ($($tool:path),+ $(,)?) => {
        const _: () = {
            const TOOLS: &[$crate::__private::AsyncEntry] = &[$($crate::__private::AsyncEntry::of_async::<$tool>()),+];
            ::core::assert!(
                $crate::__private::is_acceptable(TOOLS),
                "a component has 1 to 64 tools, and their names must differ when `-` and `_` are the same",
            );
            #[cfg(target_arch = "wasm32")]
            $crate::__export_async_component!(TOOLS);
        };
    };
}
