//! Files that decide about powers, in a folder that a tool may write: no command lets it change them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::workbench::{CommandOutput, Workbench};

/// A working folder, with the state and the cache of the command beside it.
struct Work {
    bench: Workbench,
}

impl Work {
    fn new() -> Self {
        let bench = Workbench::new();
        std::fs::create_dir(bench.path("work")).unwrap();
        bench.put("work/files.wasm", fumehood_tests::component("files").unwrap());
        Self { bench }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path("work").join(name)
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.bench.command(arguments);
        command.current_dir(self.bench.path("work"));
        Workbench::run_command(command)
    }

    fn write(&self, component: &[&str], path: &str) -> CommandOutput {
        let arguments = json!({"folder": 0, "path": path, "how": 1 | 8, "offset": 0, "size": 9, "times": 1});
        self.run(&[&["call", "--json"], component, &["write", &arguments.to_string()]].concat())
    }

    fn refused(&self, component: &[&str], path: &str) -> Value {
        let ran = self.write(component, path);
        assert_eq!(ran.code, 1, "{path}: {ran:?}");
        ran.json()["metadata"]["refused"][0].clone()
    }
}

const TYPED: [&str; 3] = ["--allow-write", ".:/w", "files.wasm"];

#[test]
fn a_call_cannot_plant_or_change_what_decides_about_it() {
    let work = Work::new();
    let wasm = std::fs::read(work.path("files.wasm")).unwrap();
    for (path, words) in [
        ("fumehood.toml", "`fumehood.toml` is the configuration of the host, which no tool may change"),
        ("fumehood.lock", "`fumehood.lock` is the lock with the approvals, which no tool may change"),
        ("files.wasm", "`files.wasm` is a component that the host loads, which no tool may change"),
    ] {
        let refused = work.refused(&TYPED, path);
        assert_eq!((&refused["power"], &refused["because"]), (&"files".into(), &words.into()));
    }
    assert!(!work.path("fumehood.toml").exists() && !work.path("fumehood.lock").exists());
    assert_eq!(std::fs::read(work.path("files.wasm")).unwrap(), wasm);
    assert_eq!(work.write(&TYPED, "notes.txt").code, 0, "the folder itself is usable");
    std::fs::write(work.path("other.toml"), "").unwrap();
    assert_eq!(work.write(&[&["--config", "other.toml"][..], &TYPED].concat(), "other.lock").code, 1);
}

#[test]
fn a_link_to_the_configuration_protects_both_ends() {
    let work = Work::new();
    std::fs::create_dir(work.path("shared")).unwrap();
    let text = "[tools.files]\ncomponent = \"files.wasm\"\napproval = \"off\"\nwrite = [\".:/w\"]\n";
    std::fs::write(work.path("shared/real.toml"), text).unwrap();
    std::os::unix::fs::symlink("shared/real.toml", work.path("fumehood.toml")).unwrap();
    for path in ["fumehood.toml", "fumehood.lock", "shared/real.toml", "shared/real.lock", "files.wasm"] {
        work.refused(&["files"], path);
    }
    assert_eq!(std::fs::read_to_string(work.path("shared/real.toml")).unwrap(), text);
    assert_eq!(work.write(&["files"], "shared/free").code, 0);
}

#[test]
fn secrets_and_programs_of_a_configuration_stay_as_they_are() {
    let work = Work::new();
    std::fs::write(work.path("token"), "sk-canary").unwrap();
    std::fs::set_permissions(work.path("token"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(work.path("server.sh"), "exit 1").unwrap();
    let text = r#"
        [tools.files]
        component = "files.wasm"
        approval = "off"
        write = [".:/w"]
        http = ["GET https://api.example.com/**"]
        [[tools.files.secrets]]
        name = "token"
        from = { file = "token" }
        for = "https://api.example.com/**"
        header = "Authorization"
        [mcp.servers.own]
        command = ["sh", "server.sh"]
        write = ["."]
        approval = "off"
    "#;
    std::fs::write(work.path("fumehood.toml"), text).unwrap();
    let read = work.run(&["call", "--json", "files", "read", r#"{"folder": 0, "path": "token", "follow": 1}"#]);
    assert!(read.code == 1 && !read.stdout.contains("sk-canary"), "{read:?}");
    let because = read.json()["metadata"]["refused"][0]["because"].as_str().unwrap().to_owned();
    assert!(because.contains("is a secret of the host, which no tool may read or change"), "{because}");
    let because = work.refused(&["files"], "server.sh")["because"].as_str().unwrap().to_owned();
    assert!(because.contains("is a program that the host starts"), "{because}");
}

#[test]
fn a_run_protects_the_component_that_was_typed() {
    let work = Work::new();
    let write = json!({"folder": 0, "path": "files.wasm", "how": 8, "offset": 0, "size": 9, "times": 1});
    let script =
        format!("{}\n{}\n", json!({"calls": [{"name": "files__write", "arguments": write}]}), json!({"text": "no"}));
    std::fs::write(work.bench.path("script.jsonl"), script).unwrap();
    let wasm = std::fs::read(work.path("files.wasm")).unwrap();
    let ran = work.run(&["run", "x", "--tool", "files.wasm", "--allow-write", ".:/w", "--script", "../script.jsonl"]);
    assert!(ran.code == 0 && ran.stderr.contains("✗ files__write"), "{ran:?}");
    assert_eq!(std::fs::read(work.path("files.wasm")).unwrap(), wasm);
}

#[test]
fn folders_of_components_take_none_of_a_tool() {
    let work = Work::new();
    std::fs::create_dir_all(work.path("tools")).unwrap();
    std::fs::create_dir_all(work.path("build")).unwrap();
    let wasm = std::fs::read(work.path("files.wasm")).unwrap();
    std::fs::write(work.path("tools/there.wasm"), &wasm).unwrap();
    std::fs::write(work.path("build/linked.wasm"), &wasm).unwrap();
    std::os::unix::fs::symlink("../build/linked.wasm", work.path("tools/linked.wasm")).unwrap();
    let text =
        "tools_in = [\"tools\"]\n[tools.files]\ncomponent = \"files.wasm\"\napproval = \"off\"\nwrite = [\".:/w\"]\n";
    std::fs::write(work.path("fumehood.toml"), text).unwrap();
    for isolation in ["in-process", "process"] {
        for path in ["tools/there.wasm", "tools/new.wasm", "tools/NEW.Wasm", "build/linked.wasm"] {
            let refused = work.refused(&["--isolation", isolation, "files"], path);
            let because = refused["because"].as_str().unwrap();
            assert!(because.contains("component") && because.contains("which no tool may change"), "{path}: {because}");
        }
        assert_eq!(work.write(&["--isolation", isolation, "files"], "tools/notes.txt").code, 0);
    }
    for path in ["tools/there.wasm", "build/linked.wasm"] {
        assert_eq!(std::fs::read(work.path(path)).unwrap(), wasm, "{path}");
    }
}

#[test]
fn what_is_no_component_keeps_nothing_else_from_being_served() {
    let bench = Workbench::new();
    std::fs::create_dir(bench.path("tools")).unwrap();
    bench.put("tools/broken.wasm", "this is no component");
    bench.put("tools/__.wasm", "neither is this");
    bench.put("tools/notes.wasm", fumehood_tests::component("files").unwrap());
    bench.put("fumehood.toml", "tools_in = [\"tools\"]\n");
    assert_eq!(bench.run(&["approve", "notes", "--yes"]).code, 0);
    let mut session = super::session::Session::start(&bench, &[]);
    assert!(session.names().iter().any(|name| name.starts_with("notes__")), "{}", session.said());
    for file in ["skipping tools/broken.wasm", "skipping tools/__.wasm"] {
        assert_eq!(session.said().matches(file).count(), 1, "{file}: {}", session.said());
    }
    session.leave();
    bench.put("script.jsonl", "{\"text\": \"done\"}\n");
    let ran = bench.run(&["run", "x", "--script", "script.jsonl"]);
    assert!(ran.code == 0 && ran.stderr.contains("skipping tools/broken.wasm"), "{ran:?}");
    // One that is named has to be there.
    bench.put("fumehood.toml", "[tools.broken]\ncomponent = \"tools/broken.wasm\"\n");
    assert_eq!(bench.run(&["run", "x", "--script", "script.jsonl"]).code, 6);
}

fn assert_not_granted(work: &Work, grant: &str) {
    let ran = work.run(&["call", "files.wasm", "list", "--allow-read", grant]);
    assert!(ran.code == 6 && ran.stderr.contains("which has files of the host"), "{grant}: {ran:?}");
}

#[test]
fn the_state_folder_is_never_granted() {
    let work = Work::new();
    assert_not_granted(&work, "..:/r");
    std::fs::create_dir_all(work.bench.path("state/fumehood/trust")).unwrap();
    ["../state:/r", "../state/fumehood:/r", "../state/fumehood/trust:/r"]
        .iter()
        .for_each(|grant| assert_not_granted(&work, grant));
}
