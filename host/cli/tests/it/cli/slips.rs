//! Slips of authors: at each step, an answer in words that says what was wrong and what to do, and no half-made file.

use std::collections::BTreeSet;
use std::path::Path;

use super::author::root;
use super::workbench::Workbench;

const CALCULATOR: &str = "calculator.wasm";
const PYTHON: &str = "[project]\nname = 'a'\n[tool.fumehood]\nmodule = 'app'\n";
const C: &str = "name = 'a'\n[build]\nworld = 'tools'\nsources = ['src/tool.c']\n";
const CASE: &str = "[[case]]\nname = 'one'\ntool = 'evaluate'\narguments = { expression = '1' }\n";

/// A command in a folder with these files, and its answer.
struct Slip {
    command: &'static [&'static str],
    /// Names and texts of files.
    files: &'static [(&'static str, &'static str)],
    /// A name under which the component of the calculator is there; empty without one.
    calculator: &'static str,
    code: i32,
    /// Parts of the answer: what was wrong, and what to do.
    says: &'static [&'static str],
}

const fn slip(command: &'static [&'static str], code: i32, says: &'static [&'static str]) -> Slip {
    Slip { command, files: &[], calculator: "", code, says }
}

impl Slip {
    const fn with(self, files: &'static [(&'static str, &'static str)]) -> Self {
        Self { files, ..self }
    }

    const fn calculator(self, name: &'static str) -> Self {
        Self { calculator: name, ..self }
    }

    fn check(&self) {
        let bench = Workbench::new();
        for (name, text) in self.files {
            std::fs::create_dir_all(bench.path(name).parent().unwrap()).unwrap();
            bench.put(name, text);
        }
        if !self.calculator.is_empty() {
            std::fs::create_dir_all(bench.path(self.calculator).parent().unwrap()).unwrap();
            bench.put(self.calculator, std::fs::read(root().join("example-tools/dist/calculator.wasm")).unwrap());
        }
        let before = list(&bench.path("."));
        let mut command = bench.command(self.command);
        for variable in
            ["FUMEHOOD_GUEST_RUSTC", "FUMEHOOD_COMPONENTIZE_PY", "FUMEHOOD_NODE", "FUMEHOOD_ZIG", "WASI_SDK_PATH"]
        {
            command.env_remove(variable);
        }
        command.env("PATH", "/nowhere").env("RUSTC", "/nowhere/rustc").env_remove("CARGO");
        let ran = Workbench::run_command(command);
        assert_eq!(ran.code, self.code, "{:?}: {ran:?}", self.command);
        let answer = format!("{}{}", ran.stderr, ran.stdout);
        for part in self.says {
            assert!(answer.contains(part), "{:?} should say {part:?}: {answer}", self.command);
        }
        assert!(!answer.contains("panicked") && !answer.contains("RUST_BACKTRACE"), "{answer}");
        assert_eq!(list(&bench.path(".")), before, "{:?} leaves nothing", self.command);
    }
}

/// Lists the files below a folder, without those of this user's state.
fn list(folder: &Path) -> BTreeSet<std::path::PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if !path.is_dir() {
                found.insert(path);
            } else if entry.file_name() != "state" && entry.file_name() != "data" {
                folders.push(path);
            }
        }
    }
    found
}

fn check(slips: &[Slip]) {
    slips.iter().for_each(Slip::check);
}

#[test]
fn slips_with_a_new_project() {
    check(&[
        slip(&["new", "My Tool"], 2, &["invalid project name `My Tool`", "such as `city-facts`"]),
        slip(&["new", "test"], 2, &["it is a keyword of Rust or WIT", "such as `city-facts`"]),
        slip(&["new"], 2, &["<NAME>", "Usage: fumehood new"]),
        slip(&["new", "x", "--lang", "pyton"], 2, &["unknown language `pyton`", "rust, python, javascript"]),
        slip(&["new", "x", "--dialect", "plain"], 2, &["unknown dialect `plain`", "contract, typed"]),
        slip(&["new", "x", "--lang", "c", "--dialect", "contract"], 2, &["no JSON", "leave `--dialect` out"]),
        slip(
            &["new", "x", "--langs", "py"],
            2,
            &["unexpected argument '--langs'", "a similar argument exists: '--lang'"],
        ),
        slip(&["new", "x"], 2, &["x already exists", "choose another name", "`--force`"]).with(&[("x/a", "")]),
        slip(&["new", "x", "--sdk", "nowhere"], 2, &["nowhere has no guest-sdk/Cargo.toml", "a checkout of Fumehood"]),
    ]);
}

#[test]
fn slips_with_a_manifest() {
    check(&[
        slip(&["build"], 2, &["is not the folder of a tool", "`fumehood new NAME`"]),
        slip(&["build", "--project", "nowhere"], 2, &["there is no folder nowhere", "`fumehood new NAME`"]),
        slip(&["build"], 2, &["pyproject.toml", "line 1, column 9", "expected `]`"])
            .with(&[("pyproject.toml", "[project\n")]),
        slip(&["build"], 2, &["missing [project]", "add it with the `name`"])
            .with(&[("pyproject.toml", "[tool.fumehood]\nmodule = 'app'\n")]),
        slip(&["build"], 2, &["[tool.fumehood] has no `module`", "name the file without .py"])
            .with(&[("pyproject.toml", "[project]\nname = 'a'\n")]),
        slip(&["build"], 2, &["there is no file app.py", "correct the name, or add the file"])
            .with(&[("pyproject.toml", PYTHON)]),
        slip(&["build"], 2, &["line 5", "unknown field `modul`", "`module`"])
            .with(&[("pyproject.toml", "[project]\nname = 'a'\n[tool.fumehood]\nmodule = 'app'\nmodul = 'b'\n")]),
        slip(&["build"], 2, &["http = 'yes'", "expected a boolean"])
            .with(&[("pyproject.toml", "[project]\nname = 'a'\n[tool.fumehood]\nhttp = 'yes'\n")]),
        slip(&["build"], 2, &["unknown key `htpp` in [wants]", "did you mean `http`?"])
            .with(&[("pyproject.toml", "[project]\nname = 'a'\n[tool.fumehood.wants]\nhtpp = []\n")]),
        slip(&["build"], 2, &["the name `a b` contains ' '", "expected only `a-z`"])
            .with(&[("pyproject.toml", "[project]\nname = 'a b'\n")]),
        slip(&["build"], 2, &["package.json", "trailing comma at line 1"])
            .with(&[("package.json", "{\"name\": \"a\",}")]),
        slip(&["build"], 2, &["`fumehood` has no `module`", "such as \"tool.js\""])
            .with(&[("package.json", "{\"name\": \"a\"}")]),
        slip(&["build"], 2, &["`module` is `tool.js`, and there is no such file", "or add the file"])
            .with(&[("package.json", "{\"name\": \"a\", \"fumehood\": {\"module\": \"tool.js\"}}")]),
        slip(&["build"], 2, &["[build] has no `world`", "name the WIT world"])
            .with(&[("tool.toml", "name = 'a'\n[build]\nsources = ['a.c']\n")]),
        slip(&["build"], 2, &["`sources` names src/tool.c, which does not exist", "or add the file"])
            .with(&[("tool.toml", C)]),
        slip(&["build"], 2, &["there is no wit with the WIT of the tool", "in `wit`"])
            .with(&[("tool.toml", C), ("src/tool.c", "")]),
        slip(&["build"], 2, &["World `tools` not found", "correct `world` in tool.toml"]).with(&[
            ("tool.toml", C),
            ("src/tool.c", ""),
            ("wit/a.wit", "package a:b;\nworld other {}\n"),
        ]),
        slip(&["build"], 2, &["wit is not valid WIT", "expected '{'"]).with(&[
            ("tool.toml", C),
            ("src/tool.c", ""),
            ("wit/a.wit", "package a:b;\nworld tools\n"),
        ]),
        slip(&["build"], 2, &["missing [package]", "`--project FOLDER`"]).with(&[("Cargo.toml", "[workspace]\n")]),
        slip(&["build"], 2, &["unknown target `wasm32-wasi`", "expected wasm32-unknown-unknown"])
            .with(&[("Cargo.toml", "[package]\nname = 'a'\n[package.metadata.fumehood]\ntarget = 'wasm32-wasi'\n")]),
    ]);
}

#[test]
fn slips_with_a_build() {
    check(&[
        slip(&["biuld"], 2, &["unrecognized subcommand 'biuld'", "'build'"]),
        slip(&["build", "--outptu", "x"], 2, &["unexpected argument '--outptu'", "'--output'"]),
        slip(&["build"], 2, &["componentize-py is not installed", "pip install componentize-py=="])
            .with(&[("pyproject.toml", PYTHON), ("app.py", "")]),
        slip(&["build"], 2, &["node is not installed", "install Node 20"])
            .with(&[("package.json", "{\"name\": \"a\", \"fumehood\": {\"module\": \"a.js\"}}"), ("a.js", "")]),
        slip(&["build", "--check"], 2, &["two builds always differ", "leave `--check` out"])
            .with(&[("pyproject.toml", PYTHON), ("app.py", "")]),
        slip(&["dev"], 2, &["is not the folder of a tool", "`fumehood new NAME`"]),
        slip(&["dev", "--project", "nowhere"], 2, &["there is no folder nowhere", "`fumehood new NAME`"]),
        slip(&["dev", "--listen", "8080"], 2, &["invalid value '8080' for '--listen <ADDRESS>'"]),
        slip(&["dev", "--listen", "0.0.0.0:0", "--no-log"], 2, &["0.0.0.0", "loopback"])
            .with(&[("tool.toml", "name = 'a'\n")])
            .calculator("dist/a.wasm"),
        slip(&["dev", "--port", "1"], 2, &["unexpected argument '--port'", "Usage: fumehood dev"]),
    ]);
}

/// The manifest of a component that another program builds.
const BUILT: (&str, &str) = ("tool.toml", "name = 'a'\n");

macro_rules! cases {
    ($text:expr) => {
        &[BUILT, ("tests/a.toml", concat!("[[case]]\nname = 'one'\ntool = 'evaluate'\n", $text))]
    };
}

#[test]
fn slips_with_cases() {
    check(&[
        slip(&["test"], 2, &["no such file dist/a.wasm", "build it with `fumehood build`"]).with(&[BUILT]),
        slip(&["test"], 2, &["no matching cases", "`fumehood test --record TOOL"])
            .with(&[BUILT])
            .calculator("dist/a.wasm"),
        slip(&["test", "two"], 2, &["none of the 1 cases", "`two`", "leave it out to run all"])
            .with(&[BUILT, ("tests/a.toml", CASE)])
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["line 4", "unknown field `expct`", "`expect`"])
            .with(cases!("expct = 1\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["case \"one\"", "needs one of `text`, `json`"])
            .with(cases!("expect = { text = 'a', json = 1 }\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["invalid request `api.example.com`", "such as \"GET https://"])
            .with(cases!("http = [{ request = 'api.example.com' }]\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["`arguments` is not an object", "expected a table"])
            .with(cases!("arguments = '[1]'\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["invalid time `soon`", "such as `250ms`"])
            .with(cases!("limits = { timeout = 'soon' }\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["unknown field `htpp`", "`http`"])
            .with(cases!("grant = { htpp = [] }\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["`secrets` has `github`", "add it to its wishes"])
            .with(cases!("secrets = { github = 'token' }\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 2, &["another case has the same name", "rename one"])
            .with(cases!("[[case]]\nname = 'one'\ntool = 'evaluate'\n"))
            .calculator("dist/a.wasm"),
        slip(&["test"], 1, &["unknown tool `evalute`", "hint: the tools are: add, divide, evaluate"])
            .with(&[BUILT, ("tests/a.toml", "[[case]]\nname = 'one'\ntool = 'evalute'\nexpect = { text = 'a' }\n")])
            .calculator("dist/a.wasm"),
        slip(&["test"], 6, &["cannot load dist/a.wasm", "a component starts with"]).with(&[
            BUILT,
            ("tests/a.toml", CASE),
            ("dist/a.wasm", "text"),
        ]),
        slip(&["test", "--record", "evalute"], 3, &["no tool `evalute`", "did you mean `evaluate`?"])
            .with(&[BUILT])
            .calculator("dist/a.wasm"),
        slip(
            &["test", "--record", "evaluate", "--arguments", "{"],
            2,
            &["--arguments is not JSON", "such as '{\"n\": 1}'"],
        )
        .with(&[BUILT])
        .calculator("dist/a.wasm"),
    ]);
}

#[test]
fn slips_with_a_component() {
    check(&[
        slip(&["call", "calculater.wasm", "add"], 6, &["no file calculater.wasm", "did you mean `calculator.wasm`?"])
            .calculator(CALCULATOR),
        slip(&["call", CALCULATOR, "evalute"], 3, &["unknown tool `evalute`", "the tools are: add"])
            .calculator(CALCULATOR),
        slip(&["call", CALCULATOR], 2, &["missing TOOL", "Call one like this"]).calculator(CALCULATOR),
        slip(&["call", CALCULATOR, "evaluate", "expresion=1"], 3, &["did you mean \"expression\"?", "call again"])
            .calculator(CALCULATOR),
        slip(&["call", CALCULATOR, "evaluate"], 3, &["expected the property \"expression\"", "the tool did not run"])
            .calculator(CALCULATOR),
        slip(&["call", CALCULATOR, "evaluate", "--allow-htp", "x"], 2, &["'--allow-htp'", "'--allow-http'"])
            .calculator(CALCULATOR),
        slip(
            &["call", CALCULATOR, "evaluate", "expression=1", "--allow-http", "a.example"],
            2,
            &["invalid rule `a.example`", "it must start with `https://`"],
        )
        .calculator(CALCULATOR),
        slip(&["call", "a.py", "f"], 6, &["this is not WebAssembly", "a component starts with"]).with(&[("a.py", "x")]),
        slip(&["inspect", "."], 6, &["is not a regular file", "expected the path of a component"]),
        slip(&["add", "nowhere.wasm"], 2, &["no such file nowhere.wasm", "expected oci://HOST/NAME:TAG"]),
        slip(&["add", CALCULATOR], 3, &["nothing was added", "pass `--yes`"]).calculator(CALCULATOR),
        slip(&["add", CALCULATOR, "--yes"], 2, &["already has `calculator`", "`--name NAME`"])
            .with(&[("fumehood.toml", "[tools.calculator]\ncomponent = 'calculator.wasm'\n")])
            .calculator(CALCULATOR),
        slip(&["add", "oci://ghcr.io"], 2, &["has no registry", "expected oci://HOST"]),
        slip(&["add", CALCULATOR, "--name", "A B", "--yes"], 2, &["the name `A B` contains", "expected only `a-z`"])
            .calculator(CALCULATOR),
        slip(&["remove", "calculater"], 2, &["no component `calculater`", "did you mean `calculator`?"])
            .with(&[("fumehood.toml", "[tools.calculator]\ncomponent = 'calculator.wasm'\n")])
            .calculator(CALCULATOR),
        slip(&["publish", "oci://ghcr.io/acme/a"], 2, &["has no version", "add a tag"]),
        slip(&["publish", "ghcr.io/acme/a:1"], 2, &["has no registry", "expected oci://HOST"]),
        slip(&["publish", "oci://ghcr.io/acme/a:1"], 2, &["no such file dist/a.wasm", "`fumehood build`"])
            .with(&[BUILT]),
        slip(&["publish", "oci://ghcr.io/acme/a:1", "--sign", "nobody"], 2, &["no key `nobody`", "`fumehood key new`"])
            .with(&[BUILT])
            .calculator("dist/a.wasm"),
    ]);
}
