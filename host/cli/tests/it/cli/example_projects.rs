//! The example projects of `example-tools`, as an author would write them: built from their sources, with their cases.
//!
//! Those of one language become one component, because the runtime of the language is what takes time to compile.

use std::path::{Path, PathBuf};

use fumehood_author::build::{check_settings, check_syntax};
use fumehood_author::cases::CaseFile;
use fumehood_author::{Language, Project};

use super::author::root;
use super::author_languages::{
    install_packages, node, python_compiler, run_slowly, rust_compiler, shared_variables, skipped,
};
use super::workbench::Workbench;

const PYTHON: [&str; 4] = ["csv-statistics", "jinja", "weather", "yaml"];
const JAVASCRIPT: [&str; 3] = ["dates", "github-reader", "markdown"];
const RUST: &str = "qr-code";
/// Maximum number of lines of an example.
const MAX_LINES: usize = 60;

fn folder(name: &str) -> PathBuf {
    root().join("example-tools").join(name)
}

fn source(name: &str) -> PathBuf {
    let project = Project::open(&folder(name)).unwrap();
    let module = project.settings.module.as_deref();
    folder(name).join(match project.language {
        Language::Python => format!("{}.py", module.unwrap()),
        Language::Rust => "src/lib.rs".to_owned(),
        _ => module.unwrap().to_owned(),
    })
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Puts the cases of an example into the project `examples`. Returns their number.
fn put_cases(bench: &Workbench, name: &str) -> usize {
    let files = CaseFile::read_all(&folder(name).join("tests")).unwrap();
    for file in &files {
        let place = format!("examples/tests/{name}-{}", file.path.file_name().unwrap().display());
        bench.put(&place, &file.text);
    }
    files.iter().map(|file| file.cases.len()).sum()
}

/// Builds the project `examples`, and runs its cases.
fn build_and_test(bench: &Workbench, variables: &[(&str, PathBuf)], cases: usize) {
    let built = run_slowly(bench, "examples", &["build"], variables);
    assert_eq!(built.code, 0, "{built:?}");
    let tested = run_slowly(bench, "examples", &["test", "--isolation", "in-process"], variables);
    let passed = format!("{cases} passed, 0 failed");
    assert!(cases > 0 && tested.code == 0 && tested.stdout.contains(&passed), "{tested:?}");
}

#[test]
fn examples_are_short_projects_with_a_page() {
    let page = read(root().join("docs/examples.md"));
    for name in [&PYTHON[..], &JAVASCRIPT, &[RUST]].concat() {
        let project = Project::open(&folder(name)).unwrap();
        assert_eq!(project.name, name);
        check_settings(&project).unwrap();
        check_syntax(&project).unwrap();
        let lines = read(source(name)).lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines; at most {MAX_LINES}");
        assert!(page.contains(&format!("(../example-tools/{name})")), "{name} is not on the page");
        assert!(read(folder(name).join("README.md")).starts_with(&format!("# {name}\n")), "{name}");
    }
}

#[test]
fn python_examples_are_built_and_pass_their_cases() {
    let Some(variables) = python_compiler() else { return };
    let bench = Workbench::new();
    std::fs::create_dir_all(bench.path("examples/tests")).unwrap();
    // With other names than those of the packages that they import.
    let modules = PYTHON.map(|name| format!("{}_tool", name.replace('-', "_")));
    for (name, module) in PYTHON.iter().zip(&modules) {
        bench.put(&format!("examples/{module}.py"), read(source(name)));
    }
    bench.put("examples/all_tools.py", format!("import {}\n", modules.join(", ")));
    let manifest = read(folder("weather").join("pyproject.toml"));
    bench.put("examples/pyproject.toml", manifest.replace("module = \"app\"", "module = \"all_tools\""));
    let cases = PYTHON.map(|name| put_cases(&bench, name)).iter().sum();
    build_and_test(&bench, &variables, cases);
}

#[test]
fn javascript_examples_are_built_and_pass_their_cases() {
    let bench = Workbench::new();
    std::fs::create_dir_all(bench.path("examples/tests")).unwrap();
    if !install_packages(&bench.path("examples")) {
        return;
    }
    let mut imports = String::new();
    for name in JAVASCRIPT {
        let source = source(name);
        let file = format!("{name}.{}", source.extension().unwrap().display());
        bench.put(&format!("examples/{file}"), read(source));
        imports.push_str(&format!("import \"./{file}\";\n"));
    }
    bench.put("examples/all_tools.js", imports);
    let manifest = read(folder("github-reader").join("package.json"));
    bench.put("examples/package.json", manifest.replace("\"tool.ts\"", "\"all_tools.js\""));
    let cases = JAVASCRIPT.map(|name| put_cases(&bench, name)).iter().sum();
    build_and_test(&bench, &node(), cases);
}

#[test]
fn rust_example_is_built_and_passes_its_cases() {
    let Some(compiler) = rust_compiler() else { return skipped("Rust", "there is no compiler for WebAssembly") };
    let variables = [compiler, shared_variables()].concat();
    let bench = Workbench::new();
    std::fs::create_dir_all(bench.path("examples/tests")).unwrap();
    std::fs::create_dir(bench.path("examples/src")).unwrap();
    let manifest = read(folder(RUST).join("Cargo.toml"));
    bench.put("examples/Cargo.toml", manifest.replace("../..", root().to_str().unwrap()));
    // The versions of this repository, which are on this machine. The crates of the example are added to them.
    bench.put("examples/Cargo.lock", read(root().join("Cargo.lock")));
    bench.put("examples/src/lib.rs", read(source(RUST)));
    let cases = put_cases(&bench, RUST);
    build_and_test(&bench, &variables, cases);
    let drawn = bench.run(&["call", "examples/dist/qr-code.wasm", "picture", "text=HI", "--json"]);
    assert!(drawn.code == 0 && drawn.stdout.contains("image/svg+xml"), "{drawn:?}");
}
