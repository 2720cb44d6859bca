//! Powers on the command line: those that are typed are granted, and no others.

use expect_test::{Expect, expect};

use super::workbench::{CommandOutput, Workbench};

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&bench.run(arguments).shown());
}

#[test]
fn a_tool_sees_the_variables_and_arguments_that_were_typed() {
    let bench = Workbench::new();
    bench.program("env-dump");
    let given = bench.run(&["call", "env-dump.wasm", "variables", "--env", "A=1=2", "--env", "B="]);
    let nothing = bench.run(&["call", "env-dump.wasm", "variables"]);
    assert!(given.stdout.contains("1=2") && !nothing.stdout.contains("1=2"), "{given:?} {nothing:?}");
}

#[test]
fn observing_prints_the_configuration_that_would_allow_what_was_refused() {
    let bench = Workbench::new();
    bench.example("fetch").example("calculator");
    let call = ["call", "fetch.wasm", "get", "url=http://127.0.0.1:9/a", "--observe"];
    let refused = bench.run(&call);
    let section = "[tools.fetch]\ncomponent = \"fetch.wasm\"\n# GET http://127.0.0.1:9/a\n\
                   http = [\"GET http://127.0.0.1:9/**\"]\n# GET http://127.0.0.1:9/a\n\
                   private_addresses = [\"127.0.0.1/32\"]\n";
    assert!(refused.code != 0 && refused.stderr.contains(section), "{refused:?}");
    // What it prints is a configuration.
    let text = refused.stderr.split_once("[tools.fetch]").map(|(_, rest)| format!("[tools.fetch]{rest}")).unwrap();
    bench.put("fumehood.toml", format!("{text}approval = \"off\"\n"));
    let allowed = bench.run(&["call", "fetch", "get", "url=http://127.0.0.1:9/a", "--observe"]);
    assert!(allowed.code != 0 && allowed.stderr.contains("# This call was refused nothing."), "{allowed:?}");
    // A connection is tried although its name was not found, so that its port is known.
    bench.program("connect");
    let meet = r#"{"name":"db.example.com","port":5432,"send":1,"want":1}"#;
    let refused = bench.run(&["call", "connect.wasm", "meet", meet, "--observe"]);
    let section = "# looking up the name db.example.com\n# connecting to db.example.com:5432\n\
                   tcp = [\"db.example.com:5432\"]\n";
    assert!(refused.code != 0 && refused.stderr.contains(section), "{refused:?}");
    let nothing = bench.run(&["call", "calculator.wasm", "add", "a=1", "b=2", "--observe"]);
    assert!(nothing.code == 0 && nothing.stderr.contains("# This call was refused nothing."), "{nothing:?}");
}

#[test]
fn what_cannot_be_granted_is_refused_before_anything_is_loaded() {
    let bench = Workbench::new();
    bench.program("count");
    let call = ["call", "count.wasm", "run"];
    let with = |flags: &[&'static str]| [&call, flags].concat();
    check(
        &bench,
        &with(&["--allow-read", "./docs", "--allow-http", "GET https://*/**", "--clock", "0s"]),
        expect![[r#"
        ── stderr
        error: --allow-read: `./docs` has no path for the tool; expected both paths, such as `./docs:/docs`
            --allow-http: invalid rule `GET https://*/**` for requests: `*` would allow every host; name one, such as `api.example.com`, or use `*.example.com`
            --clock: the clock resolution is zero; expected 1us to 1s, or leave it out for 1ms
        ── exit 2
    "#]],
    );
    let missing = bench.run(&with(&["--allow-read", "./docs:/docs"]));
    assert_eq!(missing.code, 6, "{missing:?}");
    assert!(missing.stderr.contains("the granted folder `./docs` does not exist"), "{missing:?}");
    check(
        &bench,
        &with(&["--env", "A"]),
        expect![[r#"
            ── stderr
            error: invalid value '…' for '--env <NAME=VALUE>': expected NAME=VALUE

            For more information, try '--help'.
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &with(&["--secret", "name='t', from={env='FUMEHOOD_ABSENT'}, for='https://a.example/**', header='X-Key'"]),
        expect![[r#"
            ── stderr
            error: --secret: the secret `t`: the environment variable `FUMEHOOD_ABSENT` is not set; set it to the secret, or name another source
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &with(&["--allow-private", "10.0.0.1"]),
        expect![[r#"
            ── stderr
            error: --allow-private: `--allow-private` has no effect without `--allow-http` or `--allow-tcp`; add --allow-http 'GET https://HOST/**'
            ── exit 2
        "#]],
    );
    check(
        &bench,
        &with(&["--key-value-store", "a.db"]),
        expect![[r#"
            ── stderr
            error: the following required arguments were not provided:
              --key-value <BYTES>

            Usage: fumehood call [OPTIONS] COMPONENT TOOL [JSON|NAME=VALUE...]

            For more information, try '--help'.
            ── exit 2
        "#]],
    );
}

#[test]
fn the_state_of_the_host_is_out_of_reach() {
    let bench = Workbench::new();
    let approved = "component = \"count.wasm\"\napproval = \"off\"\n";
    bench.program("count").put("fumehood.toml", format!("[tools.a]\n{approved}read = [\"state:/all\"]\n"));
    std::fs::create_dir_all(bench.path("state/fumehood")).unwrap();
    let refused = bench.run(&["call", "a", "run"]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.stderr.contains("which has files of the host"), "{refused:?}");
}

#[test]
fn strict_imports_refuse_a_component_that_asks_for_more() {
    let bench = Workbench::new();
    bench.program("request").program("count");
    check(
        &bench,
        &["call", "request.wasm", "get", "--strict-imports"],
        expect![[r#"
            ── stderr
            error: cannot load request.wasm
              because: the component imports powers that are not granted, which `--strict-imports` refuses:
                `wasi:http/types@0.2.0` needs http; to allow it: --allow-http 'GET https://HOST/**'
                `wasi:http/outgoing-handler@0.2.0` needs http; to allow it: --allow-http 'GET https://HOST/**'
            ── exit 6
        "#]],
    );
    assert_eq!(bench.run(&["call", "count.wasm", "run", r#"{"to": 3}"#, "--strict-imports"]).code, 0);
}

#[test]
fn keys_and_values_are_kept_in_the_named_file() {
    let bench = Workbench::new();
    bench.put("it.wasm", fumehood_tests::contract("act-in-describe").unwrap());
    let look =
        |flags: &[&'static str]| bench.run(&[&["call", "it.wasm", "look", "--key-value", "64KiB"], flags].concat());
    let said = |flags: &[&'static str]| look(flags).stdout.trim().to_owned();
    let first = look(&[]);
    assert!(first.stderr.contains("the key-value store is ") && first.stdout.trim() == "new", "{first:?}");
    assert_eq!(look(&["--json"]).stderr, "");
    let again = look(&[]);
    assert!(!again.stderr.contains("kept in") && again.stdout.trim() == "kept", "kept for the next call: {again:?}");
    // A component of the same name in another folder has another store.
    std::fs::create_dir(bench.path("elsewhere")).unwrap();
    std::fs::copy(bench.path("it.wasm"), bench.path("elsewhere/it.wasm")).unwrap();
    assert_eq!(bench.run(&["call", "elsewhere/it.wasm", "look", "--key-value", "64KiB"]).stdout.trim(), "new");
    let kept = ["--key-value-store", "it.db"];
    assert_eq!((said(&kept).as_str(), said(&kept).as_str()), ("new", "kept"));
}

#[test]
fn a_configured_component_has_its_powers_from_there_alone() {
    let bench = Workbench::new();
    bench.put("it.wasm", fumehood_tests::contract("act-in-describe").unwrap());
    let configuration = "key_value_store = \"kept.db\"\n[tools.it]\ncomponent = \"it.wasm\"\nkey_value = \"64KiB\"\n";
    bench.put("fumehood.toml", configuration);
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "it", "look"]).stdout.trim(), "new");
    assert_eq!(bench.run(&["call", "it", "look"]).stdout.trim(), "kept");
    check(
        &bench,
        &["call", "it", "look", "--env", "A=1"],
        expect![[r#"
        ── stderr
        error: the powers of `it` are set in fumehood.toml; change them there, or call the `.wasm` file
        ── exit 2
    "#]],
    );
}

fn run_with_policy(bench: &Workbench, lines: &str) -> CommandOutput {
    bench.put("fumehood.toml", format!("[tools.a]\ncomponent = \"count.wasm\"\napproval = \"off\"\n{lines}\n"));
    bench.run(&["call", "a", "run", r#"{"to": 3}"#])
}

fn run_with_secret(bench: &Workbench, from: &str) -> CommandOutput {
    run_with_policy(
        bench,
        &format!(
            "http = [\"https://a.example/**\"]\nsecrets = [{{ name = \"t\", from = {{ {from} }}, for = \
         \"https://a.example/**\", header = \"X-Key\" }}]"
        ),
    )
}

#[test]
fn missing_granted_files_are_reported_with_their_place() {
    let bench = Workbench::new();
    bench.program("count");
    assert_eq!(run_with_policy(&bench, "").code, 0);
    for (from, says) in [
        ("env = \"FUMEHOOD_ABSENT\"", "the environment variable `FUMEHOOD_ABSENT` is not set; set it to the secret"),
        ("file = \"absent.key\"", "absent.key"),
        ("keyring = \"fumehood-absent-in-tests\"", "keyring"),
    ] {
        let refused = run_with_secret(&bench, from);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
        let begins = "error: fumehood.toml:5:12: [tools.a] the secret `t`: ";
        assert!(refused.stderr.starts_with(begins) && refused.stderr.contains(says), "{refused:?}");
    }
    let missing = run_with_policy(&bench, "read = [\"./absent:/docs\"]");
    assert_eq!((missing.code, missing.stdout.as_str()), (6, ""), "{missing:?}");
    for part in ["count.wasm", "absent` does not exist (at ", "create it, or correct the path"] {
        assert!(missing.stderr.contains(part), "{part}: {missing:?}");
    }
    bench.put("file", "");
    let no_folder = run_with_policy(&bench, "read = [\"./file:/docs\"]");
    assert!(no_folder.stderr.contains("file` is granted as a folder, but is not a folder"), "{no_folder:?}");
}

#[test]
fn hints_are_in_the_language_that_is_in_use() {
    let bench = Workbench::new();
    bench.example("notes").example("calculator");
    let typed = bench.run(&["call", "notes.wasm", "list"]);
    assert!(typed.stderr.contains("to allow it: --key-value 1MiB\n"), "{typed:?}");
    bench.put("fumehood.toml", "[tools.it]\ncomponent = \"notes.wasm\"\napproval = \"off\"\n");
    let configured = bench.run(&["call", "it", "list"]);
    assert!(configured.stderr.contains("to allow it: key_value = \"1MiB\"\n"), "{configured:?}");
    let refused = bench.run(&["call", "notes.wasm", "list", "--allow-http", "http://127.0.0.1/**"]);
    assert!(refused.code == 2 && refused.stderr.ends_with("allow it by --allow-private 127.0.0.1/32\n"), "{refused:?}");
    let stopped = bench.run(&["call", "calculator.wasm", "add", "a=1", "b=2", "--fuel", "10"]);
    assert!(stopped.stderr.contains("; raise the limit with `--fuel`"), "{stopped:?}");
}
