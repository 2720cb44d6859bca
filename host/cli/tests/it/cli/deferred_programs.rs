//! Programs of code mode that wait for approval, or are stopped with their host, and go on.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::workbench::{CommandOutput, Workbench};

/// Puts a script there that runs this program.
fn put_program(bench: &Workbench, code: &str) {
    let calls = json!({"calls": [{"name": "run_code", "arguments": {"code": code}}]});
    bench.put("program.jsonl", format!("{calls}\n{}\n", json!({"text": "Done."})));
}

fn put_answer(bench: &Workbench, expect: &str) {
    bench.put("answer.jsonl", json!({"text": "Done.", "expect": expect}).to_string());
}

fn started(bench: &Workbench) -> Vec<String> {
    let ran = bench.run(&["log", "export"]);
    let records = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let started = records.filter(|record| record["kind"] == "tool_started");
    started.map(|record| record["tool"].as_str().unwrap().to_owned()).collect()
}

fn run_asking(bench: &Workbench, arguments: &[&str], script: &str) -> CommandOutput {
    let options = ["--tool", "calculator.wasm", "--code", "--ask", "calculator__add", "--script", script];
    bench.run(&[arguments, &options].concat())
}

#[test]
fn program_waits_for_each_of_its_calls() {
    const CODE: &str = "const c = tools.calculator; const random = Math.random(); const now = Date.now();\
                        const [sum, product] = await Promise.all([c.add({a: 3, b: 5}), c.multiply({a: 2, b: 2})]);\
                        const twice = await c.add({a: sum.result, b: product.result});\
                        return [twice.result, random === Math.random(), random, now]";
    let bench = Workbench::new();
    bench.example("calculator");
    put_program(&bench, CODE);
    let ran = run_asking(&bench, &["run", "Go", "--session", "s"], "program.jsonl");
    assert_eq!(ran.code, 11, "{ran:?}");
    assert!(ran.stderr.contains("s:1  calculator__add is waiting for approval"), "{ran:?}");
    assert_eq!(started(&bench), ["run_code", "calculator__multiply"]);
    let state = bench.run(&["sessions", "show", "s"]).stdout;
    assert!(state.contains("waiting for approval of s:1 calculator__add"), "{state}");

    put_answer(&bench, "[12,false,");
    assert_eq!(bench.run(&["approve-call", "s:1", "--yes"]).code, 0);
    let ran = run_asking(&bench, &["run", "--resume", "s"], "answer.jsonl");
    assert_eq!(ran.code, 11, "{ran:?}");
    assert!(ran.stderr.contains("s:2"), "{ran:?}");
    let shown = bench.run(&["approve-call", "s:2", "--json"]).json();
    assert_eq!(shown["arguments"], json!({"a": 8, "b": 4}), "the results of the calls before are those of the record");
    assert_eq!(bench.run(&["approve-call", "s:2", "--yes"]).code, 0);
    let ran = run_asking(&bench, &["run", "--resume", "s"], "answer.jsonl");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    let calls = ["run_code", "calculator__multiply", "run_code", "calculator__add", "run_code", "calculator__add"];
    assert_eq!(started(&bench), calls);
    assert_eq!(bench.run(&["log", "verify"]).code, 0);
}

#[test]
fn refused_call_of_a_program_is_an_exception_in_it() {
    let bench = Workbench::new();
    bench.example("calculator");
    put_program(
        &bench,
        "try { await tools.calculator.add({a: 3, b: 5}) } catch (error) { return 'caught ' + error.message }",
    );
    let options = ["--tool", "calculator.wasm", "--code", "--ask", "calculator__add", "--script"];
    let ran = bench.run(&[&["run", "Go", "--session", "s"], &options[..], &["program.jsonl"]].concat());
    assert_eq!(ran.code, 11, "{ran:?}");
    assert_eq!(bench.run(&["approve-call", "s:1", "--no", "--reason", "not today"]).code, 0);
    put_answer(&bench, "not today");
    let ran = bench.run(&[&["run", "--resume", "s"], &options[..], &["answer.jsonl"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    assert_eq!(started(&bench), ["run_code", "run_code"]);
}

fn is_start(line: &str) -> bool {
    line.contains("tool_started") && line.contains("\"tool\":\"sleep__run\"")
}

#[test]
fn killed_program_goes_on_behind_its_last_result() {
    let bench = Workbench::new();
    bench.example("calculator").program("sleep");
    put_program(
        &bench,
        "const sum = await tools.calculator.add({a: 3, b: 5}); let end = 'slept';\
         try { await tools.sleep.run({}) } catch (error) { end = error.message }\
         const product = await tools.calculator.multiply({a: sum.result, b: 2}); return [product.result, end]",
    );
    let tools =
        ["--tool", "calculator.wasm", "--tool", "sleep.wasm", "--code", "--timeout", "60s", "--json", "--script"];
    let begin = [&["run", "Go", "--session", "s"], &tools[..], &["program.jsonl"]].concat();
    let mut running = bench.command(&begin).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| is_start(&line)), "the call starts");
    // The line is printed while the record is on its way to the disk.
    let until = Instant::now() + Duration::from_secs(20);
    while !started(&bench).iter().any(|tool| tool == "sleep__run") {
        assert!(Instant::now() < until, "{:?}", started(&bench));
    }
    running.kill().unwrap();
    running.wait().unwrap();

    put_answer(&bench, "[16,\"interrupted: the program stopped");
    let ran = bench.run(&[&["run", "--resume", "s"], &tools[..], &["answer.jsonl"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(started(&bench), ["run_code", "calculator__add", "sleep__run", "run_code", "calculator__multiply"]);
}
