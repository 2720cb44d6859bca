//! Errors of loading a component.

use std::fmt;
use std::path::PathBuf;

use fumehood_core::call::limits::display_bytes;
use fumehood_core::call::result::CallError;
use fumehood_core::capability::CapabilitySetupError;
use fumehood_core::tool::definition::DefinitionError;
use fumehood_core::tool::resource::ResourceError;

use super::imports::Ungranted;
use crate::engine::guest_runtime::Lost;
use crate::wasi::FolderError;

/// The versions of the contract that this host accepts, for messages.
pub const ACCEPTED_CONTRACT: &str = "0.1.x and 0.2.x";
/// Maximum size of a component, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 256 << 20;
/// Size in bytes above which a component is compiled only if the caller allows it. Language runtimes, such as those of
/// Python and JavaScript, are smaller.
pub const SLOW_COMPILE_BYTES: usize = 32 << 20;

/// Errors of loading a component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The component has no bytes.
    #[error("the component is empty (0 bytes)")]
    Empty,
    /// A component that was loaded is to be loaded again in another sandbox.
    #[error("the component was loaded in another host; load its file or bytes in this host")]
    OtherSandbox,
    /// A component that was loaded is to be loaded again, and one of the two runs in a worker process.
    #[error("a component in a worker process cannot share its code; load its file or bytes again")]
    InWorker,
    /// The component has this many bytes, more than [`MAX_COMPONENT_BYTES`].
    #[error("the component has {}; the maximum is {}", display_bytes(*.0), display_bytes(MAX_COMPONENT_BYTES as u64))]
    TooLarge(u64),
    /// The component has this many bytes, more than [`SLOW_COMPILE_BYTES`], and
    /// [`LoadOptions::allow_slow_compile`](crate::LoadOptions::allow_slow_compile) is not set.
    #[error(
        "the component has {}; compiling more than {} takes many seconds and must be allowed (`allow_slow_compile`; \
         on the command line, `--allow-slow-compile`)", display_bytes(*.0 as u64), display_bytes(SLOW_COMPILE_BYTES as u64)
    )]
    SlowCompile(usize),
    /// The component has too much of something that is expensive to compile.
    #[error(
        "the component is too expensive to compile: {found} {what}; the maximum is {limit}. If you trust it, raise \
         the limits (`allow_slow_compile`; on the command line, `--allow-slow-compile`)"
    )]
    TooComplex {
        /// The kind of item.
        what: &'static str,
        /// The number of items that were found before the rest was left unread.
        found: u64,
        /// The number of items that are accepted.
        limit: u64,
    },
    /// Compiling was stopped because it reached a limit.
    #[error(
        "compiling the component was stopped: {limit} is limited to {allowed} for its size. If you trust it, raise \
         the limits (`allow_slow_compile`; on the command line, `--allow-slow-compile`)"
    )]
    CompileStopped {
        /// The limit that was used up.
        limit: CompileLimit,
        /// The allowed amount, formatted.
        allowed: String,
    },
    /// The compiler program cannot be started.
    #[error("cannot start the compiler {}; set another program, or compile in this process", .program.display())]
    NoCompiler {
        /// The path of the program.
        program: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The compiler process failed for another reason than a limit.
    #[error("the compiler process failed: {0}")]
    Compiler(String),
    /// The engine panicked while it compiled the component, in this process or in the compiler's.
    #[error(
        "the compiler panicked (`{0}`). That is a fault of this host, not of the component: please report it, with \
         this message and the component"
    )]
    CompilerPanicked(String),
    /// WebAssembly in the text format.
    #[error(
        "this is WebAssembly text, not a component; convert it to a binary first, for example with `wasm-tools parse`"
    )]
    Text,
    /// Bytes that are not WebAssembly.
    #[error("this is not WebAssembly: a component starts with `\\0asm`")]
    NotWasm,
    /// A core module.
    #[error(
        "this is a core WebAssembly module, not a component, and no program for WASI preview 1 either, which exports `_start`; \
         in Rust, build a library with `crate-type = [\"cdylib\"]` for `--target wasm32-wasip2`, or turn a module for \
         `wasm32-unknown-unknown` into a component with `wasm-tools component new`"
    )]
    CoreModule,
    /// A core module that exports `_start` and needs something other than WASI preview 1, as the text says.
    #[error(
        "this core module {0}; a program for WASI preview 1 imports only `wasi_snapshot_preview1`, and exports its `memory` and \
         `_start`: build it for `wasm32-wasip1` or `wasm32-wasip2`"
    )]
    NotPreview1(String),
    /// A core module for WASI preview 1 that imports a function twice.
    #[error(
        "this core module imports `{0}` twice, as programs in Go do, and a component cannot contain it like that; make a component of \
         it first: `wasm-tools component new program.wasm --adapt wasi_snapshot_preview1.command.wasm -o tool.wasm`"
    )]
    RepeatedImport(String),
    /// An archive of object files, such as a Rust library.
    #[error(
        "this is a library for the compiler (`.rlib` or `.a`), not a component; add `crate-type = [\"cdylib\"]` under `[lib]` in \
         Cargo.toml, and build for `--target wasm32-wasip2`: the component is the `.wasm` file"
    )]
    Archive,
    /// A native program or library.
    #[error(
        "this is a program or library for this machine, not a component; build it for WebAssembly: in Rust, with \
         `--target wasm32-wasip2`"
    )]
    Native,
    /// Precompiled machine code.
    #[error(
        "this is precompiled machine code, which is refused because it would run unchecked; use the original component"
    )]
    Precompiled,
    /// An unknown version or layer of the binary format.
    #[error("this WebAssembly has an unknown version or layer ({0:02x?}); expected [0d, 00, 01, 00], a component")]
    Version([u8; 4]),
    /// The engine refuses the component.
    #[error("the component is malformed or uses unsupported features: {0}")]
    Malformed(String),
    /// The component uses a WebAssembly proposal that is off.
    #[error(
        "the component uses the WebAssembly proposal \"{proposal}\" (at byte {offset}), which this host disables; \
         build it for `wasm32-wasip2` without that proposal"
    )]
    Proposal {
        /// The proposal's name.
        proposal: &'static str,
        /// The position of its first use, in bytes from the start of the component.
        offset: usize,
    },
    /// The component was built for another version of the contract.
    #[error(
        "the component was built for version {found} of the contract `fumehood:tool`; this host accepts \
         {ACCEPTED_CONTRACT}. Rebuild it with a matching `fumehood-guest`"
    )]
    ContractVersion {
        /// The version that the component names.
        found: String,
    },
    /// The component imports what this host does not provide.
    #[error("the component has imports that this host does not provide: {}", .0.join(", "))]
    UnknownImport(Vec<String>),
    /// The component imports a version of an interface of WASI that this host does not have.
    #[error(
        "the component imports `{import}`, and this host has that interface {offered}; {}", advice(.producers)
    )]
    ForeignVersion {
        /// The import.
        import: String,
        /// The versions that this host has.
        offered: String,
        /// What it was built with, as its `producers` section says.
        producers: Vec<(String, Vec<String>)>,
    },
    /// The component uses sockets through WASI 0.3, and connections are granted.
    #[error(
        "the component imports `{0}`, through which this host opens no connections yet; build it for WASI 0.2, or leave out \
         its connections (`tcp` in the configuration)"
    )]
    SocketsOfP3(String),
    /// The component imports powers that are not granted, and
    /// [`LoadOptions::strict_imports`](crate::LoadOptions::strict_imports) is set.
    #[error(
        "the component imports powers that are not granted, which `strict_imports` refuses:{}",
        .0.iter().map(|import| format!("\n{import}")).collect::<String>()
    )]
    Ungranted(Vec<Ungranted>),
    /// The component imports an interface of a capability that is not granted.
    #[error(
        "the component imports `{import}`, which needs the capability `{capability}`, and that is not granted; grant it \
         with `Grant::with_capability`"
    )]
    UngrantedCapability {
        /// The import.
        import: String,
        /// The name of the capability.
        capability: String,
    },
    /// A capability is granted that the host does not have, or its grant does not fit.
    #[error(transparent)]
    Capability(#[from] CapabilitySetupError),
    /// The component's imports do not fit the interfaces that the host links.
    #[error("the component does not match this host's interfaces: {0}")]
    Link(String),
    /// The component failed to describe its tools.
    #[error("the component could not describe its tools: {0}")]
    Describe(CallError),
    /// The component failed to list its resources.
    #[error("the component could not list its resources: {0}")]
    ListResources(Box<CallError>),
    /// A resource is not accepted.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A definition of a tool is not accepted.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The component's exports cannot be called as tools.
    #[error("{0}")]
    Typed(String),
    /// [`LoadOptions::docs`](crate::LoadOptions::docs) is set for a component that describes its tools itself.
    #[error(
        "the component describes its tools itself, so WIT documentation has no effect; leave it out (`wit` in the \
         configuration)"
    )]
    DescribesItself,
    /// [`LoadOptions::command`](crate::LoadOptions::command) is set for a component that is no program.
    #[error(
        "the component is no program: it does not export `wasi:cli/run` as its only function, so it has no command line; \
         leave it out (`command` in the configuration)"
    )]
    NoProgram,
    /// A granted folder cannot be opened.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The grant allows requests to `https` addresses, and this build has no TLS.
    #[error(
        "the grant allows requests to `https` URLs, but this build of the host has no TLS; build it with the feature \
         `tls`, or grant only `http` URLs"
    )]
    NoTls,
    /// [`Isolation::Process`](crate::Isolation::Process) was requested, and no program for workers is set.
    #[error(
        "the component needs a worker process, but no worker program is set; set one (`Workers`), or run it in this \
         process"
    )]
    NoWorkers,
    /// The component has asynchronous functions or interfaces of WASI 0.3, and is to run in this process.
    #[error(
        "the component has asynchronous functions, or interfaces of WASI 0.3, and such components run only in worker processes: \
         set `isolation = \"process\"` (on the command line, `--isolation process`), or leave the setting out"
    )]
    NeedsWorker,
    /// The jail of the worker is incomplete, and [`Workers::require_jail`](crate::Workers::require_jail) is set, or it
    /// cannot be put in force.
    #[error("the component cannot be isolated here: {0}")]
    Jail(String),
    /// The worker process could not be started, or failed.
    #[error("the worker process of the component failed: {0}")]
    Worker(String),
    /// The host is shutting down, or failed.
    #[error("the host could not load the component: {0}")]
    Host(String),
}

/// Returns what the author of a component can do about its version of WASI, in the language that it was built with.
fn advice(producers: &[(String, Vec<String>)]) -> &'static str {
    let has = |name: &str| producers.iter().flat_map(|(_, values)| values).any(|value| value.starts_with(name));
    if has("componentize-py") {
        "build it with another release of componentize-py: `pip install --upgrade componentize-py`"
    } else if has("componentize-qjs") || has("ComponentizeJS") || has("JavaScript") {
        "build it with another release of its componentizer: `npm install` of componentize-qjs or componentize-js"
    } else if has("Go") || has("TinyGo") {
        "build it with a Go toolchain for WASI 0.2, such as `tinygo build -target=wasip2`"
    } else if has("Rust") {
        "build it with `cargo build --target wasm32-wasip2`, or with a toolchain whose `wasm32-wasip3` is of WASI 0.3.0"
    } else {
        "build it for WASI 0.2.x or 0.3.0"
    }
}

/// A limit that compiling a component can exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileLimit {
    /// Wall-clock time.
    Time,
    /// CPU time over all threads.
    Cpu,
    /// Memory of the compiler.
    Memory,
    /// Size of the compiled code.
    Output,
}

impl fmt::Display for CompileLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "the time on the clock",
            Self::Cpu => "the CPU time",
            Self::Memory => "the memory of the compiler",
            Self::Output => "the compiled code",
        })
    }
}

impl From<Lost> for LoadError {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Panicked(text) => Self::Host(format!("it panicked with `{text}`")),
            Lost::ShutDown => Self::Host("it is shutting down".to_owned()),
        }
    }
}
