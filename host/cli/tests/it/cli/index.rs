//! `fumehood index build` and `fumehood search`, over components in Debian's `docker-registry` on this machine.

use fumehood_tests::docker_registry::{DockerRegistry, Settings};

use super::key::{PASSPHRASE, run_with_passphrase};
use super::workbench::{CommandOutput, Workbench};

/// A folder with a key, and two components that were published with it.
struct Catalogue {
    bench: Workbench,
    references: Vec<String>,
    _registry: DockerRegistry,
}

impl Catalogue {
    /// Publishes the components; `None` if there is no registry.
    fn start(sign: bool) -> Option<Self> {
        let bench = Workbench::new();
        std::fs::create_dir(bench.path("registry")).unwrap();
        let registry = DockerRegistry::start(&bench.path("registry"), Settings::default()).unwrap()?;
        for name in ["default", "other"] {
            assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "new", name]).code, 0);
        }
        let mut references = Vec::new();
        for name in ["calculator", "notes"] {
            bench.example(name);
            let reference = format!("oci://{}/acme/{name}:1.0", registry.host());
            let file = format!("{name}.wasm");
            let publish = ["publish", reference.as_str(), file.as_str()];
            let arguments = if sign { [&publish[..], &["--sign", "default"]].concat() } else { publish.to_vec() };
            let ran = run_with_passphrase(&bench, PASSPHRASE, &arguments);
            assert_eq!(ran.code, 0, "{ran:?}");
            references.push(reference);
        }
        Some(Self { bench, references, _registry: registry })
    }

    fn build(&self, options: &[&str]) -> CommandOutput {
        let references: Vec<&str> = self.references.iter().map(String::as_str).collect();
        let arguments = [&["index", "build", "--out", "tools.json"], &references[..], options].concat();
        run_with_passphrase(&self.bench, PASSPHRASE, &arguments)
    }

    fn search(&self, words: &[&str], key: &str) -> CommandOutput {
        self.bench.run(&[&["search", "--index", "tools.json", "--index-key", key], words].concat())
    }
}

#[test]
fn finds_tools_of_published_components() {
    let Some(catalogue) = Catalogue::start(true) else { return };
    let built = catalogue.build(&[]);
    assert!(built.code == 0 && built.stdout.contains("the index `tools`"), "{built:?}");
    let found = catalogue.search(&["divide"], "default");
    assert_eq!(found.code, 0, "{found:?}");
    assert!(found.stdout.contains("/acme/calculator:1.0@sha256:") && !found.stdout.contains("acme/notes"), "{found:?}");
    assert!(found.stdout.contains("divide:") && found.stdout.contains("signed by sha256:"), "{found:?}");
    let json = catalogue.search(&["acme", "--json"], "data/fumehood/keys/default.pub").json();
    assert_eq!(json.as_array().unwrap().len(), 2, "{json}");
    assert!(json[0]["signers"][0].as_str().unwrap().starts_with("sha256:"), "{json}");
    let keys = r#"keys = [{ file = "data/fumehood/keys/default.pub" }]"#;
    catalogue.bench.put("fumehood.toml", format!("[registry.indexes.tools]\nfile = \"tools.json\"\n{keys}\n"));
    let configured = catalogue.bench.run(&["search", "divide", "--config", "fumehood.toml"]);
    assert_eq!((configured.code, &configured.stdout), (0, &found.stdout), "{configured:?}");
    let none = catalogue.search(&["divide", "zebra"], "default");
    assert!(none.code == 0 && none.stderr.contains("none of 2 components"), "{none:?}");
}

#[test]
fn refuses_indexes_that_were_changed() {
    let Some(catalogue) = Catalogue::start(true) else { return };
    assert_eq!(catalogue.build(&[]).code, 0);
    let foreign = catalogue.search(&["divide"], "other");
    assert!(foreign.code == 3 && foreign.stderr.contains("signed with a key that is not trusted"), "{foreign:?}");
    let file = catalogue.bench.path("tools.json");
    let text = std::fs::read_to_string(&file).unwrap();
    // The payload is base64: another letter in its middle is another list.
    let middle = text.find("payload\"").unwrap() + 200;
    let other = if &text[middle..=middle] == "A" { "B" } else { "A" };
    std::fs::write(&file, format!("{}{other}{}", &text[..middle], &text[middle + 1..])).unwrap();
    let changed = catalogue.search(&["divide"], "default");
    assert!(changed.code == 3 && changed.stderr.contains("the index `tools`"), "{changed:?}");
    std::fs::write(&file, "{}").unwrap();
    assert!(catalogue.search(&["divide"], "default").stderr.contains("cannot read the index"));
    std::fs::write(catalogue.bench.path("renamed.json"), &text).unwrap();
    let arguments = ["search", "divide", "--index", "renamed.json", "--index-key", "default"];
    let renamed = catalogue.bench.run(&arguments);
    assert!(renamed.code == 3 && renamed.stderr.contains("expected the index `renamed`, got `tools`"), "{renamed:?}");
}

#[test]
fn refuses_an_older_index_than_was_read_before() {
    let Some(catalogue) = Catalogue::start(true) else { return };
    let file = catalogue.bench.path("tools.json");
    assert_eq!(catalogue.build(&[]).code, 0);
    let old = std::fs::read(&file).unwrap();
    assert_eq!(catalogue.build(&[]).code, 0);
    assert_eq!(catalogue.search(&["divide"], "default").code, 0);
    let new = std::fs::read(&file).unwrap();
    std::fs::write(&file, old).unwrap();
    let refused = catalogue.search(&["divide"], "default");
    assert!(refused.code == 3 && refused.stderr.contains("was already read from there"), "{refused:?}");
    let json = catalogue.search(&["divide", "--json"], "default").json();
    assert_eq!(json["error"]["kind"], "refused", "{json}");
    std::fs::write(&file, new).unwrap();
    assert_eq!(catalogue.search(&["divide"], "default").code, 0);
}

#[test]
fn lists_unsigned_components_only_on_request() {
    let Some(catalogue) = Catalogue::start(false) else { return };
    let refused = catalogue.build(&[]);
    assert!(refused.code == 3 && refused.stderr.contains("is not signed"), "{refused:?}");
    assert!(!catalogue.bench.path("tools.json").exists());
    let built = catalogue.build(&["--allow-unsigned"]);
    assert!(built.code == 0 && built.stdout.contains("not signed"), "{built:?}");
    assert!(catalogue.search(&["divide"], "default").stdout.contains("not signed, says the index `tools`"));
}

fn assert_search_refused(bench: &Workbench, arguments: &[&str], expected: &str) {
    let ran = bench.run(&[&["search", "word"], arguments].concat());
    assert!(ran.code != 0 && ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn search_names_what_is_missing() {
    let bench = Workbench::new();
    assert_search_refused(&bench, &[], "--index");
    assert_search_refused(&bench, &["--index", "none.json", "--index-key", "none.pub"], "no public key none.pub");
    bench.put("bad.pub", "text");
    assert_search_refused(&bench, &["--index", "none.json", "--index-key", "bad.pub"], "invalid public key");
    let made = run_with_passphrase(&bench, PASSPHRASE, &["key", "new"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_search_refused(
        &bench,
        &["--index", "none.json", "--index-key", "default"],
        "cannot read the index none.json",
    );
    assert_search_refused(
        &bench,
        &["--index", "http://a.example/tools.json", "--index-key", "default"],
        "it is not encrypted",
    );
    assert_search_refused(&bench, &["--index", "https://", "--index-key", "default"], "has no file name for the index");
    assert_search_refused(
        &bench,
        &["--offline", "--index", "https://a.example/tools.json", "--index-key", "default"],
        "leave `--offline` out",
    );
}
