//! `fumehood test` in a stranger's checkout: its cases get nothing beyond the project that this user did not trust.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::workbench::{CommandOutput, Workbench};

/// A checkout, and beside it the folder of a user with something to lose.
struct Checkout {
    bench: Workbench,
}

impl Checkout {
    fn new(component: &str) -> Self {
        let bench = Workbench::new();
        for folder in ["home/.ssh", "work/dist", "work/tests", "work/data"] {
            std::fs::create_dir_all(bench.path(folder)).unwrap();
        }
        bench.put("home/.ssh/id", "TOPSECRET");
        std::fs::set_permissions(bench.path("home/.ssh/id"), PermissionsExt::from_mode(0o600)).unwrap();
        bench.put("work/data/id", "public");
        bench.put("work/tool.toml", "name = \"tool\"\n");
        let built = super::author::root().join(format!("example-tools/dist/{component}.wasm"));
        bench.put("work/dist/tool.wasm", std::fs::read(built).unwrap());
        Self { bench }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path("work").join(name)
    }

    /// Writes cases that call a tool with this grant.
    fn put_case(&self, call: &str, grant: &str) {
        let case = format!("[[case]]\nname = \"a\"\n{call}\n[case.grant]\n{grant}\n");
        std::fs::write(self.path("tests/a.toml"), case).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.bench.command_without_trust(arguments);
        command.current_dir(self.bench.path("work")).env("A_SECRET", "TOPSECRET");
        Workbench::run_command(command)
    }

    fn assert_refused(&self, words: &str) {
        for arguments in [&["test"][..], &["test", "--update"], &["test", "a", "--json"]] {
            let ran = self.run(arguments);
            assert_eq!(ran.code, 3, "{words}: {ran:?}");
            assert!(format!("{ran:?}").contains(words), "{words}: {ran:?}");
            assert!(
                ran.stderr.contains("fumehood trust tests/a.toml") || ran.stdout.contains("fumehood trust"),
                "{ran:?}"
            );
            assert!(!format!("{ran:?}").contains("TOPSECRET"), "{ran:?}");
        }
    }
}

const READ: &str = "tool = \"read\"\narguments = { path = \"/h/id\" }";
const WRITE: &str = "tool = \"write\"\narguments = { path = \"/h/planted\", text = \"EVIL\" }";

#[test]
fn folders_outside_the_project_are_not_granted() {
    let checkout = Checkout::new("files");
    let ssh = checkout.bench.path("home/.ssh").canonicalize().unwrap().display().to_string();
    symlink(&ssh, checkout.path("link")).unwrap();
    symlink("link", checkout.path("link-to-link")).unwrap();
    symlink("../home", checkout.path("up")).unwrap();
    let grants = [ssh.as_str(), "../home/.ssh", "link", "link-to-link", "up/.ssh", "data/../../home/.ssh", "./link/."];
    for folder in grants {
        checkout.put_case(READ, &format!("read = [\"{folder}:/h\"]"));
        checkout.assert_refused("read the folder");
    }
}

#[test]
fn folders_outside_the_project_are_not_changed() {
    let checkout = Checkout::new("files");
    symlink("../home", checkout.path("up")).unwrap();
    std::fs::create_dir_all(checkout.path(".git/hooks")).unwrap();
    std::fs::create_dir_all(checkout.path("sub/.git")).unwrap();
    for folder in ["../home/.ssh", "up/.ssh", "..", ".git/hooks", ".git", ".", "sub"] {
        checkout.put_case(WRITE, &format!("write = [\"{folder}:/h\"]"));
        checkout.assert_refused("change the folder");
        checkout.put_case(WRITE, &format!("write = [{{ folder = \"{folder}\", guest = \"/h\" }}]"));
        checkout.assert_refused("change the folder");
    }
    for planted in ["home/.ssh/planted", "work/.git/hooks/planted", "planted", "work/planted"] {
        assert!(!checkout.bench.path(planted).exists(), "{planted}");
    }
    checkout.put_case(READ, "read = [\".git:/h\"]");
    assert_ne!(checkout.run(&["test"]).code, 3, "reading stays within the project");
}

#[test]
fn folders_of_the_project_and_scratch_need_no_trust() {
    let checkout = Checkout::new("files");
    for folder in ["data", "./data", "data/../data"] {
        checkout.put_case(
            &format!("{READ}\nexpect = {{ text = \"public\" }}"),
            &format!("read = [\"{folder}:/h\"]\nscratch = \"1MiB\""),
        );
        let ran = checkout.run(&["test"]);
        assert!(
            !format!("{ran:?}").contains("trust") && ran.stdout.contains("public") || ran.code == 0,
            "{folder}: {ran:?}"
        );
    }
    checkout.put_case(WRITE, "write = [\"data:/h\"]");
    checkout.run(&["test"]);
    assert_eq!(std::fs::read_to_string(checkout.path("data/planted")).unwrap(), "EVIL");
}

fn put_secret_case(checkout: &Checkout, from: &str) {
    let grant = "http = [\"GET https://api.example.com/**\"]\n[[case.grant.secrets]]\nname = \"k\"\nfor = \"https://api.example.com/**\"\n\
         header = \"X-Stolen\"\n";
    checkout.put_case(
        "tool = \"get\"\narguments = { url = \"https://api.example.com/\" }",
        &format!("{grant}from = {from}"),
    );
}

#[test]
fn secrets_of_the_user_are_not_read() {
    let checkout = Checkout::new("fetch");
    for (from, words) in [
        ("{ env = \"A_SECRET\" }", "use the variable"),
        ("{ file = \"../home/.ssh/id\" }", "use the file"),
        ("{ keyring = \"k\" }", "use the keyring entry"),
    ] {
        put_secret_case(&checkout, from);
        checkout.assert_refused(words);
    }
}

#[test]
fn trust_is_in_the_text_and_the_place_of_the_cases() {
    let checkout = Checkout::new("files");
    checkout.put_case(&format!("{READ}\nexpect = {{ error = \"denied\" }}"), "read = [\"../home/.ssh:/h\"]");
    let checked = checkout.run(&["trust", "tests/a.toml", "--check"]);
    assert!(checked.code == 3 && checked.stdout.contains("read the folder"), "{checked:?}");
    let once = checkout.run(&["--trust-config", "test"]);
    assert!(once.stdout.contains("TOPSECRET"), "{once:?}");
    assert_eq!(checkout.run(&["test"]).code, 3);
    let trusted = checkout.run(&["trust", "tests/a.toml", "--yes"]);
    assert!(trusted.code == 0 && trusted.stdout.contains("case \"a\": read the folder"), "{trusted:?}");
    assert!(checkout.run(&["test"]).stdout.contains("TOPSECRET"));
    assert!(checkout.run(&["test", "--update"]).stdout.contains("wrote 1 cases"));
    let kept = checkout.run(&["test"]);
    assert_eq!(kept.code, 0, "what this program writes into the file does not end the trust: {kept:?}");
    checkout.put_case(READ, "read = [\"../home/.ssh:/h\", \"../home:/g\"]");
    assert!(checkout.run(&["test"]).stderr.contains("tests/a.toml changed since it was trusted"));
    // The same text, in a project whose folder of cases is a link to the trusted one.
    checkout.put_case(READ, "read = [\"../home/.ssh:/h\"]");
    assert_eq!(checkout.run(&["trust", "tests/a.toml", "--yes"]).code, 0);
    let other = checkout.bench.path("other");
    std::fs::create_dir_all(other.join("dist")).unwrap();
    std::fs::copy(checkout.path("tool.toml"), other.join("tool.toml")).unwrap();
    std::fs::copy(checkout.path("dist/tool.wasm"), other.join("dist/tool.wasm")).unwrap();
    symlink("../work/tests", other.join("tests")).unwrap();
    let ran = checkout.run(&["test", "--project", "../other"]);
    assert!(ran.code == 3 && ran.stderr.contains("because that folder is a link"), "{ran:?}");
}
