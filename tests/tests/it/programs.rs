//! Programs of `wasi:cli/command` and of WASI preview 1 as tools, and the component that the runtime puts around the latter.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fumehood::permission::CommandLine;
use fumehood::{Call, CallResult, Component, Content, Dialect, Digest, ErrorKind, Grant, Host, Limits, Load};
use fumehood_tests::skip::skip;
use serde_json::{Value, json};
use wasi_preview1_component_adapter_provider as adapters;
use wasmparser::{Instance, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The functions of WASI preview 1 with their parameters: `i` for `i32`, `I` for `i64`. All but `proc_exit` return an `i32`.
const FUNCTIONS: [(&str, &str); 46] = [
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_prestat_get", "ii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// The function that ends a program in WASI 0.2 with any exit code, as the adapter's `proc_exit` does not.
const EXIT: &str = "
    package wasi:cli@0.2.12;
    interface exit {
        exit: func(status: result);
        exit-with-code: func(status-code: u8);
    }
    world exits { import exit; }
";

/// A component without the module of its program: the bytes before the section of that module, and those after it.
struct Wrapper {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Encodes a program that imports all of WASI preview 1, and takes its module out.
///
/// # Errors
/// If the encoder writes components of another structure than it did.
fn wrapper() -> Result<Wrapper> {
    let mut module = wat::parse_str(program_text())?;
    let mut resolve = Resolve::default();
    let package = resolve.push_str("exit.wit", EXIT)?;
    let world = resolve.select_world(&[package], Some("exits"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    let mut component = ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter(adapters::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapters::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)?
        .encode()?;
    keep_exit_codes(&mut component)?;
    let section = find_first_module(&component)?;
    let before = component.get(..section.start).context("it begins before the component")?.to_vec();
    let after = component.get(section.end..).context("it ends after the component")?.to_vec();
    Ok(Wrapper { before, after })
}

fn program_text() -> String {
    // First, so that its function is defined before the instance that gets it instead of `proc_exit`.
    let mut text = "(module (import \"wasi:cli/exit@0.2.12\" \"exit-with-code\" (func (param i32)))\n".to_owned();
    for (name, params) in FUNCTIONS {
        let params: String = params.chars().map(|param| if param == 'i' { " i32" } else { " i64" }).collect();
        let result = if name == "proc_exit" { "" } else { "(result i32)" };
        text.push_str(&format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func (param{params}) {result}))\n"));
    }
    text.push_str("(memory (export \"memory\") 0) (func (export \"_start\")))");
    text
}

/// Replaces the adapter's `proc_exit`, which reports every failure as exit code 1.
fn keep_exit_codes(component: &mut [u8]) -> Result<()> {
    let exit = find_export(component, "exit-with-code")?;
    let proc_exit = find_export(component, "proc_exit")?;
    if exit.len() != proc_exit.len() {
        bail!("the indices of both functions have to be encoded in as many bytes");
    }
    component.copy_within(exit, proc_exit.start);
    Ok(())
}

/// Returns the bytes with the index of a function in the instance of core functions that a module is instantiated with.
fn find_export(component: &[u8], name: &str) -> Result<Range<usize>> {
    let mut found = None;
    for payload in Parser::new(0).parse_all(component) {
        let Payload::InstanceSection(section) = payload? else { continue };
        let range = section.range();
        for instance in section {
            let Instance::FromExports(exports) = instance? else { continue };
            if exports.iter().any(|export| export.name == name) {
                // Of an export, its name comes first, then its sort, then its index, which ends before the next export.
                let entry = [&[u8::try_from(name.len())?], name.as_bytes(), &[0]].concat();
                let bytes = component.get(range.clone()).context("a section is not in the component")?;
                let at = bytes.windows(entry.len()).position(|window| window == entry);
                let start = range.start + at.context("the export is written in another way")? + entry.len();
                let rest = component.get(start..).unwrap_or_default();
                let length = 1 + rest.iter().take_while(|byte| **byte >= 0x80).count();
                if found.replace(start..start + length).is_some() {
                    bail!("several instances export `{name}`");
                }
            }
        }
    }
    found.with_context(|| format!("no instance exports `{name}`"))
}

/// Returns the section with the first core module.
fn find_first_module(component: &[u8]) -> Result<Range<usize>> {
    let mut end = 8;
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { unchecked_range, .. } => return Ok(end..unchecked_range.end),
            payload => end = payload.as_section().map_or(end, |(_, range)| range.end),
        }
    }
    bail!("the component has no module")
}

/// Set `UPDATE_EXPECT=1` to write the files after a change of the adapter.
#[test]
fn the_wrapper_of_programs_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/runtime/src/load/preview1");
    let wrapper = wrapper().unwrap();
    for (name, expected) in [("before.bin", wrapper.before), ("after.bin", wrapper.after)] {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == expected, "{} is stale; UPDATE_EXPECT=1 writes it", path.display());
    }
}

/// The deadline of calls that end by themselves, on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_millis(100);

fn bytes(program: &str) -> Vec<u8> {
    fumehood_tests::component(program).unwrap()
}

async fn load_with(program: &str, grant: Grant) -> (Host, Component) {
    let limits = Limits::default().deadline(PATIENCE);
    let host = Host::builder().limits(limits).concurrency(4).build().unwrap();
    let component = host.load(Load::bytes("it", bytes(program)).grant(grant)).await.unwrap();
    (host, component)
}

async fn run(host: &Host, argument: &str) -> CallResult {
    host.call(Call::new("it__run", json!({"args": [argument]}))).await
}

fn check(result: &CallResult, kind: ErrorKind, says: &str) {
    let error = result.error().unwrap_or_else(|| panic!("it should fail: {result:?}"));
    assert_eq!(error.kind, kind, "{error:?}");
    assert!(error.message.contains(says), "{error:?}");
}

#[tokio::test]
async fn a_program_is_one_tool() {
    let (host, component) = load_with("command", Grant::none()).await;
    assert_eq!(component.dialect(), &Dialect::Command("0.2.0".to_owned()));
    let [tool] = component.definitions() else { panic!("{component:?}") };
    assert_eq!((tool.name.as_str(), tool.input_schema.expose_raw()["required"][0].as_str()), ("run", Some("args")));
    check(&run(&host, "").await, ErrorKind::ToolFailed, "the program ended with exit code 1: it is closed");
}

#[tokio::test]
async fn a_program_for_preview_1_is_known_by_its_file() {
    let (host, component) = load_with("preview1", Grant::none()).await;
    assert_eq!(component.dialect(), &Dialect::Command("0.2.12".to_owned()));
    assert_eq!((component.digest(), component.size()), (Digest::of(&bytes("preview1")), bytes("preview1").len()));
    let call = Call::new("it__run", json!({"args": ["c"], "stdin": "gr\u{fc}n\n"}));
    assert_eq!(host.call(call).await.text().as_deref(), Some("gr\u{fc}n\n"));
    let nothing = host.call(Call::new("it__run", json!({"args": []}))).await;
    assert_eq!(nothing.outcome.unwrap(), []);
}

#[tokio::test]
async fn arguments_follow_the_name_and_what_was_granted() {
    let grant = Grant::none().with_command_line(CommandLine::new(["a-granted"]).unwrap());
    let (host, _) = load_with("preview1", grant).await;
    let result = host.call(Call::new("it__run", json!({"args": ["b c", "", "--d"]}))).await;
    assert_eq!(result.text().as_deref(), Some("it\na-granted\nb c\n\n--d\n"), "{result:?}");
    let refused = |arguments: Value| host.call(Call::new("it__run", arguments));
    check(&refused(json!({"args": ["a\0b"]})).await, ErrorKind::InvalidArguments, "args");
    check(&refused(json!({"stdin": "x"})).await, ErrorKind::InvalidArguments, "args");
    check(&refused(json!({"args": vec!["x"; 257]})).await, ErrorKind::InvalidArguments, "args");
}

#[tokio::test]
async fn every_exit_code_of_a_program_is_reported() {
    let (host, _) = load_with("preview1", Grant::none()).await;
    let success = run(&host, "x0").await;
    assert_eq!(success.outcome.as_deref(), Ok(&[][..]));
    assert_eq!(success.metadata.stderr.text.to_sanitized(), "flood ");
    for code in [1, 2, 42, 127, 255] {
        let result = run(&host, &format!("x{code}")).await;
        check(&result, ErrorKind::ToolFailed, &format!("the program ended with exit code {code}: flood"));
    }
    check(&run(&host, "t").await, ErrorKind::Trap, "aborted");
}

#[tokio::test]
async fn programs_that_flood_spin_or_grow_are_stopped() {
    let (host, _) = load_with("preview1", Grant::none()).await;
    let flood = run(&host, "o").await;
    check(&flood, ErrorKind::OutputTooLarge, "1.0 MiB");
    assert!(flood.metadata.stdout.text.len() <= Limits::default().log && flood.metadata.stdout.dropped > 0);
    let limits = Limits::default().deadline(DEADLINE);
    for argument in ["e", "s", "r"] {
        let call = Call::new("it__run", json!({"args": [argument]})).limits(limits);
        let result = host.call(call).await;
        check(&result, ErrorKind::Deadline, "did not finish");
        assert!(result.metadata.stderr.text.len() <= limits.log, "{argument}");
        assert_eq!(result.metadata.stderr.dropped > 0, argument == "e", "{argument}");
    }
    check(&run(&host, "m").await, ErrorKind::Memory, "more than its 64.0 MiB");
}

#[tokio::test]
async fn a_program_in_zig_is_a_tool() {
    let Some(zig) = std::env::var_os("FUMEHOOD_ZIG").filter(|zig| !zig.is_empty()) else {
        return skip("languages", "a program in Zig: set FUMEHOOD_ZIG to the program of Zig to run it");
    };
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("languages/zig/words.zig");
    let mut build = Command::new(zig);
    build.arg("build-exe").arg(source).args(["-target", "wasm32-wasi", "-O", "ReleaseSmall"]);
    build.args(["-femit-bin=words.wasm", "--global-cache-dir", "cache", "--cache-dir", "cache"]);
    let built = build.current_dir(folder.path()).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let host = Host::builder().limits(Limits::default().deadline(PATIENCE)).build().unwrap();
    host.load(Load::path(folder.path().join("words.wasm")).named("it")).await.unwrap();
    let call = Call::new("it__run", json!({"args": ["4"], "stdin": "one three five\nseven to"}));
    assert_eq!(host.call(call).await.text().as_deref(), Some("3\n"));
    check(&run(&host, "four").await, ErrorKind::ToolFailed, "InvalidCharacter");
}

#[tokio::test]
async fn output_that_is_no_text_is_returned_as_bytes() {
    let (host, _) = load_with("preview1", Grant::none()).await;
    let parts = run(&host, "n").await.outcome.unwrap();
    assert!(matches!(&parts[..], [Content::Blob { data, .. }] if data == b"\xff\xfe\n"), "{parts:?}");
}
