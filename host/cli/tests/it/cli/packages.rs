//! Packages of MCP servers: their installation by a stand-in for npm and uv, and starts from the store.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use fumehood_tests::fake_server;

use super::workbench::{CommandOutput, Workbench};

/// Installs `@acme/server`, whose program is `$SERVER`, as npm does; only without scripts of packages.
const NPM: &str = r#"#!/bin/sh
case " $* " in *" --ignore-scripts "*) ;; *) echo "scripts would run" >&2; exit 1 ;; esac
while [ "$1" != --prefix ]; do shift; done
cd "$2" || exit 1
case $4 in @acme/server | @acme/server@1.2.3) ;; *) echo "no package $4" >&2; exit 1 ;; esac
mkdir -p node_modules/@acme/server node_modules/.bin
cp "$SERVER" node_modules/@acme/server/run
chmod +x node_modules/@acme/server/run
ln -s ../@acme/server/run node_modules/.bin/acme-server
echo '{"version": "1.2.3", "bin": {"acme-server": "run"}}' > node_modules/@acme/server/package.json
echo '{"packages": {"": {}, "node_modules/@acme/server": {"version": "1.2.3"},
    "node_modules/esbuild": {"version": "0.2.0", "hasInstallScript": true}}}' > package-lock.json
"#;

/// Installs `acme-server` as `uv pip install --target` does; only wheels.
const UV: &str = r#"#!/bin/sh
case " $* " in *" --only-binary :all: "*) ;; *) echo "code would run" >&2; exit 1 ;; esac
while [ "$1" != --target ]; do shift; done
cd "$2" || exit 1
mkdir -p bin acme_server-2.0.dist-info
cp "$SERVER" bin/acme-server
chmod +x bin/acme-server
printf '[console_scripts]\nacme-server = acme:main\n' > acme_server-2.0.dist-info/entry_points.txt
"#;

/// Returns a folder with the installers and a server, which answers calls with a variable and the text of a granted file.
fn bench() -> Workbench {
    let bench = Workbench::new();
    let server =
        format!("#!/bin/sh\nON_CALL='text \"$(cat ../note) ${{PYTHONPATH:+has a path}}\"'\n{}", fake_server::SCRIPT);
    bench.put("server", server);
    std::fs::create_dir(bench.path("bin")).unwrap();
    for (name, script) in [("npm", NPM), ("uv", UV)] {
        let path = bench.put(&format!("bin/{name}"), script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    bench
}

fn run(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    let mut command = bench.command(arguments);
    command.env("PATH", format!("{}:/usr/bin:/bin", bench.path("bin").display()));
    command.env("SERVER", bench.path("server"));
    Workbench::run_command(command)
}

/// Returns the folder with the files of the only package.
fn files(bench: &Workbench) -> PathBuf {
    let store = bench.path("state/fumehood/packages");
    let mut homes = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path().join("files"));
    homes.next().unwrap()
}

#[test]
fn a_package_starts_with_the_files_that_were_installed() {
    let bench = bench();
    let add = ["add", "npm:@acme/server@1.2.3", "--name", "acme", "--yes"];
    let added = run(&bench, &add);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(added.stderr.contains("install scripts were not run of: esbuild"), "{added:?}");
    let text = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    assert!(text.contains("package = \"npm:@acme/server@1.2.3#sha256="), "{text}");
    assert!(text.contains("command = [\"acme-server\"]"), "{text}");
    let call = || run(&bench, &["call", "--json", "acme", "t"]);
    assert_eq!(call().json()["status"], "ok");
    // Other times and another number, but the same content.
    let program = files(&bench).join("node_modules/@acme/server/run");
    let content = std::fs::read(&program).unwrap();
    std::fs::write(&program, &content).unwrap();
    assert_eq!(call().json()["status"], "ok");
    std::fs::write(&program, [content.as_slice(), b"\n"].concat()).unwrap();
    let changed = call();
    assert!(changed.stdout.contains("were changed after they were installed"), "{changed:?}");
    let again = run(&bench, &add);
    assert!(again.code == 2 && again.stderr.contains("already has `acme`"), "{again:?}");
}

#[test]
fn updates_show_which_packages_changed() {
    let bench = bench();
    assert_eq!(run(&bench, &["add", "npm:@acme/server@1.2.3", "--name", "acme", "--yes"]).code, 0);
    let current = run(&bench, &["update", "acme", "--yes"]);
    assert!(current.code == 0 && current.stderr.contains("`acme` is up to date"), "{current:?}");
    let npm = bench.put("bin/npm", NPM.replace("\"1.2.3\"", "\"1.3.0\"").replace("0.2.0", "0.3.0"));
    std::fs::set_permissions(npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shown = run(&bench, &["update", "acme", "--dry-run"]);
    assert!(shown.code == 3 && shown.stderr.contains("esbuild 0.2.0 becomes 0.3.0"), "{shown:?}");
    let updated = run(&bench, &["update", "acme", "--yes"]);
    assert_eq!(updated.code, 0, "{updated:?}");
    let text = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    assert!(text.contains("package = \"npm:@acme/server@1.3.0#sha256="), "{text}");
    assert_eq!(run(&bench, &["call", "--json", "acme", "t"]).json()["status"], "ok");
}

#[test]
fn packages_of_python_find_their_files() {
    let bench = bench();
    let added = run(&bench, &["add", "pypi:acme-server", "--yes"]);
    assert_eq!(added.code, 0, "{added:?}");
    let called = run(&bench, &["call", "--json", "acme-server", "t"]);
    assert_eq!(called.json()["content"][0]["text"], " has a path", "{called:?}");
}

#[test]
fn packages_that_cannot_be_installed_change_nothing() {
    let bench = bench();
    for (arguments, expected) in [
        (&["npm:other", "--yes"][..], "no package other"),
        (&["npm:@acme/server@1.2.3"], "there is no terminal"),
        (&["npm:--prefix=x", "--yes"], "invalid package"),
        (&["npm:@acme/server@1.2.3", "--yes", "--clock", "1ms"], "a package can have"),
        (&["npm:@acme/server@1.2.3", "--yes", "--program", "x"], "it has: `acme-server`"),
        (&["npm:@acme/server@1.2.3", "--yes", "--offline"], "an installer needs the network"),
    ] {
        let ran = run(&bench, &[&["add"], arguments].concat());
        assert!(ran.code != 0 && ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
        assert!(!bench.path("fumehood.toml").exists());
    }
}

#[test]
fn commands_that_download_are_offered_as_packages() {
    let bench = Workbench::new();
    bench.put("fumehood.toml", "[mcp.servers.x]\ncommand = [\"npx\", \"-y\", \"@acme/server@1.2.3\"]\n");
    let shown = bench.run(&["approve", "--check"]);
    assert!(shown.stderr.contains("`fumehood add npm:@acme/server@1.2.3` installs the package once"), "{shown:?}");
}
