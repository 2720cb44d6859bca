//! Tools in JavaScript and TypeScript with the SDK: the page about them, packages of npm, failures and mistakes.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use fumehood_tests::markdown::{Block, blocks};

use super::author::root;
use super::author_languages::{install_packages, node, run_slowly, skipped};
use super::workbench::Workbench;

/// Returns the blocks below a heading of the page.
fn page(heading: &str) -> Vec<Block> {
    let mut blocks = blocks("docs/javascript.md").unwrap();
    blocks.retain(|block| block.heading == heading);
    blocks
}

/// Creates a project with packages of npm; `None`, after saying so, if there are none.
fn project(language: &str) -> Option<Workbench> {
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "forecast", "--lang", language]).code, 0);
    install_packages(&bench.path("forecast")).then_some(bench)
}

/// Tools that log, print, keep values and fail in several ways, and patterns that need tables of Unicode.
const CORNERS: &str = r#"import { context, kv, progress, tool, ToolError } from "fumehood-tool";

const seed = Math.random();
type How = "chosen" | "deep";

export const corners = tool({
  name: "corners",
  description: "Uses the host.",
  async run() {
    console.warn("adding %d lines", 2, { of: ["a"] });
    progress(0.5, "adding");
    kv.set("last", "ä");
    await new Promise((resume) => setTimeout(resume, 1));
    const patterns = [/^[\p{L}0]+$/u.test("Äb0"), /[\p{L}--[a-z]]/v.test("a"), new RegExp("\\P{Lu}+", "u").exec("Äbc")?.[0]];
    return { last: kv.getText("last"), isSeeded: seed < 1, patterns, name: context.toolName, random: crypto.randomUUID().length };
  },
});

export const fail = tool({
  name: "fail",
  description: "Fails.",
  input: { type: "object", properties: { how: { enum: ["chosen", "deep"] } }, required: ["how"] },
  run({ how }) {
    if (how === "chosen") {
      throw new ToolError("try later", "unavailable", { retryAfter: 2 });
    }
    return deeper(how);
  },
});

function deeper(how: How): never {
  throw new RangeError(`too ${how}`);
}
"#;

/// Follows the page: the tool that calls an API, and the one with packages. They become one component, because each takes a while.
#[test]
fn javascript_tools_of_the_page_work() {
    let Some(bench) = project("js") else { return };
    std::fs::remove_file(bench.path("forecast/tests/greet.toml")).unwrap();
    let api = page("A tool that calls an API");
    let [code, manifest, weather, call] = &api[..] else { panic!("{api:?}") };
    let packages = page("TypeScript, and packages of npm");
    let [_install, notes, markdown] = &packages[..] else { panic!("{packages:?}") };
    bench.put("forecast/tool.js", format!("{}\nimport \"./notes.ts\";\nimport \"./corners.ts\";\n", code.text));
    bench.put("forecast/notes.ts", &notes.text);
    bench.put("forecast/corners.ts", CORNERS);
    bench.put("forecast/package.json", &manifest.text);
    bench.put("forecast/tests/weather.toml", &weather.text);
    bench.put("forecast/tests/notes.toml", &markdown.text);
    let built = run_slowly(&bench, "forecast", &["build"], &node());
    assert_eq!(built.code, 0, "{built:?}");
    let tested = run_slowly(&bench, "forecast", &["test", "--isolation", "in-process"], &node());
    assert_eq!((tested.code, tested.stdout.contains("2 passed, 0 failed")), (0, true), "{tested:?}");
    let line = call.text.split(" --allow-http").next().unwrap().trim();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let denied = run_slowly(&bench, "forecast", &words, &[]);
    assert!(denied.code == 1 && denied.stderr.contains("error[denied]"), "{denied:?}");
    assert!(denied.stderr.contains("to allow it: --allow-http 'GET https://api.open-meteo.com/**'"), "{denied:?}");

    let call = |arguments: &[&str]| {
        run_slowly(&bench, "forecast", &[&["call", "dist/forecast.wasm"], arguments].concat(), &[])
    };
    let used = call(&["corners", "--key-value", "1MiB"]);
    assert_eq!(used.code, 0, "{used:?}");
    let result = r#"{"last":"ä","isSeeded":true,"patterns":[true,false,"bc"],"name":"corners","random":36}"#;
    assert_eq!(used.stdout.trim(), result);
    assert!(used.stderr.contains(r#"adding 2 lines { of: ["a"] }"#), "{used:?}");
    let refused = call(&["render", "text=a", "level=7"]);
    assert!(refused.stderr.contains("error[invalid_arguments]: /level"), "{refused:?}");
    let chosen = call(&["fail", "how=chosen"]);
    assert!(chosen.stderr.contains("error[unavailable]: │ try later"), "{chosen:?}");
    let fault = call(&["fail", "how=deep"]);
    assert!(fault.stderr.contains("error[tool_failed]: │ RangeError: too deep"), "{fault:?}");
    for frame in ["RangeError at corners.ts:32", "at deeper (corners.ts:32)", "at run (corners.ts:27)"] {
        assert!(fault.stderr.contains(frame), "{frame}: {fault:?}");
    }
}

#[test]
fn mistakes_in_javascript_are_named_with_their_line() {
    let Some(bench) = project("ts") else { return };
    let refuse = |text: &str, sentences: &[&str]| {
        bench.put("forecast/tool.ts", text);
        let ran = run_slowly(&bench, "forecast", &["build"], &node());
        assert_eq!(ran.code, 1, "{ran:?}");
        for sentence in sentences {
            assert!(ran.stderr.contains(sentence), "{sentence}: {ran:?}");
        }
    };
    refuse(
        "import { readFile } from \"node:fs/promises\";\nimport crypto from \"crypto\";\nimport x from \"@a/b/c\";\n\
         import y from \"./gone.js\";\nexport default [readFile, crypto, x, y];\n",
        &[
            "tool.ts:1: `node:fs/promises` is a module of Node, which components do not have; leave it out",
            "tool.ts:2: `crypto` is a module of Node, which components do not have; use the global `crypto`",
            "tool.ts:3: the package `@a/b` is not installed; `npm install @a/b` gets it",
            "tool.ts:4: there is no file `./gone.js`\n      import y from \"./gone.js\";\n                    ^",
        ],
    );
    refuse(
        "import { tool } from \"fumehood-tool\";\n\nfunction make(name: string) {\n  return tool({ name, description: \"\", run() {} });\n}\n\
         make(\"a\");\n",
        &["tool.ts:4: TypeError: `a` has no `description`", "at make (tool.ts:4)\n"],
    );
    bench.put("forecast/package.json", r#"{"name": "forecast", "fumehood": {}}"#);
    let ran = run_slowly(&bench, "forecast", &["build"], &node());
    assert!(ran.stderr.contains("`fumehood` has no `module`; name the file, such as \"tool.js\""), "{ran:?}");
}

#[test]
fn javascript_sdk_passes_its_own_tests() {
    let node = node().first().map_or_else(|| PathBuf::from("node"), |(_, node)| node.clone());
    let mut tests = Command::new(node);
    tests.arg("--test").current_dir(root().join("guest-sdk/javascript"));
    match tests.output() {
        Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout)),
        Err(error) => skipped("JavaScript", &format!("there is no node: {error}")),
    }
}

#[test]
fn types_of_arguments_follow_from_the_schema() {
    let Some(bench) = project("ts") else { return };
    bench.put("forecast/notes.ts", &page("TypeScript, and packages of npm")[1].text);
    bench.put("forecast/corners.ts", CORNERS);
    let types = std::fs::read_to_string(root().join("guest-sdk/javascript/tests/types.ts")).unwrap();
    bench.put("forecast/types.ts", types);
    let package = root().join("guest-sdk/javascript");
    symlink(package.canonicalize().unwrap(), bench.path("forecast/node_modules/fumehood-tool")).unwrap();
    let node = node().first().map_or_else(|| PathBuf::from("node"), |(_, node)| node.clone());
    let mut compiler = Command::new(node);
    compiler.arg("node_modules/typescript/bin/tsc").current_dir(bench.path("forecast"));
    let checked = compiler.output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
