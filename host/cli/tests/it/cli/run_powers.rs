//! Powers of the command line for the components of a run.

use super::workbench::{CommandOutput, Workbench};

const READ: &str = r#"
{"calls": [{"name": "files__read", "arguments": {"path": "/docs/a.txt"}}]}
{"text": "It says so.", "expect": "EXPECTED"}
"#;

fn bench(expected: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("files").put("script.jsonl", READ.replace("EXPECTED", expected));
    ["docs", "log"].iter().for_each(|folder| std::fs::create_dir(bench.path(folder)).unwrap());
    bench.put("docs/a.txt", "the words of the file");
    bench
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    let usual = ["run", "Read it", "--tool", "files.wasm", "--script", "script.jsonl", "--log", "log/e.db"];
    bench.run(&[&usual, more].concat())
}

#[test]
fn a_folder_that_was_typed_can_be_read() {
    let ran = run(&bench("the words of the file"), &["--allow-read", "./docs:/docs"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It says so.\n"), "{ran:?}");
}

#[test]
fn without_the_option_the_folder_cannot_be_read() {
    let ran = run(&bench("no folder was granted"), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It says so.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✗ files__read"), "{ran:?}");
}

#[test]
fn a_component_of_the_configuration_has_nothing_of_it() {
    let bench = bench("no folder was granted");
    bench.put("fumehood.toml", "[tools.files]\ncomponent = \"files.wasm\"\napproval = \"off\"\n");
    bench.example("calculator");
    let run = ["run", "Read it", "--tool", "calculator.wasm", "--script", "script.jsonl", "--no-log"];
    let ran = bench.run(&[&run[..], &["--allow-read", "./docs:/docs"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It says so.\n"), "{ran:?}");
}

fn assert_grant_refused(more: &[&str], code: i32, words: &str) {
    let ran = run(&bench("never"), more);
    assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
}

#[test]
fn what_cannot_be_granted_is_refused_before_anything_runs() {
    assert_grant_refused(&["--allow-read", "./docs"], 2, "--allow-read: ");
    assert_grant_refused(&["--allow-http", "https://*/**"], 2, "--allow-http: ");
    assert_grant_refused(&["--allow-write", "./log:/log"], 6, "which has files of the host");
    assert_grant_refused(&["--allow-read", ".:/all"], 6, "which has files of the host");
    let bench = bench("never");
    let ran = bench.run(&["run", "Hi", "--script", "script.jsonl", "--no-log", "--allow-read", "./docs:/docs"]);
    assert!(ran.code == 2 && ran.stderr.contains("named with `--tool FILE`, but none are"), "{ran:?}");
}

#[test]
fn the_named_store_is_used_unless_one_is_configured() {
    let script = r#"
{"calls": [{"name": "notes__write", "arguments": {"title": "t", "text": "buy milk"}}]}
{"text": "Kept."}
"#;
    let bench = Workbench::new();
    bench.example("notes").put("script.jsonl", script);
    let run = ["run", "Keep", "--tool", "notes.wasm", "--script", "script.jsonl", "--no-log", "--key-value", "1MiB"];
    let run = [&run[..], &["--key-value-store", "kept.db"]].concat();
    let ran = bench.run(&run);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(bench.path("kept.db").exists());
    bench.put("fumehood.toml", "[tools.mine]\ncomponent = \"notes.wasm\"\nkey_value = \"1MiB\"\n");
    let ran = bench.run(&run);
    assert!(
        ran.code == 2 && ran.stderr.contains("`--key-value-store` conflicts with the store in fumehood.toml"),
        "{ran:?}"
    );
}
