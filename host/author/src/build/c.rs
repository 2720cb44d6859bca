//! Components in C: the compiler of Zig or of the WASI SDK, with bindings that are generated from the WIT.

use std::path::{Path, PathBuf};
use std::process::Command;

use wasi_preview1_component_adapter_provider as adapters;
use wit_component::ComponentEncoder;
use wit_parser::Resolve;

use super::{BuildError, CompilerOutput, Labels, toolchain};
use crate::project::Project;

/// The environment variable with the folder of the WASI SDK, as its own documentation names it.
const SDK_VARIABLE: &str = "WASI_SDK_PATH";
/// The environment variable with the program of Zig to use, which takes precedence.
const ZIG_VARIABLE: &str = "FUMEHOOD_ZIG";
/// Size of the memory that a component begins with, in bytes: 1 MiB of stack and as much for the heap.
const INITIAL_MEMORY_BYTES: usize = 2 << 20;
/// Size of the stack, in bytes.
const STACK_BYTES: usize = 1 << 20;

pub(super) fn compile(project: &Project) -> Result<CompilerOutput, BuildError> {
    let settings = &project.settings;
    let world = settings.world.as_deref().unwrap_or_default();
    let scratch = super::scratch()?;
    let bindings = generate_bindings(&project.wit(), world, scratch.path())?;
    let output = scratch.path().join("module.wasm");
    let mut compiler = find_compiler()?;
    compiler.args(["-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c17", "-Os", "-flto", "-Wall", "-Wextra"]);
    compiler.arg(format!("-Wl,--initial-memory={INITIAL_MEMORY_BYTES}"));
    compiler.args([&format!("-Wl,-z,stack-size={STACK_BYTES}"), "-Wl,--strip-all", "-Wl,--no-entry"]);
    compiler.args(
        ["-ffile-prefix-map", "-fmacro-prefix-map"]
            .map(|flag| format!("{flag}={}=/bindings", bindings.folder.display())),
    );
    compiler.arg("-I").arg(&bindings.folder).args(&settings.sources).args(&bindings.files);
    compiler.arg("-o").arg(&output).current_dir(&project.folder);
    toolchain::run(&mut compiler, "the C compiler")?;
    let module = std::fs::read(&output);
    let module = module.map_err(|source| BuildError::Io { action: "read", path: output, source })?;
    let component = encode(&module)?;
    Ok(CompilerOutput {
        component,
        labels: Labels::of(project, project.about.clone()),
        dependencies: None,
        messages: String::new(),
    })
}

/// Returns the component of a module. Functions of WASI 0.1 that the C library calls become those of WASI 0.2.
fn encode(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let adapter = adapters::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
    let mut encoder = ComponentEncoder::default();
    let with_module = encoder.validate(true).module(module);
    let adapted = with_module.and_then(|it| it.adapter(adapters::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter));
    let encoded = adapted.and_then(ComponentEncoder::encode);
    encoded.map_err(|error| BuildError::Component(format!("{error:#}")))
}

/// Generated files: headers, sources, and an object file with the types of the component.
struct Bindings {
    folder: PathBuf,
    /// The files that the compiler gets.
    files: Vec<PathBuf>,
}

fn generate_bindings(wit: &Path, world: &str, scratch: &Path) -> Result<Bindings, BuildError> {
    let invalid = |error: &dyn std::fmt::Display| BuildError::wit(wit, error);
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| invalid(&format!("{error:#}")))?;
    let world = resolve
        .select_world(&[package], Some(world))
        .map_err(|error| invalid(&format!("{error:#}; correct `world` in tool.toml")))?;
    let mut generated = wit_bindgen_core::Files::default();
    let mut generator = wit_bindgen_c::Opts::default().build();
    generator.generate(&mut resolve, world, &mut generated).map_err(|error| invalid(&format!("{error:#}")))?;
    let folder = scratch.join("bindings");
    std::fs::create_dir_all(&folder).map_err(|source| BuildError::io("write", &folder, source))?;
    let mut files = Vec::new();
    for (name, contents) in generated.iter() {
        let path = folder.join(name);
        std::fs::write(&path, contents).map_err(|source| BuildError::io("write", &path, source))?;
        if path.extension().is_some_and(|extension| extension != "h") {
            files.push(path);
        }
    }
    files.sort();
    Ok(Bindings { folder, files })
}

/// Returns the C compiler: that of the WASI SDK if it is named, or that of Zig.
fn find_compiler() -> Result<Command, BuildError> {
    if let Some(sdk) = std::env::var_os(SDK_VARIABLE).filter(|sdk| !sdk.is_empty()) {
        return Ok(Command::new(Path::new(&sdk).join("bin/clang")));
    }
    let zig = toolchain::find_program(ZIG_VARIABLE, &[], "zig").ok_or_else(|| BuildError::MissingTool {
        what: "there is no C compiler for WebAssembly".to_owned(),
        remedy: format!(
            "install Zig, for example with `pip install ziglang` and {ZIG_VARIABLE} set to its program, or set \
             {SDK_VARIABLE} to the folder of the WASI SDK"
        ),
    })?;
    let mut compiler = Command::new(zig);
    compiler.arg("cc");
    Ok(compiler)
}
