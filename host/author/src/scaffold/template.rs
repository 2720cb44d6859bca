//! The files of new projects. Their texts are in `templates/`.

use std::path::{Path, PathBuf};

use super::Kind;
use crate::build::{COMPONENTIZE_PY, ESBUILD};
use crate::language::{Dialect, Language};

/// The releases of ComponentizeJS and of what it imports that scaffolds ask for, and that are tested.
const COMPONENTIZE_JS: &str = "0.23.0";
const PREVIEW2_SHIM: &str = "0.25.0";
/// The version of the crates that a project depends on, and of the command in its CI file.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Includes a file of `templates/`.
macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../templates/", $path))
    };
}

/// Texts that differ between languages, for the files that all of them share.
struct Words {
    /// The tools to install once, for README.md.
    setup: String,
    /// The rules of the language, for AGENTS.md.
    rules: &'static str,
    /// Commands before those of Fumehood.
    before: &'static str,
    /// Steps of the CI file.
    steps: String,
    gitignore: &'static str,
}

/// Returns the files of a project.
pub(super) fn files(name: &str, kind: &Kind, sdk: Option<&Path>) -> Vec<(PathBuf, String)> {
    let mut files = match kind {
        Kind::Tool(language, dialect) => {
            let mut files = sources(name, *language, *dialect, sdk);
            files.extend(common(name, *language, *dialect));
            files
        }
        Kind::Hook(language) => hook(name, *language, sdk),
        Kind::Agent => agent(name, sdk),
        Kind::Folder(_) => return Vec::new(),
    };
    files.push(file("LICENSE", template!("common/LICENSE"), &[("name", name)]));
    files.sort();
    files
}

fn file(path: &str, text: &str, values: &[(&str, &str)]) -> (PathBuf, String) {
    let mut text = text.to_owned();
    for (key, value) in values {
        text = text.replace(&format!("{{{{{key}}}}}"), value);
    }
    (PathBuf::from(path), text)
}

/// Returns the files that a tool has in every language.
fn common(name: &str, language: Language, dialect: Dialect) -> [(PathBuf, String); 5] {
    let Words { setup, rules, before, steps, gitignore } = words(language, dialect);
    let refusal = match dialect {
        Dialect::Contract => "invalid_arguments",
        Dialect::Typed => "tool_failed",
    };
    // The runtimes of the other two put random numbers into a component.
    let check = if matches!(language, Language::Rust | Language::C) { " --check" } else { "" };
    let readme = [("name", name), ("setup", setup.as_str())];
    let agents = [("name", name), ("rules", rules), ("before", before)];
    let workflow = [("steps", steps.as_str()), ("check", check), ("version", VERSION)];
    [
        file("README.md", template!("common/README.md"), &readme),
        file("AGENTS.md", template!("common/AGENTS.md"), &agents),
        file(".gitignore", gitignore, &[]),
        file(".github/workflows/ci.yml", template!("common/ci.yml"), &workflow),
        file("tests/greet.toml", template!("common/greet.toml"), &[("refusal", refusal)]),
    ]
}

/// Returns the command that installs the compiler of a language once, in the folder of a project; `None` if it takes more
/// than one.
pub(super) fn setup_command(language: Language) -> Option<String> {
    match language {
        Language::Rust => Some("rustup target add wasm32-unknown-unknown".to_owned()),
        Language::Python => {
            Some(format!("python3 -m venv .venv && .venv/bin/pip install componentize-py=={COMPONENTIZE_PY}"))
        }
        Language::Javascript | Language::Typescript => Some("npm install".to_owned()),
        Language::C => None,
    }
}

fn words(language: Language, dialect: Dialect) -> Words {
    let install = setup_command(language).unwrap_or_default();
    match language {
        Language::Rust => Words {
            setup: format!("Install Rust, and run `{install}` once."),
            rules: match dialect {
                Dialect::Contract => concat!(
                    "- A tool is a function with `#[tool]`. Models read its doc comment, and the doc comments of its \
                     parameters.\n",
                    "- Return a `ToolError`. A panic ends the call without a message for the model.\n",
                    "- `wasm32-unknown-unknown` has no standard input, files, clocks or random numbers of `std`."
                ),
                Dialect::Typed => concat!(
                    "- A tool is a function that `wit/world.wit` exports. Models read its comment there.\n",
                    "- Return `Err`. A panic ends the call without a message for the model.\n",
                    "- `wasm32-unknown-unknown` has no standard input, files, clocks or random numbers of `std`."
                ),
            },
            before: "cargo test\ncargo clippy --all-targets -- -D warnings\n",
            steps: to_steps(&[&install, "cargo test"]),
            gitignore: template!("rust/gitignore"),
        },
        Language::Python => Words {
            setup: format!("Install Python, and run `{install}` once."),
            rules: python_rules(dialect),
            before: "",
            steps: to_steps(&[&install]),
            gitignore: template!("python/gitignore"),
        },
        Language::Javascript | Language::Typescript => Words {
            setup: format!("Install Node 20 or newer, and run `{install}` once."),
            rules: javascript_rules(dialect),
            before: "",
            steps: to_steps(&[&install]),
            gitignore: template!("javascript/gitignore"),
        },
        Language::C => Words {
            setup: "Install Zig, or the WASI SDK with `WASI_SDK_PATH` set to its folder.".to_owned(),
            rules: concat!(
                "- `tools.h` is generated from `wit/world.wit` when the component is built.\n",
                "- Allocate returned values with `malloc`. The caller frees them.\n",
                "- Strings have no terminating zero byte. Use their lengths."
            ),
            before: "",
            steps: to_steps(&[
                "pip install ziglang",
                "echo \"FUMEHOOD_ZIG=$(python3 -c 'import ziglang; print(ziglang.__path__[0])')/zig\" >> \"$GITHUB_ENV\"",
            ]),
            gitignore: template!("c/gitignore"),
        },
    }
}

fn python_rules(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Contract => concat!(
            "- A tool is a function with `@tool`. Models read its docstring, and the descriptions of its parameters there.\n",
            "- Top-level code runs once, when the component is built. Every call starts from the resulting state.\n",
            "- Raise `ToolError` with a message for the model. Of other exceptions, it reads only the last line.\n",
            "- Requests need `http = true` in pyproject.toml, and the operator's grant."
        ),
        Dialect::Typed => concat!(
            "- Import at the top of the file. Other imports are not part of the component.\n",
            "- Top-level code runs once, when the component is built. Every call starts from the resulting state.\n",
            "- Raise `Err` with a message for the model. Of other exceptions, the model reads only the last line."
        ),
    }
}

fn javascript_rules(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Contract => concat!(
            "- A tool is what `tool({ … })` makes. Models read its description, and the descriptions in its schema.\n",
            "- Top-level code runs once, when the component is built. Every call starts from the resulting state.\n",
            "- Throw `ToolError` with a message for the model. Of other errors, it reads the name and the message.\n",
            "- Requests with `fetch` need `\"http\": true` in package.json, and the operator's grant.\n",
            "- Packages of npm become part of the component. Modules of Node do not exist."
        ),
        Dialect::Typed => concat!(
            "- Top-level code runs once, when the component is built. Every call starts from the resulting state.\n",
            "- Throw the error type of the interface, such as a text. The message of an `Error` may get lost.\n",
            "- `disable` in package.json lists features that the component does not need. Remove `\"http\"` to send \
             requests."
        ),
    }
}

/// Returns the steps of a workflow that run these commands.
fn to_steps(commands: &[&str]) -> String {
    commands.iter().map(|command| format!("      - run: {command}")).collect::<Vec<_>>().join("\n")
}

/// Returns the manifest, the code and the WIT of a tool.
fn sources(name: &str, language: Language, dialect: Dialect, sdk: Option<&Path>) -> Vec<(PathBuf, String)> {
    let mut files = match language {
        Language::Rust => return rust_sources(name, dialect, sdk),
        Language::Python => {
            let (settings, code) = match dialect {
                Dialect::Contract => (template!("python/contract/settings.toml"), template!("python/contract/app.py")),
                Dialect::Typed => (template!("python/typed/settings.toml"), template!("python/typed/app.py")),
            };
            let values = [("name", name), ("settings", settings.trim_end())];
            vec![file("pyproject.toml", template!("python/pyproject.toml.in"), &values), file("app.py", code, &[])]
        }
        Language::Javascript | Language::Typescript => javascript_sources(name, language, dialect),
        Language::C => vec![
            file("tool.toml", template!("c/tool.toml.in"), &[("name", name)]),
            file("src/tool.c", template!("c/typed/tool.c"), &[]),
        ],
    };
    files.extend(wit(name, dialect));
    files
}

fn javascript_sources(name: &str, language: Language, dialect: Dialect) -> Vec<(PathBuf, String)> {
    let is_typescript = language == Language::Typescript;
    let (module, code, settings) = match dialect {
        Dialect::Contract if is_typescript => ("tool.ts", template!("javascript/contract/tool.js"), "\"http\": false"),
        Dialect::Contract => ("tool.js", template!("javascript/contract/tool.js"), "\"http\": false"),
        Dialect::Typed => {
            ("tool.js", template!("javascript/typed/tool.js"), template!("javascript/typed/settings.json"))
        }
    };
    let values = [
        ("name", name),
        ("module", module),
        ("settings", settings.trim_end()),
        ("componentize_js", COMPONENTIZE_JS),
        ("preview2_shim", PREVIEW2_SHIM),
        ("esbuild", ESBUILD),
    ];
    let mut files =
        vec![file("package.json", template!("javascript/package.json.in"), &values), file(module, code, &[])];
    if is_typescript {
        files.push(file("tsconfig.json", template!("javascript/contract/tsconfig.json"), &[]));
    }
    files
}

fn rust_sources(name: &str, dialect: Dialect, sdk: Option<&Path>) -> Vec<(PathBuf, String)> {
    let (dependencies, code) = match dialect {
        Dialect::Contract => {
            let guest = dependency("fumehood-guest", "guest-sdk", sdk);
            (
                format!("{guest}\nschemars = \"1.2\"\nserde = {{ version = \"1\", features = [\"derive\"] }}"),
                template!("rust/contract/lib.rs.in"),
            )
        }
        Dialect::Typed => ("wit-bindgen = \"0.61.1\"".to_owned(), template!("rust/typed/lib.rs.in")),
    };
    let manifest = [("name", name), ("dependencies", dependencies.as_str())];
    let mut files = vec![file("Cargo.toml", template!("rust/Cargo.toml.in"), &manifest), file("src/lib.rs", code, &[])];
    files.extend(wit(name, dialect));
    files
}

/// Returns the WIT of a tool with plain functions. The SDKs have the contract.
fn wit(name: &str, dialect: Dialect) -> Option<(PathBuf, String)> {
    (dialect == Dialect::Typed).then(|| file("wit/world.wit", template!("common/world.wit"), &[("name", name)]))
}

/// Returns the files of a hook in Rust or Python.
fn hook(name: &str, language: Language, sdk: Option<&Path>) -> Vec<(PathBuf, String)> {
    let Words { setup, gitignore, .. } = words(language, Dialect::Contract);
    let mut files = if language == Language::Python {
        let values = [("name", name), ("settings", template!("python/hook/settings.toml").trim_end())];
        let code = template!("python/hook/app.py");
        vec![file("pyproject.toml", template!("python/pyproject.toml.in"), &values), file("app.py", code, &[])]
    } else {
        let dependencies = dependency("fumehood-guest-hooks", "guest-sdk/hooks", sdk);
        let values = [("name", name), ("dependencies", dependencies.as_str())];
        let code = template!("rust/hook/lib.rs.in");
        vec![file("Cargo.toml", template!("rust/Cargo.toml.in"), &values), file("src/lib.rs", code, &[])]
    };
    files.push(file("README.md", template!("hook/README.md"), &[("name", name), ("setup", setup.as_str())]));
    files.push(file(".gitignore", gitignore, &[]));
    files
}

fn agent(name: &str, sdk: Option<&Path>) -> Vec<(PathBuf, String)> {
    let dependencies = [
        dependency("fumehood", "host/fumehood", sdk),
        "schemars = \"1.2\"".to_owned(),
        "serde = { version = \"1\", features = [\"derive\"] }".to_owned(),
        "tokio = { version = \"1\", features = [\"macros\", \"rt\"] }".to_owned(),
    ];
    vec![
        file(
            "Cargo.toml",
            template!("agent/Cargo.toml.in"),
            &[("name", name), ("dependencies", &dependencies.join("\n"))],
        ),
        file("src/main.rs", template!("agent/main.rs"), &[]),
        file("README.md", template!("agent/README.md"), &[("name", name)]),
        file("AGENTS.md", template!("agent/AGENTS.md"), &[("name", name)]),
        file(".gitignore", template!("agent/gitignore"), &[]),
        file(".github/workflows/ci.yml", template!("agent/ci.yml"), &[]),
    ]
}

/// Returns a dependency on a crate of Fumehood: the version that is published, or the folder of a checkout.
fn dependency(name: &str, folder: &str, sdk: Option<&Path>) -> String {
    match sdk {
        // Quoted as in Rust, which is a string of TOML too.
        Some(checkout) => format!("{name} = {{ path = {:?} }}", checkout.join(folder).display().to_string()),
        None => format!("{name} = \"{VERSION}\""),
    }
}
