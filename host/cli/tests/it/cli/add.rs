//! `fumehood add`: what comes from a registry is verified, shown, and pinned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::{Load, Lock, RegistrySource};
use fumehood_registry::client::RegistryClient;
use fumehood_registry::fetch::FetchError;
use fumehood_registry::policy::Policy;
use fumehood_registry::reference::{OciReference, Reference};
use fumehood_registry::store::Store;
use fumehood_tests::contract::ToolDescription;

use super::published::{KEY, OTHER_KEY, Registry, store_files, trusting_bench, unwrapped};
use super::workbench::{CommandOutput, Workbench};

/// Number of times that the command is killed.
const KILLS: u32 = 200;

pub(crate) fn assert_refused(bench: &Workbench, arguments: &[&str], code: i32, parts: &[&str]) {
    let ran = bench.run(arguments);
    assert_eq!(ran.code, code, "{ran:?}");
    for part in parts {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
}

pub(crate) fn assert_ok(ran: CommandOutput) -> CommandOutput {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

fn trusting_policy() -> Policy {
    Policy::new().trusted_keys([KEY.public().clone()])
}

#[test]
fn adds_what_a_trusted_key_signed() {
    let Some(registry) = Registry::start() else { return };
    let published = registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    let before = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    let reference = registry.reference("1.0");
    assert_refused(&bench, &["add", &reference], 3, &["nothing was added", "--yes"]);
    assert_eq!(std::fs::read_to_string(bench.path("fumehood.toml")).unwrap(), before);
    assert!(!bench.path("fumehood.lock").exists());
    let added = assert_ok(bench.run(&["add", &reference, "--yes"]));
    for part in [
        "verified by the key",
        &KEY.public().id().to_string(),
        "source: https://example.com/acme/greeter",
        "was never approved",
        "nothing: it can only compute",
    ] {
        assert!(added.stdout.contains(part), "{part}: {added:?}");
    }
    assert!(unwrapped(&added.stdout).contains(&published.reference.to_string()), "{added:?}");
    let toml = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    assert_eq!(toml, format!("{before}\n[tools.greeter]\nreference = \"{reference}\"\n"));
    let lock = std::fs::read_to_string(bench.path("fumehood.lock")).unwrap();
    for part in [
        format!("reference = \"{}\"", published.reference),
        format!("component = \"{}\"", published.component),
        format!("signer = \"{}\"", KEY.public().id()),
        "provenance = [".to_owned(),
        "grants = []".to_owned(),
    ] {
        assert!(lock.contains(&part), "{part}\n{lock}");
    }
    // With the network cut, by name, by reference, and by the reference with its digest.
    drop(registry);
    assert_eq!(assert_ok(bench.run(&["call", "greeter", "read"])).stdout.trim(), "hello");
    for reference in [&reference, &published.reference.to_string()] {
        assert_eq!(assert_ok(bench.run(&["--offline", "call", reference, "read"])).stdout.trim(), "hello");
    }
    let inspected = assert_ok(bench.run(&["--offline", "inspect", &reference]));
    assert!(inspected.stderr.contains("verified, signed by the key"), "{inspected:?}");
    assert_refused(&bench, &["add", &reference, "--yes"], 2, &["already has `greeter`", "fumehood update greeter"]);
}

#[test]
fn a_key_can_be_trusted_while_adding() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = Workbench::new();
    let reference = registry.reference("1.0");
    assert_refused(
        &bench,
        &["add", &reference, "--yes"],
        3,
        &["`--key FILE`", "no key is trusted for", "`trusted_keys`"],
    );
    let json = bench.run(&["add", &reference, "--yes", "--json"]).json();
    assert_eq!(json["error"]["kind"], "refused", "{json}");
    assert!(json["error"]["message"].as_str().unwrap().contains("`--key FILE`"), "{json}");
    assert!(!bench.path("fumehood.toml").exists() && !bench.path("fumehood.lock").exists());
    assert_eq!(store_files(&bench), [""; 0].map(std::path::PathBuf::from));
    bench.put("acme.pem", KEY.public().to_pem());
    // A new configuration is trusted: nobody else has written it.
    let add = bench.command_without_trust(&["add", &reference, "--key", "acme.pem", "--name", "hello", "--yes"]);
    assert_ok(Workbench::run_command(add));
    let called = Workbench::run_command(bench.command_without_trust(&["call", "hello__read"]));
    assert_eq!(assert_ok(called).stdout.trim(), "hello");
    assert_ok(bench.run(&["config", "check"]));
    // One that was changed by hand is not.
    let toml = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    bench.put("fumehood.toml", format!("{toml}# more\n"));
    let called = Workbench::run_command(bench.command_without_trust(&["call", "hello__read"]));
    assert_eq!(called.code, 3, "{called:?}");
}

fn assert_add_refused(bench: &Workbench, registry: &Registry, tag: &str, parts: &[&str]) {
    assert_refused(bench, &["add", &registry.reference(tag), "--yes"], 3, parts);
    assert!(store_files(bench).is_empty() && !bench.path("fumehood.lock").exists());
}

#[test]
fn refuses_what_no_trusted_key_signed() {
    let Some(registry) = Registry::start() else { return };
    let bench = trusting_bench();
    registry.publish("unsigned", &[ToolDescription::new("one")], None);
    assert_add_refused(&bench, &registry, "unsigned", &["acme/greeter is not signed"]);
    registry.publish("foreign", &[ToolDescription::new("two")], Some(&OTHER_KEY));
    assert_add_refused(
        &bench,
        &registry,
        "foreign",
        &["`--key FILE`", "is signed with a key that is not trusted for it"],
    );
    assert_refused(&bench, &["add", &registry.reference("none"), "--yes"], 6, &["does not exist"]);
    assert_refused(&bench, &["--offline", "add", &registry.reference("none"), "--yes"], 6, &["is not in the store"]);
    assert_refused(&bench, &["add", "ghcr.io/acme/greeter:1", "--yes"], 2, &["no such file", "oci://HOST/NAME:TAG"]);
    assert_refused(&bench, &["add", "oci://here", "--yes"], 2, &["has no registry; expected oci://HOST"]);
    assert_refused(&bench, &["add", "https://example.com/a.wasm", "--yes"], 2, &["has no digest"]);
    // The policy may be weaker, and says so.
    bench.put("fumehood.toml", "[registry]\nsignatures = \"warn\"\n");
    let added = assert_ok(bench.run(&["add", &registry.reference("unsigned"), "--yes"]));
    assert!(added.stderr.contains("is not signed"), "{added:?}");
    assert!(added.stdout.contains("signature  not verified"), "{added:?}");
}

#[test]
fn refuses_what_the_policy_forbids() {
    let Some(registry) = Registry::start() else { return };
    let published = registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    let base = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    for (line, part) in [
        ("allow = [\"ghcr.io/**\"]".to_owned(), "is not an allowed name (ghcr.io/**)"),
        ("max_bytes = 100".to_owned(), "the maximum is 100 B"),
        ("min_age = \"1000years\"".to_owned(), "`min_age` is 1000years"),
        (format!("revoked = [\"{}\"]", published.manifest), "is revoked"),
        (format!("revoked = [\"{}\"]", published.component), "is revoked"),
    ] {
        bench.put("fumehood.toml", format!("{base}{line}\n"));
        assert_refused(&bench, &["add", &registry.reference("1.0"), "--yes"], 3, &[part]);
        assert!(store_files(&bench).is_empty(), "{line}");
    }
}

fn assert_noticed_at_registry(
    bench: &Workbench,
    registry: &Registry,
    pinned: &str,
    digest: &fumehood::Digest,
    parts: &[&str],
) {
    let file = registry.blob(digest);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 3;
    bad[last] ^= 1;
    std::fs::write(&file, bad).unwrap();
    assert_refused(bench, &["add", pinned, "--yes"], 6, parts);
    assert_eq!(store_files(bench), [""; 0].map(std::path::PathBuf::from), "no part of it is left");
    assert!(!bench.path("fumehood.lock").exists());
    std::fs::write(&file, good).unwrap();
}

#[test]
fn refuses_what_was_tampered_with_at_the_registry() {
    let Some(registry) = Registry::start() else { return };
    let first = registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    let pinned = first.reference.to_string();
    assert_noticed_at_registry(
        &bench,
        &registry,
        &pinned,
        &first.component,
        &["sent wrong bytes for the component", "nothing was stored"],
    );
    assert_noticed_at_registry(&bench, &registry, &pinned, &first.manifest, &["manifest"]);
    assert_noticed_at_registry(&bench, &registry, &pinned, &first.signature.unwrap(), &["manifest"]);
    assert_ok(bench.run(&["add", &pinned, "--yes"]));
}

fn assert_noticed_here(bench: &Workbench, file: &std::path::Path, code: i32, parts: &[&str]) {
    let good = std::fs::read(file).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 3;
    bad[last] ^= 1;
    std::fs::write(file, bad).unwrap();
    assert_refused(bench, &["call", "greeter", "read"], code, parts);
    std::fs::write(file, good).unwrap();
}

#[test]
fn refuses_what_was_tampered_with_here() {
    let Some(registry) = Registry::start() else { return };
    let published = registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    assert_ok(bench.run(&["add", &registry.reference("1.0"), "--yes"]));
    let blobs = bench.path("state/fumehood/store/blobs");
    assert_noticed_here(&bench, &blobs.join(published.component.hex()), 6, &["was changed: expected the digest"]);
    assert_noticed_here(&bench, &blobs.join(published.manifest.hex()), 6, &["was changed: its digest does not match"]);
    let known = [published.component.hex(), published.manifest.hex()];
    for file in std::fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path()) {
        if !known.contains(&file.file_name().unwrap().to_str().unwrap().to_owned()) {
            assert_noticed_here(&bench, &file, 6, &["was changed"]);
        }
    }
    assert_noticed_here(&bench, &bench.path("fumehood.lock"), 2, &["the lock"]);
    // Another publisher's key: what is in the store is no longer trusted.
    let toml = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    let other = String::from(OTHER_KEY.public().clone());
    bench.put("fumehood.toml", toml.replace(&String::from(KEY.public().clone()), &other));
    assert_refused(&bench, &["call", "greeter", "read"], 3, &["is signed with a key that is not trusted"]);
    bench.put("fumehood.toml", &toml);
    assert_ok(bench.run(&["call", "greeter", "read"]));
}

#[test]
fn a_model_and_a_client_are_given_components_by_reference() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    bench.put("script.jsonl", "{\"calls\": [{\"name\": \"hello__read\", \"arguments\": {}}]}\n{\"text\": \"Done.\"}\n");
    let reference = registry.reference("1.0");
    let tool = format!("hello={reference}");
    let ran = assert_ok(bench.run(&["run", "Greet.", "--tool", &tool, "--script", "script.jsonl"]));
    assert!(ran.stdout.contains("Done.") && ran.stderr.contains("✓ hello__read"), "{ran:?}");
    // Its input ends at once.
    let served = assert_ok(bench.run(&["--offline", "serve", "mcp", &reference]));
    assert!(served.stderr.contains("serving 1 tool "), "{served:?}");
    assert_refused(&Workbench::new(), &["call", &reference, "read"], 3, &["no key is trusted for"]);
}

#[test]
fn embedders_load_by_reference() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let folder = tempfile::tempdir().unwrap();
    let store = || Store::open(folder.path().join("store")).unwrap();
    let reference: OciReference = registry.reference("1.0").parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let host = fumehood::Host::builder().build().unwrap();
        let offline = Arc::new(RegistrySource::new(store(), trusting_policy()));
        let missing = host.load(Load::reference(reference.clone(), offline.clone())).await.err().unwrap();
        assert!(matches!(missing, fumehood::LoadError::Fetch { .. }), "{missing}");
        let online = RegistrySource::new(store(), trusting_policy()).client(RegistryClient::builder().build().unwrap());
        host.load(Load::reference(reference.clone(), Arc::new(online))).await.unwrap();
        let called = host.call(fumehood::Call::new("greeter__read", serde_json::json!({}))).await;
        assert_eq!(called.text().as_deref(), Some("hello"));
        host.reload(Load::reference(reference.clone(), offline).named("greeter")).await.unwrap();
        let nobody = Arc::new(RegistrySource::new(store(), Policy::new()));
        let refused = host.reload(Load::reference(reference, nobody)).await.err().unwrap();
        assert!(std::error::Error::source(&refused).unwrap().to_string().contains("no key is trusted"), "{refused}");
    });
}

#[test]
fn many_stored_components_are_verified_in_their_order() {
    let Some(registry) = Registry::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = || Store::open(folder.path().join("store")).unwrap();
    let online = RegistrySource::new(store(), trusting_policy()).client(RegistryClient::builder().build().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut references: Vec<Reference> = Vec::new();
    for (tag, key) in [("1", &*KEY), ("2", &*KEY), ("3", &*OTHER_KEY), ("4", &*KEY), ("5", &*KEY)] {
        let published = registry.publish(tag, &[ToolDescription::new(&format!("read-{tag}"))], Some(key));
        references.push(Reference::Oci(published.reference));
    }
    // The third is signed by somebody else; the last is not in the store.
    for reference in &references[..4] {
        let got = runtime.block_on(online.get(reference, &mut |_| {}));
        assert_eq!(got.is_ok(), *reference != references[2], "{got:?}");
    }
    let found = RegistrySource::new(store(), trusting_policy()).stored_all(&references);
    assert_eq!(found.len(), 5);
    for (index, (found, reference)) in found.iter().zip(&references).enumerate() {
        match (index, found) {
            (2 | 4, Err(FetchError::NotStored(_))) => {}
            (0 | 1 | 3, Ok(component)) => assert_eq!(component.reference, *reference),
            other => panic!("{other:?}"),
        }
    }
    let foreign = Policy::new().trusted_keys([OTHER_KEY.public().clone()]);
    let found = RegistrySource::new(store(), foreign).stored_all(&references);
    assert!(
        found.iter().all(|found| matches!(found, Err(FetchError::Policy(_) | FetchError::NotStored(_)))),
        "{found:?}"
    );
}

#[test]
fn adds_a_file_below_the_configuration() {
    let bench = Workbench::new();
    bench.example("calculator");
    assert_ok(bench.run(&["add", "calculator.wasm", "--yes"]));
    let toml = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    assert_eq!(toml, "[tools.calculator]\ncomponent = \"calculator.wasm\"\n");
    assert_ok(bench.run(&["call", "calculator__add", "a=3", "b=5"]));
}

/// Kills the command at many moments of its run: configuration and lock are the old ones or the new ones.
fn undo_add(bench: &Workbench, old: &str) {
    bench.put("fumehood.toml", old);
    let _ = std::fs::remove_file(bench.path("fumehood.lock"));
    let _ = std::fs::remove_dir_all(bench.path("state/fumehood/store"));
}

#[test]
fn a_killed_add_leaves_nothing_half_written() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    let file = bench.path("fumehood.toml");
    let lock = bench.path("fumehood.lock");
    let old = std::fs::read_to_string(&file).unwrap();
    let reference = registry.reference("1.0");
    let new = format!("{old}\n[tools.greeter]\nreference = \"{reference}\"\n");
    let arguments = ["add", &reference, "--yes"];
    assert_ok(bench.run(&arguments));
    undo_add(&bench, &old);
    let began = Instant::now();
    assert_ok(bench.run(&arguments));
    let whole = began.elapsed();
    let mut completed = 0;
    let mut approved = 0;
    for kill in 0..KILLS {
        undo_add(&bench, &old);
        let mut running = bench
            .command(&arguments)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Beyond the end, since the next run may take longer than the first.
        std::thread::sleep(whole * kill / KILLS * 5 / 4 + Duration::from_micros(u64::from(kill % 7) * 300));
        let _ = running.kill();
        running.wait().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text == old || text == new, "{kill}: {text}");
        let approvals = Lock::open(&lock).unwrap().iter().count();
        assert!(approvals <= 1, "{kill}");
        assert!(text == old || approvals == 1, "{kill}: what is in the configuration is approved");
        completed += u32::from(text == new);
        approved += u32::try_from(approvals).unwrap();
        if text == new {
            assert_ok(bench.run(&["--offline", "call", "greeter", "read"]));
        }
    }
    println!("{KILLS} kills within {whole:?}: {approved} after the lock, {completed} after the configuration");
    undo_add(&bench, &old);
    assert_ok(bench.run(&arguments));
    assert_ok(bench.run(&["call", "greeter", "read"]));
}

#[test]
fn removes_what_was_added() {
    let bench = Workbench::new();
    bench.example("calculator");
    let before = "# Ours.\n[log]\noff = true # for now\n";
    bench.put("fumehood.toml", before);
    assert_ok(bench.run(&["add", "calculator.wasm", "--yes"]));
    let removed = assert_ok(bench.run(&["remove", "calculator"]));
    let expected = "removed `calculator` from fumehood.toml, and revoked its approval in fumehood.lock\n";
    assert_eq!(removed.stdout, expected);
    assert_eq!(std::fs::read_to_string(bench.path("fumehood.toml")).unwrap().trim_end(), before.trim_end());
    assert!(!std::fs::read_to_string(bench.path("fumehood.lock")).unwrap().contains("calculator"));
    assert_refused(&bench, &["remove", "calculator"], 2, &["no component `calculator`", "it has none"]);
}
