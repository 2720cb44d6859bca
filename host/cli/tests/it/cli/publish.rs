//! `fumehood publish`, to Debian's `docker-registry` on this machine, which has no API for referrers.

use base64::Engine as _;
use fumehood_tests::docker_registry::{DockerRegistry, PASSWORD, Settings, USER};
use serde_json::Value;

use super::key::{PASSPHRASE, run_with_passphrase};
use super::workbench::{CommandOutput, Workbench};

/// A registry and a folder with a component and a key.
struct PublishBench {
    bench: Workbench,
    registry: DockerRegistry,
}

impl PublishBench {
    /// Starts the registry; `None` if it is not installed.
    fn start(settings: Settings<'_>) -> Option<Self> {
        let bench = Workbench::new();
        std::fs::create_dir(bench.path("registry")).unwrap();
        let registry = DockerRegistry::start(&bench.path("registry"), settings).unwrap()?;
        bench.example("calculator");
        assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "new"]).code, 0);
        Some(Self { bench, registry })
    }

    fn reference(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.registry.host())
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        run_with_passphrase(&self.bench, PASSPHRASE, arguments)
    }

    /// Returns the tags of a repository, as the registry's files have them.
    fn tags(&self, repository: &str) -> Vec<String> {
        let folder = format!("registry/storage/docker/registry/v2/repositories/{repository}/_manifests/tags");
        let entries = std::fs::read_dir(self.bench.path(&folder)).into_iter().flatten();
        let mut tags: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        tags.sort();
        tags
    }
}

#[test]
fn publishes_with_signature_and_the_same_digest_again() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:1.0.0");
    let first = published.run(&["publish", &reference, "calculator.wasm", "--sign", "default", "--json"]);
    assert_eq!(first.code, 0, "{first:?}");
    let first = first.json();
    assert!(first["signature"].is_string() && first["signer"]["algorithm"] == "p256", "{first}");
    let pinned = format!("{reference}@{}", first["manifest"].as_str().unwrap());
    let key = published.bench.path("data/fumehood/keys/default.pub");
    assert_eq!(first["next"], format!("fumehood add {pinned} --key {}", key.display()));
    // The fallback tag lists the signature; the version is there as well.
    let tags = published.tags("acme/calculator");
    assert!(tags.len() == 2 && tags[0] == "1.0.0" && tags[1].starts_with("sha256-"), "{tags:?}");
    let again = published.run(&["publish", &reference, "calculator.wasm", "--sign", "default"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.contains(&format!("published {pinned}")), "{again:?}");
    assert!(again.stdout.contains(", unchanged") && again.stdout.contains("next: fumehood add oci://"), "{again:?}");
    let elsewhere = published.run(&["publish", &published.reference("b/c:2"), "calculator.wasm", "--json"]).json();
    assert_eq!((&elsewhere["manifest"], &elsewhere["signature"]), (&first["manifest"], &Value::Null));
}

#[test]
fn dry_run_shows_everything_and_sends_nothing() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:1.0.0");
    let arguments = ["publish", &reference, "calculator.wasm", "--sign", "default", "--dry-run"];
    let shown = published.run(&arguments);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in [
        "nothing is sent",
        "application/vnd.wasm.config.v0+json",
        "application/vnd.dev.sigstore.bundle.v0.3+json",
        "org.opencontainers.image.title = calculator",
        "https://slsa.dev/provenance/v1",
        "\"layers\"",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {shown:?}");
    }
    let json = published.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(json["statement"]["subject"][0]["name"], reference[6..].trim_end_matches(":1.0.0"));
    assert!(published.tags("acme/calculator").is_empty());
    // What was shown is what is sent.
    let sent = published.run(&["publish", &reference, "calculator.wasm", "--sign", "default", "--json"]).json();
    assert_eq!(json["parts"][0]["digest"], sent["manifest"]);
    assert_eq!(json["parts"][2]["digest"], sent["component"]);
    // Nobody has to be there.
    let nowhere = published.run(&["publish", "oci://registry.invalid/a/b:1", "calculator.wasm", "--dry-run"]);
    assert_eq!(nowhere.code, 0, "{nowhere:?}");
}

#[test]
fn unsigned_component_is_published_with_a_warning() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let ran = published.run(&["publish", &published.reference("a/b:1"), "calculator.wasm"]);
    assert!(ran.code == 0 && ran.stderr.contains("it is not signed"), "{ran:?}");
    assert!(ran.stderr.contains("run this again with `--sign default`"), "{ran:?}");
    std::fs::remove_dir_all(published.bench.path("data")).unwrap();
    let ran = published.run(&["publish", &published.reference("a/b:1"), "calculator.wasm", "--dry-run"]);
    assert!(ran.stdout.contains("create a key with `fumehood key new`"), "{ran:?}");
}

#[test]
fn a_tag_that_moves_is_reported() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    published.bench.example("files");
    let reference = published.reference("acme/tool:latest");
    let first = published.run(&["publish", &reference, "calculator.wasm", "--json"]).json();
    assert_eq!(first["replaced"], Value::Null);
    let moved = published.run(&["publish", &reference, "files.wasm"]);
    let expected = format!("replaces   {}, which the tag named before", first["manifest"].as_str().unwrap());
    assert!(moved.stdout.contains(&expected), "{moved:?}");
}

#[test]
fn a_version_is_not_replaced_unasked() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    published.bench.example("files");
    for tag in ["0.1.0", "v2.0.0-rc.1"] {
        let reference = published.reference(&format!("acme/tool:{tag}"));
        let first = published.run(&["publish", &reference, "calculator.wasm", "--json"]).json();
        let refused = published.run(&["publish", &reference, "files.wasm"]);
        assert_eq!(refused.code, 7, "{refused:?}");
        assert!(refused.stderr.contains(first["manifest"].as_str().unwrap()), "{refused:?}");
        assert!(refused.stderr.contains("`--replace`"), "{refused:?}");
        assert_eq!(
            published.run(&["publish", &reference, "calculator.wasm", "--json"]).json()["replaced"],
            Value::Null
        );
        let replaced = published.run(&["publish", &reference, "files.wasm", "--replace", "--json"]).json();
        assert_eq!(replaced["replaced"], first["manifest"]);
    }
}

#[test]
fn the_readme_block_is_a_configuration_that_works() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:1.0.0");
    let sent = published.run(&["publish", &reference, "calculator.wasm", "--sign", "default"]);
    let block = sent.stdout.split_once("for the README of the tool:").unwrap().1;
    let toml = block.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    published.bench.put("fumehood.toml", toml);
    let approved = published.run(&["approve", "calculator", "--yes"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert_eq!(published.run(&["call", "calculator", "add", "a=1", "b=2"]).stdout.trim(), "{\"result\":3}");
}

#[test]
fn annotations_and_versions_are_those_of_the_component() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:9.9.9");
    let annotation = "org.opencontainers.image.vendor=Acme";
    let arguments = ["publish", &reference, "calculator.wasm", "--annotation", annotation, "--dry-run", "--json"];
    let json = published.run(&arguments).json();
    assert_eq!(json["annotations"]["org.opencontainers.image.vendor"], "Acme");
    let ran = published.run(&["publish", &reference, "calculator.wasm", "--annotation", "nonsense"]);
    assert!(ran.code == 2 && ran.stderr.contains("expected NAME=VALUE"), "{ran:?}");
}

#[test]
fn project_gives_the_component() {
    let bench = Workbench::new();
    bench.put("tool.toml", "name = \"calculator\"\n");
    let ran = bench.run(&["publish", "oci://registry.invalid/a/b:1", "--dry-run"]);
    assert!(ran.code == 2 && ran.stderr.contains("no such file dist/calculator.wasm; build it with `fumehood build`"));
    bench.example("calculator");
    std::fs::create_dir(bench.path("dist")).unwrap();
    std::fs::rename(bench.path("calculator.wasm"), bench.path("dist/calculator.wasm")).unwrap();
    let ran = bench.run(&["publish", "oci://registry.invalid/a/b:1", "--dry-run"]);
    assert!(ran.code == 0 && ran.stdout.contains("would publish dist/calculator.wasm as oci://"), "{ran:?}");
}

fn assert_publish_refused(published: &PublishBench, reference: &str, file: &str, code: i32, expected: &str) {
    let ran = published.run(&["publish", reference, file]);
    assert!(ran.code == code && ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn refuses_what_is_no_component_or_has_another_digest() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:1");
    assert_publish_refused(&published, &reference, "none.wasm", 2, "no such file none.wasm");
    published.bench.put("text.wasm", "hello");
    assert_publish_refused(&published, &reference, "text.wasm", 6, "this is not a WebAssembly component");
    published.bench.put("module.wasm", wat::parse_str("(module)").unwrap());
    assert_publish_refused(&published, &reference, "module.wasm", 6, "this is a core module, not a component");
    let pinned = published.reference(&format!("acme/calculator:1@sha256:{}", "0".repeat(64)));
    assert_publish_refused(&published, &pinned, "calculator.wasm", 3, "names another component");
    assert_publish_refused(&published, "ghcr.io/a/b:1", "calculator.wasm", 2, "expected oci://HOST[:PORT]/NAME:TAG");
    assert_publish_refused(
        &published,
        &published.reference("acme/calculator"),
        "calculator.wasm",
        2,
        "has no version; add a tag",
    );
    assert_publish_refused(
        &published,
        &published.reference("Acme/calculator:1"),
        "calculator.wasm",
        2,
        "invalid name in",
    );
    assert!(published.tags("acme/calculator").is_empty());
}

#[test]
fn refuses_wrong_passphrases_and_keys_before_anything_is_sent() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:1");
    let arguments = ["publish", &reference, "calculator.wasm", "--sign", "default"];
    let wrong = run_with_passphrase(&published.bench, "another passphrase", &arguments);
    assert!(wrong.code == 3 && wrong.stderr.contains("wrong passphrase"), "{wrong:?}");
    let none = published.bench.run(&arguments);
    assert!(none.code == 2 && none.stderr.contains("set FUMEHOOD_KEY_PASSPHRASE"), "{none:?}");
    let unknown = published.run(&["publish", &reference, "calculator.wasm", "--sign", "release"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no key `release`"), "{unknown:?}");
    // A key that was changed on disk.
    let file = published.bench.path("data/fumehood/keys/default.pem");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().nth(2).unwrap();
    std::fs::write(&file, text.replace(line, &line.chars().rev().collect::<String>())).unwrap();
    let changed = published.run(&arguments);
    assert!(changed.code != 0 && changed.stdout.is_empty(), "{changed:?}");
    assert!(published.tags("acme/calculator").is_empty());
}

#[test]
fn registry_that_is_not_there_is_named() {
    let bench = Workbench::new();
    bench.example("calculator");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = bench.run(&["publish", &format!("oci://127.0.0.1:{port}/a/b:1"), "calculator.wasm", "--json"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    let message = ran.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("127.0.0.1:{port} cannot be reached")), "{message}");
}

fn publish_with_password(published: &PublishBench, reference: &str, password: &str) -> CommandOutput {
    let entry = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{password}"));
    let host = published.registry.host();
    published.bench.put("config.json", format!(r#"{{"auths":{{"{host}":{{"auth":"{entry}"}}}}}}"#));
    let mut command = published.bench.command(&["publish", reference, "calculator.wasm"]);
    command.env("DOCKER_CONFIG", published.bench.path("."));
    Workbench::run_command(command)
}

#[test]
fn registry_with_passwords_takes_those_of_docker() {
    let settings = Settings { has_password: true, ..Settings::default() };
    let Some(published) = PublishBench::start(settings) else { return };
    let reference = published.reference("acme/calculator:1");
    let ran = published.run(&["publish", &reference, "calculator.wasm"]);
    assert!(ran.code == 3 && ran.stderr.contains("log in with `docker login 127.0.0.1:"), "{ran:?}");
    let wrong = publish_with_password(&published, &reference, "another");
    assert!(wrong.code == 3 && !wrong.stderr.contains("another"), "{wrong:?}");
    let right = publish_with_password(&published, &reference, PASSWORD);
    assert!(right.code == 0 && !right.stderr.contains(PASSWORD), "{right:?}");
    assert_eq!(published.tags("acme/calculator"), ["1"]);
}

fn assert_option_refused(bench: &Workbench, options: &[&str], expected: &str) {
    let ran = bench.run(&[&["publish", "oci://127.0.0.1:1/a/b:1", "calculator.wasm"], options].concat());
    assert!(ran.code != 0 && ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn roots_and_plain_hosts_are_options() {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.put("roots.pem", "no certificate");
    assert_option_refused(&bench, &["--tls-root", "none.pem"], "cannot read the root certificates in none.pem");
    assert_option_refused(&bench, &["--tls-root", "roots.pem"], "expected PEM with `BEGIN CERTIFICATE`");
    assert_option_refused(&bench, &["--plain-http", "127.0.0.1:1"], "127.0.0.1:1 cannot be reached");
}

#[test]
fn mcp_package_is_written_beside_the_component() {
    let Some(published) = PublishBench::start(Settings::default()) else { return };
    let reference = published.reference("acme/calculator:1.0.0");
    let name = ["--mcp", "--mcp-name", "com.example/calculator", "--mcp-url", "https://example.com/calculator.mcpb"];
    let arguments = [&["publish", &reference, "calculator.wasm", "--json"], &name[..]].concat();
    let dry = published.run(&[&arguments[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(!published.bench.path("server.json").exists());
    let json = published.run(&arguments).json();
    assert_eq!(json["mcp"]["server"], "server.json");
    let bundle = published.bench.path(json["mcp"]["bundle"].as_str().unwrap());
    let first = std::fs::read(&bundle).unwrap();
    let server: Value = serde_json::from_slice(&std::fs::read(published.bench.path("server.json")).unwrap()).unwrap();
    assert_eq!(server["name"], "com.example/calculator");
    assert_eq!(server["packages"][0]["registryType"], "mcpb");
    published.run(&arguments);
    assert_eq!(std::fs::read(&bundle).unwrap(), first, "the same component has the same bundle");
    // Programs of others read it.
    if let Ok(unpacked) =
        std::process::Command::new("unzip").arg("-o").arg(&bundle).current_dir(published.bench.path(".")).output()
    {
        assert!(unpacked.status.success(), "{unpacked:?}");
        let component = std::fs::read(published.bench.path("server/calculator.wasm")).unwrap();
        assert_eq!(component, std::fs::read(published.bench.path("calculator.wasm")).unwrap());
    }
    let nameless = published.run(&["publish", &reference, "calculator.wasm", "--mcp", "--dry-run"]);
    assert!(nameless.code == 2 && nameless.stderr.contains("--mcp-name"), "{nameless:?}");
}
