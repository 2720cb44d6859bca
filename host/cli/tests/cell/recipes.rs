//! The shipped recipes: the compose file of a cell is well formed, and names files, users, commands and volumes that exist; the units
//! of systemd, the Containerfile, the documentation and the release agree about paths.
//!
//! The rights that its NATS configuration gives are tested beside the protocol, in `host/cell/tests/it/recipes.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

/// A line without comments: its indentation and its text.
type Line<'a> = (usize, &'a str);

/// Reads the YAML that the compose file is written in: blocks and flows of mappings and sequences, plain and quoted scalars, one
/// line each, with anchors of mappings that others merge. Everything else is a failure of the test.
struct Reader {
    anchors: BTreeMap<String, Value>,
}

impl Reader {
    fn read(text: &str) -> Value {
        let lines: Vec<Line<'_>> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
            .inspect(|line| assert!(!line.contains(" #") && !line.contains('\t'), "not understood: {line}"))
            .map(|line| (line.len() - line.trim_start().len(), line.trim()))
            .collect();
        let mut reader = Self { anchors: BTreeMap::new() };
        let mut rest = lines.as_slice();
        let read = reader.block(&mut rest, 0);
        assert!(rest.is_empty(), "wrong indentation: {rest:?}");
        read
    }

    /// Reads the lines that are indented by this much.
    fn block(&mut self, rest: &mut &[Line<'_>], indent: usize) -> Value {
        let is_sequence = rest[0].1.starts_with("- ");
        let mut items = Vec::new();
        let mut members = Map::new();
        while let Some((_, line)) = rest.first().copied().filter(|(found, _)| *found == indent) {
            *rest = &rest[1..];
            if is_sequence {
                items.push(flow(line.strip_prefix("- ").unwrap_or_else(|| panic!("no item: {line}"))));
                continue;
            }
            let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("no key: {line}"));
            let value = value.trim();
            let anchor = value.strip_prefix('&');
            let deeper = rest.first().map(|(found, _)| *found).filter(|found| *found > indent);
            let value = match (value, anchor, deeper) {
                ("", _, Some(deeper)) | (_, Some(_), Some(deeper)) => self.block(rest, deeper),
                ("", _, None) => Value::Null,
                _ if key == "<<" => {
                    let name = value.strip_prefix('*').unwrap_or_else(|| panic!("no alias: {line}"));
                    members.extend(self.anchors[name].as_object().unwrap().clone());
                    continue;
                }
                _ => flow(value),
            };
            if let Some(anchor) = anchor {
                self.anchors.insert(anchor.to_owned(), value.clone());
            }
            assert!(members.insert(key.to_owned(), value).is_none(), "twice: {line}");
        }
        if is_sequence { Value::Array(items) } else { Value::Object(members) }
    }
}

/// Reads a value that is on one line.
fn flow(text: &str) -> Value {
    let inner = |open, close| text.strip_prefix(open).and_then(|text: &str| text.strip_suffix(close));
    if let Some(items) = inner('[', ']') {
        return items.split(", ").map(flow).collect();
    }
    if let Some(members) = inner('{', '}') {
        let member = |member: &str| {
            let (key, value) = member.trim().split_once(": ").unwrap();
            (key.to_owned(), flow(value))
        };
        return Value::Object(members.split(", ").map(member).collect());
    }
    if text.starts_with('"') {
        return serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }
    assert!(!text.starts_with(['\'', '&', '*', '|', '>', '!', '%']), "not understood: {text}");
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap()).collect()
}

fn release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../release")
}

fn compose() -> Value {
    Reader::read(&std::fs::read_to_string(release().join("cell/compose.yaml")).unwrap())
}

/// Returns the services, or those of our own image.
fn services(compose: &Value, own: bool) -> BTreeMap<&String, &Value> {
    let services = compose["services"].as_object().unwrap();
    services.iter().filter(|(_, service)| !own || service["image"] == "fumehood").collect()
}

/// Returns the names in a text that stand behind this mark.
fn names_after(text: &str, mark: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
    text.split(mark).skip(1).map(name).collect()
}

#[test]
fn commands_of_the_compose_file_are_understood() {
    let compose = compose();
    let nodes = services(&compose, true);
    assert_eq!(nodes.len(), 3);
    let containerfile = std::fs::read_to_string(release().join("Containerfile")).unwrap();
    for (name, node) in nodes {
        let command = strings(&node["command"]);
        // Every word before it is parsed before the help is printed.
        let parsed = Command::new(env!("CARGO_BIN_EXE_fumehood")).args(&command).arg("--help").output().unwrap();
        assert!(parsed.status.success(), "{name}: {parsed:?}");
        let wrong = Command::new(env!("CARGO_BIN_EXE_fumehood")).args(&command).args(["--nothing", "--help"]).output();
        assert!(!wrong.unwrap().status.success(), "an unknown option is noticed");
        let ports = strings(&node["ports"]);
        let listens = command.iter().filter_map(|word| word.rsplit_once(':')).map(|(_, port)| port);
        assert!(listens.eq(ports.iter().filter_map(|port| port.rsplit_once(':')).map(|(_, port)| port)), "{name}");
        let config = command.iter().position(|word| *word == "--config").map(|place| command[place + 1]).unwrap();
        let mounts: Vec<&str> =
            strings(&node["volumes"]).iter().map(|mount| mount.split(':').nth(1).unwrap()).collect();
        assert!(mounts.contains(&Path::new(config).parent().unwrap().to_str().unwrap()), "{name}: {mounts:?}");
        let home = mounts[1];
        assert!(containerfile.contains(&format!("HOME={home} ")) && node["read_only"] == true, "{name}");
        if command.contains(&"worker") {
            let grace = node["stop_grace_period"].as_str().unwrap().strip_suffix('s').unwrap();
            assert!(grace.parse::<u32>().unwrap() > 30, "{name} is killed before its calls ended");
        }
    }
}

#[test]
fn files_and_volumes_of_the_compose_file_exist() {
    let compose = compose();
    let declared: BTreeSet<&str> = compose["volumes"].as_object().unwrap().keys().map(String::as_str).collect();
    let text = std::fs::read_to_string(release().join("cell/compose.yaml")).unwrap();
    let described: String = text.lines().take_while(|line| line.starts_with('#')).collect();
    let mut used = BTreeSet::new();
    for (name, service) in services(&compose, false) {
        for mount in strings(&service["volumes"]) {
            let source = mount.split(':').next().unwrap();
            match source.strip_prefix("./") {
                None => assert!(used.insert(source), "{name}: {source} is used twice"),
                // A file of ours, or one that the first lines ask the operator for.
                Some(file) => assert!(
                    release().join("cell").join(file).is_file()
                        || described.contains(&format!("`{file}/`"))
                        || (described.contains("`nats/` with") && described.contains(&file["nats/".len()..])),
                    "{name}: {file}"
                ),
            }
        }
        for other in strings(&service["depends_on"]) {
            assert!(compose["services"].get(other).is_some(), "{name} depends on {other}");
        }
    }
    assert_eq!(used, declared);
    let named = names_after(&described, " release/");
    assert!(named.iter().all(|name| release().join(name).exists()) && named.len() >= 2, "{named:?}");
}

#[test]
fn users_of_the_compose_file_are_those_of_the_server() {
    let compose = compose();
    let nats = &compose["services"]["nats"];
    let conf = std::fs::read_to_string(release().join("cell/nats.conf")).unwrap();
    let variables: BTreeSet<String> = strings(&nats["environment"]).into_iter().map(str::to_owned).collect();
    assert_eq!(names_after(&conf, "password: $"), variables);
    let nodes = services(&compose, true);
    let users = names_after(&conf, "user: \"");
    assert!(users.iter().eq(nodes.keys().copied()), "{users:?}");
    for (name, node) in nodes {
        let variable = format!("{}_PASSWORD", name.to_uppercase().replace('-', "_"));
        assert_eq!(node["environment"]["NATS_PASSWORD"], format!("${{{variable}}}"), "{name}");
    }
    // Each file and folder of the server's configuration is mounted.
    let mounts: Vec<&str> = strings(&nats["volumes"]).iter().map(|mount| mount.split(':').nth(1).unwrap()).collect();
    for key in ["cert_file", "key_file", "store_dir"] {
        let (_, path) = conf.split_once(&format!("{key}: \"")).unwrap();
        let path = path.split('"').next().unwrap();
        assert!(mounts.contains(&path), "{key}: {path} {mounts:?}");
    }
    assert!(mounts.contains(&strings(&nats["command"])[1]), "{mounts:?}");
}

/// Reads a file of the repository, named from its root.
fn read(name: &str) -> String {
    let file = release().join("..").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the values of a key of a unit, in order.
fn settings<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn commands_of_the_units_are_understood() {
    for name in ["fumehood.service", "fumehood-worker.service"] {
        let unit = read(&format!("release/systemd/{name}"));
        let [command] = settings(&unit, "ExecStart")[..] else { panic!("{name}") };
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words[0], "/usr/bin/fumehood");
        let parsed = Command::new(env!("CARGO_BIN_EXE_fumehood")).args(&words[1..]).arg("--help").output().unwrap();
        assert!(parsed.status.success(), "{name}: {parsed:?}");
        assert_eq!(words[1..3], ["--config", "/etc/fumehood/fumehood.toml"], "{name}");
        assert_eq!(settings(&unit, "ConfigurationDirectory"), ["fumehood"], "{name}");
    }
}

#[test]
fn units_hand_over_the_secrets_that_the_documentation_names() {
    let guide = read("docs/operations.md");
    for name in ["fumehood.service", "fumehood-worker.service"] {
        let unit = read(&format!("release/systemd/{name}"));
        // A credential that belongs to root is copied, because its mode may look as if a group could read it.
        assert_eq!(settings(&unit, "RuntimeDirectory"), ["fumehood"], "{name}");
        assert_eq!(settings(&unit, "RuntimeDirectoryMode"), ["0700"], "{name}");
        let [copy] = settings(&unit, "ExecStartPre")[..] else { panic!("{name}") };
        assert!(copy.contains("install -m 600 -t /run/fumehood \"$$CREDENTIALS_DIRECTORY\"/*"), "{name}: {copy}");
        assert!(guide.contains(name), "{name}");
    }
    let key = "cell.key:/etc/fumehood/cell.key";
    assert_eq!(settings(&read("release/systemd/fumehood-worker.service"), "LoadCredential"), [key]);
    // A gateway gets its key in a drop-in.
    assert_eq!(settings(&read("release/systemd/fumehood.service"), "LoadCredential"), [""; 0]);
    let drop_ins = settings(&guide, "LoadCredential");
    assert!(drop_ins.contains(&key), "{drop_ins:?}");
    assert!(
        guide.contains("cell key new /etc/fumehood/cell.key") && guide.contains("key = \"/run/fumehood/cell.key\"")
    );
    for credential in drop_ins {
        let (name, file) = credential.split_once(':').unwrap();
        assert_eq!(file, format!("/etc/fumehood/{name}"));
        assert!(guide.contains(&format!("\"/run/fumehood/{name}\"")), "{name} is handed over and not used");
    }
}

fn binaries_of(text: &str) -> BTreeSet<String> {
    let path = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "/-".contains(*c)).collect();
    text.split("BINARY=").skip(1).map(path).collect()
}

#[test]
fn programs_of_the_image_are_in_the_build_context() {
    let ignored = read(".dockerignore");
    let excepted: BTreeSet<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    assert!(ignored.lines().any(|line| line == "*"), "everything else is left out");
    let containerfile = read("release/Containerfile");
    assert!(binaries_of(&containerfile).iter().map(String::as_str).eq(excepted), "{ignored}");
    // The folder that `release/build` builds in.
    assert!(read("release/environment.sh").contains("$PWD/target/release-build}"));
    // Secrets belong to the user of the image, in both recipes.
    assert!(containerfile.contains("cc-debian12:nonroot") && containerfile.contains("chown 65532 "));
    assert!(read("release/cell/compose.yaml").contains("`chown 65532 */cell.key`"));
}

#[test]
fn a_release_has_what_its_documentation_names() {
    let build = read("release/build");
    assert!(build.contains("cp -R release/Containerfile release/cell release/systemd \"$STAGE/$NAME/release\""));
    assert!(build.contains("docs/*.md docs/*.png "));
    let pictures: BTreeSet<String> = read("docs/dashboard.md")
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()).filter(|name| name.ends_with(".png")))
        .collect();
    assert!(!pictures.is_empty() && pictures.iter().all(|name| release().join("../docs").join(name).is_file()));
    // The digests are those of all packages: `fumehood-…` and `fumehood_cli-…`.
    assert!(
        build.contains("sha256sum fumehood[-_]* | tee SHA256SUMS") && build.contains("rm -f \"$OUT\"/fumehood[-_]* ")
    );
    for package in ["release/packages ", "bindings/python/build release ", "bindings/node/build release "] {
        assert!(build.contains(package), "{package}");
    }
}
