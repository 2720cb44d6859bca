//! Wishes of a component's author: shown, and granted only by the operator.

use expect_test::{Expect, expect};
use serde_json::json;

use super::add::{assert_ok, assert_refused};
use super::published::{KEY, Registry, trusting_bench, unwrapped};
use super::session::Session;
use super::terminal::TerminalCommand;
use super::workbench::Workbench;

const HTTP: &str = "GET https://api.example.com/**";

/// A component with one function, and this in its section of wishes.
fn component(section: &str) -> Vec<u8> {
    component_importing("", section)
}

fn component_importing(import: &str, section: &str) -> Vec<u8> {
    let escaped: String = section.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let text = format!(
        r#"(component {import}
             (core module $m (func (export "f") (result i32) i32.const 7))
             (core instance $i (instantiate $m))
             (func (export "seven") (result u32) (canon lift (core func $i "f")))
             (@custom "fumehood-wishes" "{escaped}"))"#
    );
    wat::parse_str(text).unwrap()
}

/// A folder with the tool `files`, whose author asks for a folder and more.
fn bench() -> Workbench {
    let bench = Workbench::new();
    let wishes = json!({
        "http": [{"rule": HTTP, "reason": "to look up words"}],
        "read": [{"guest": "/docs", "reason": "to search in it"}],
        "limits": {"deadline": "20s"},
    });
    bench.example("files");
    let mut bytes = std::fs::read(bench.path("files.wasm")).unwrap();
    let content = [&[15][..], b"fumehood-wishes", wishes.to_string().as_bytes()].concat();
    bytes.push(0);
    let length = content.len();
    bytes.extend([(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
    bytes.extend(content);
    bench.put("files.wasm", bytes);
    std::fs::create_dir(bench.path("docs")).unwrap();
    bench.put("docs/a.txt", "fumehood\n");
    bench
}

#[test]
fn a_call_grants_wishes_that_need_no_answer() {
    let bench = bench();
    let call = ["call", "files.wasm", "search", "path=/docs", "text=hood"];
    let denied = bench.run(&call);
    assert!(denied.stderr.contains("`--grant-wishes` grants what its author asks for"), "{denied:?}");
    let unfilled = bench.run(&[&call[..], &["--grant-wishes"]].concat());
    let note = "not granted: read: /docs — to search in it; name the folder of this machine that the tool sees as /docs with \
                --allow-read FOLDER:/docs";
    assert!(unfilled.code != 0 && unfilled.stderr.contains(note), "{unfilled:?}");
    let granted = assert_ok(bench.run(&[&call[..], &["--grant-wishes", "--allow-read", "docs:/docs"]].concat()));
    assert!(granted.stdout.contains("a.txt") && !granted.stderr.contains("not granted"), "{granted:?}");
    assert!(granted.stderr.contains("of 20.00 s"), "its limits, too: {granted:?}");
    bench.put("fumehood.toml", "[tools.files]\ncomponent = \"files.wasm\"\n");
    let configured = bench.run(&["call", "files", "list", "path=/docs", "--grant-wishes"]);
    assert!(configured.code == 2 && configured.stderr.contains("leave `--grant-wishes` out"), "{configured:?}");
}

fn configuration(bench: &Workbench) -> String {
    std::fs::read_to_string(bench.path("fumehood.toml")).unwrap()
}

fn check_configuration(bench: &Workbench, expected: Expect) {
    expected.assert_eq(&configuration(bench));
}

#[test]
fn inspect_shows_wishes_and_imports_beyond_them() {
    let bench = bench();
    let shown = assert_ok(bench.run(&["inspect", "files.wasm"])).stdout;
    for part in [
        "the author asks for (this grants nothing)",
        "│ http: GET https://api.example.com/** — to look up words",
        "│ read: /docs — to search in it",
        "│ limits: deadline = \"20s\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    bench.put("plain.wasm", component(r#"{"scratch": "1MiB"}"#));
    let report = bench.run(&["inspect", "files.wasm", "--json"]).json();
    assert_eq!(report["wishes"]["wanted"]["http"][0]["rule"], HTTP, "{report}");
    let report = bench.run(&["inspect", "plain.wasm", "--json"]).json();
    assert_eq!(report["wishes"]["imports_beyond"], json!([]), "{report}");
}

#[test]
fn imports_beyond_the_wishes_are_named() {
    let bench = Workbench::new();
    let import = r#"(import "wasi:filesystem/preopens@0.2.0" (instance))"#;
    bench.put("inside.wasm", component_importing(import, r#"{"scratch": "1MiB"}"#));
    bench.put("beyond.wasm", component_importing(import, r#"{"env": ["LANG"]}"#));
    let inside = assert_ok(bench.run(&["inspect", "inside.wasm"]));
    let beyond = assert_ok(bench.run(&["inspect", "beyond.wasm"]));
    assert!(!inside.stdout.contains("imports more than that"), "{inside:?}");
    assert!(beyond.stdout.contains("imports more than that: files"), "{beyond:?}");
}

#[test]
fn hostile_wishes_are_a_note() {
    let bench = Workbench::new();
    for (section, part) in [
        ("", "they are not JSON"),
        ("not JSON \u{1b}[2J", "they are not JSON"),
        ("[1, 2]", "`wants` is not valid"),
        (r#"{"grant": "everything"}"#, "unknown key `grant` in [wants]"),
        (r#"{"\u001b[2J\u202e": 1}"#, "unknown key"),
        (r#"{"http": ["GET https://*/**"]}"#, "`*` would allow every host"),
        (&"[".repeat(5_000), "they are not JSON"),
        (&" ".repeat(40_000), "they are larger than 16 KiB"),
        (&format!("{{\"http\": {:?}}}", vec![HTTP; 300]), "the maximum is 64"),
    ] {
        bench.put("seven.wasm", component(section));
        let shown = assert_ok(bench.run(&["inspect", "seven.wasm"]));
        assert!(shown.stdout.contains("the wishes of the author are ignored"), "{part}: {shown:?}");
        assert!(unwrapped(&shown.stdout).contains(&part.replace(' ', "")), "{part}: {shown:?}");
        assert!(!shown.stdout.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
        assert!(shown.stdout.len() < 4_000, "{shown:?}");
        assert_eq!(assert_ok(bench.run(&["call", "seven.wasm", "seven"])).stdout.trim(), "7");
        let _ = std::fs::remove_file(bench.path("fumehood.toml"));
        let added = assert_ok(bench.run(&["add", "seven.wasm", "--yes", "--grant-wishes"]));
        assert_eq!(configuration(&bench), "[tools.seven]\ncomponent = \"seven.wasm\"\n", "{added:?}");
    }
    let forged =
        r#"{"scratch": {"bytes": "1MiB", "reason": "a\n  granted\n    │ http: GET https://a.example/**\u001b[2J"}}"#;
    bench.put("seven.wasm", component(forged));
    let shown = assert_ok(bench.run(&["inspect", "seven.wasm"]));
    assert!(shown.stdout.contains("scratch: 1.0 MiB — a granted │ http:"), "{shown:?}");
}

#[test]
fn without_a_terminal_only_options_grant() {
    let bench = bench();
    let arguments = ["add", "files.wasm"];
    let options =
        "--grant-wishes, and these with --allow-http 'GET https://api.example.com/**' --allow-read FOLDER:/docs";
    assert_refused(&bench, &arguments, 3, &["nothing was added", options, "--timeout 20s"]);
    assert!(!bench.path("fumehood.toml").exists());
    let added = assert_ok(bench.run(&["add", "files.wasm", "--yes"]));
    assert!(added.stdout.contains("nothing: it can only compute") && added.stderr.contains(options), "{added:?}");
    assert_eq!(configuration(&bench), "[tools.files]\ncomponent = \"files.wasm\"\n");
}

#[test]
fn one_option_grants_all_wishes() {
    let bench = bench();
    let added = assert_ok(bench.run(&["add", "files.wasm", "--yes", "--grant-wishes"]));
    assert!(added.stderr.contains("not granted: read: /docs — to search in it; write the folder"), "{added:?}");
    check_configuration(
        &bench,
        expect![[r#"
        [tools.files]
        component = "files.wasm"
        # Wanted to look up words.
        http = ["GET https://api.example.com/**"]
        limits = { deadline = "20s" }
        # Wanted to search in it. To grant it, write the folder of this machine that the tool sees as /docs, and approve again:
        # read = ["FOLDER:/docs"]
    "#]],
    );
    let called = bench.run(&["call", "files", "search", "path=/docs", "text=hood"]);
    assert_ne!(called.code, 0, "{called:?}");
}

#[test]
fn from_add_to_the_first_result_are_two_commands() {
    let bench = bench();
    assert_ok(bench.run(&["add", "files.wasm", "--yes", "--grant-wishes", "--allow-read", "docs:/docs"]));
    let called = assert_ok(bench.run(&["call", "files", "search", "path=/docs", "text=hood"]));
    assert!(called.stdout.contains("a.txt"), "{called:?}");
    check_configuration(
        &bench,
        expect![[r#"
        [tools.files]
        component = "files.wasm"
        read = ["docs:/docs"]
        # Wanted to look up words.
        http = ["GET https://api.example.com/**"]
        limits = { deadline = "20s" }
    "#]],
    );
    assert_ok(bench.run(&["approve", "--check"]));
}

/// Searches in a session whose variables answer the wish for a folder. Returns the text of the result and what was said.
fn search_with_answer(bench: &Workbench, folder: &str) -> (String, String) {
    let mut command = bench.command(&["serve", "mcp", "files.wasm", "--wishes-from-env"]);
    command.env("FUMEHOOD_WISH_READ_1", folder).env("FUMEHOOD_WISH_HTTP_1", "false");
    let mut session = Session::run(command, json!({}));
    let arguments = json!({"path": "/docs", "text": "hood"});
    let result = session.request(1, "tools/call", json!({"name": "files__search", "arguments": arguments}));
    let said = session.said();
    session.leave();
    (result.to_string(), said)
}

#[test]
fn variables_of_a_client_answer_wishes() {
    let bench = bench();
    let folder = bench.path("docs");
    let (result, said) = search_with_answer(&bench, folder.to_str().unwrap());
    assert!(result.contains("a.txt"), "{result}; {said}");
    assert!(said.contains("to look up words; FUMEHOOD_WISH_HTTP_1=true grants it"), "{said}");
    // Clients leave the placeholder where nothing was set.
    for unset in ["", "${user_config.read_1}"] {
        let (result, said) = search_with_answer(&bench, unset);
        assert!(!result.contains("a.txt"), "{unset}: {result}");
        assert!(
            said.contains("to search in it; to grant it, set FUMEHOOD_WISH_READ_1 to the folder of this machine"),
            "{unset}: {said}"
        );
    }
    let two = ["serve", "mcp", "files.wasm", "b=files.wasm", "--wishes-from-env"];
    assert_refused(&bench, &two, 2, &["`--wishes-from-env` takes one component; the command line names 2"]);
}

#[test]
fn options_grant_a_component_without_wishes() {
    let bench = Workbench::new();
    bench.example("notes").put("fumehood.toml", "tools = {}\n");
    let secret = r#"name="a", from={env="PATH"}, for="https://a.example/**", header="A""#;
    let options = ["--key-value=1MiB", "--memory=32MiB", "--allow-http=https://a.example/**", "--secret", secret];
    assert_ok(bench.run(&[&["add", "notes.wasm", "--yes"], &options[..]].concat()));
    check_configuration(
        &bench,
        expect![[r#"
        tools = { notes = { component = "notes.wasm", http = ["https://a.example/**"], key_value = "1.0 MiB", limits = { memory = "32.0 MiB" }, secrets = [{ for = "https://a.example/**", from = { env = "PATH" }, header = "A", name = "a" }] } }
    "#]],
    );
}

#[test]
fn an_update_shows_old_wishes_beside_new_ones() {
    let Some(registry) = Registry::start() else { return };
    registry.publish_component("1", component(r#"{"scratch": "1MiB", "env": ["LANG"]}"#), Some(&KEY));
    let bench = trusting_bench();
    assert_ok(bench.run(&["add", &registry.reference("1"), "--yes"]));
    registry.publish_component("1", component(r#"{"scratch": "9MiB", "env": ["LANG"]}"#), Some(&KEY));
    let shown = bench.run(&["update", "--dry-run"]);
    for part in ["wishes of its author", "- │ scratch: 1.0 MiB", "+ │ scratch: 9.0 MiB"] {
        assert!(shown.stdout.contains(part), "{part}: {shown:?}");
    }
    assert!(!shown.stdout.contains("LANG"), "{shown:?}");
}

fn add_at_terminal(bench: &Workbench) -> TerminalCommand {
    let mut terminal = TerminalCommand::of(bench.command(&["add", "files.wasm"]));
    terminal.wait_for("Grant the 3 wishes of its author? [y/N, or c to choose one by one]");
    terminal
}

fn approve_at_terminal(mut terminal: TerminalCommand) {
    terminal.wait_for("Add and approve `files`? [y/N]");
    terminal.type_in("y\n");
    let (code, _, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn a_person_grants_all_with_one_answer() {
    let bench = bench();
    let mut terminal = add_at_terminal(&bench);
    terminal.type_in("y\n");
    terminal.wait_for("Type the folder of this machine that the tool sees as /docs");
    terminal.type_in("./docs\n");
    approve_at_terminal(terminal);
    check_configuration(
        &bench,
        expect![[r#"
        [tools.files]
        component = "files.wasm"
        # Wanted to look up words.
        http = ["GET https://api.example.com/**"]
        limits = { deadline = "20s" }
        # Wanted to search in it.
        read = ["./docs:/docs"]
    "#]],
    );
}

#[test]
fn a_person_chooses_one_by_one_or_grants_none() {
    let bench = bench();
    let mut terminal = add_at_terminal(&bench);
    terminal.type_in("c\n");
    for (wish, answer) in [("http: GET", "n\n"), ("read: /docs", "y\n")] {
        terminal.wait_for(&format!("Grant {wish}"));
        terminal.wait_for("[y/N]");
        terminal.type_in(answer);
    }
    terminal.wait_for("or nothing to leave it out:");
    terminal.type_in("\n");
    terminal.wait_for("Grant limits: deadline = \"20s\"? [y/N]");
    terminal.type_in("y\n");
    approve_at_terminal(terminal);
    check_configuration(
        &bench,
        expect![[r#"
        [tools.files]
        component = "files.wasm"
        limits = { deadline = "20s" }
        # Wanted to search in it. To grant it, write the folder of this machine that the tool sees as /docs, and approve again:
        # read = ["FOLDER:/docs"]
    "#]],
    );
    std::fs::remove_file(bench.path("fumehood.toml")).unwrap();
    let mut terminal = add_at_terminal(&bench);
    terminal.type_in("\n");
    approve_at_terminal(terminal);
    assert_eq!(configuration(&bench), "[tools.files]\ncomponent = \"files.wasm\"\n");
}
