//! `fumehood key`: keys are made once, encrypted, for their owner alone.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use fumehood_tests::skip::skip;

use super::terminal::TerminalCommand;
use super::workbench::{CommandOutput, Workbench};

pub(crate) const PASSPHRASE: &str = "correct horse battery";

/// Runs a command with the passphrase in its variable, as automation does.
pub(crate) fn run_with_passphrase(bench: &Workbench, passphrase: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = bench.command(arguments);
    command.env("FUMEHOOD_KEY_PASSPHRASE", passphrase);
    Workbench::run_command(command)
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Puts a file there that only its owner can read.
fn put_private(bench: &Workbench, name: &str, text: &str) {
    let path = bench.put(name, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn new_keys_are_encrypted_and_private() {
    for algorithm in ["p256", "ed25519"] {
        let bench = Workbench::new();
        let made = run_with_passphrase(&bench, PASSPHRASE, &["key", "new", "--algorithm", algorithm]);
        assert_eq!(made.code, 0, "{made:?}");
        assert!(made.stdout.contains("made the key `default`") && made.stdout.contains("--sign default"), "{made:?}");
        let private = bench.path("data/fumehood/keys/default.pem");
        let public = bench.path("data/fumehood/keys/default.pub");
        assert_eq!((mode(&private), mode(&bench.path("data/fumehood/keys"))), (0o600, 0o700));
        let text = std::fs::read_to_string(&private).unwrap();
        assert!(text.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"), "{text}");
        let exported = bench.run(&["key", "export"]);
        assert_eq!(exported.stdout, std::fs::read_to_string(&public).unwrap());
        assert!(exported.stderr.contains("trusted_keys = [\"M"), "{exported:?}");
        let id = made.stdout.lines().find_map(|line| line.trim().strip_prefix("id ")).unwrap().trim();
        assert!(exported.stderr.contains(&format!("the id of this key is {id};")), "{exported:?}");
        // Without the public half, the private one is opened.
        std::fs::remove_file(&public).unwrap();
        assert!(bench.run(&["key", "export"]).stderr.contains("set FUMEHOOD_KEY_PASSPHRASE"));
        assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "export"]).stdout, exported.stdout);
        let wrong = run_with_passphrase(&bench, "another passphrase", &["key", "export"]);
        assert!(wrong.code == 3 && wrong.stderr.contains("wrong passphrase"), "{wrong:?}");
    }
}

#[test]
fn overwrites_no_key() {
    let bench = Workbench::new();
    assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "new"]).code, 0);
    let before = std::fs::read(bench.path("data/fumehood/keys/default.pem")).unwrap();
    let again = run_with_passphrase(&bench, PASSPHRASE, &["key", "new"]);
    assert!(again.code == 2 && again.stderr.contains("keys are never overwritten"), "{again:?}");
    assert_eq!(std::fs::read(bench.path("data/fumehood/keys/default.pem")).unwrap(), before);
    bench.put("release.pub", "something of somebody's");
    let beside = run_with_passphrase(&bench, PASSPHRASE, &["key", "new", "--out", "release.pem"]);
    assert!(beside.code == 2 && beside.stderr.contains("release.pub already exists"), "{beside:?}");
    assert!(!bench.path("release.pem").exists());
    symlink("/nowhere", bench.path("link.pem")).unwrap();
    assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "new", "--out", "link.pem"]).code, 2);
}

fn assert_key_refused(bench: &Workbench, passphrase: &str, arguments: &[&str], expected: &str) {
    let ran = run_with_passphrase(bench, passphrase, &[&["key"], arguments].concat());
    assert!(ran.code == 2 && ran.stderr.contains(expected), "{ran:?}");
    assert!(!ran.stderr.contains(PASSPHRASE), "{ran:?}");
}

#[test]
fn rejects_bad_names_and_passphrases() {
    let bench = Workbench::new();
    assert_key_refused(&bench, "", &["new"], "set FUMEHOOD_KEY_PASSPHRASE, or name a file with `--passphrase-file`");
    assert_key_refused(&bench, "short", &["new"], "the passphrase has 5 characters; the minimum is 8");
    assert_key_refused(&bench, PASSPHRASE, &["new", "../up"], "invalid key name `../up`");
    assert_key_refused(&bench, PASSPHRASE, &["new", "--out", "a.pub"], "would have the name of its public key");
    assert_key_refused(&bench, PASSPHRASE, &["export", "none"], "no key `none`");
    bench.put("open.txt", PASSPHRASE);
    assert_key_refused(&bench, "", &["new", "--passphrase-file", "open.txt"], "other users can read it");
    assert_key_refused(&bench, "", &["new", "--passphrase-file", "none.txt"], "cannot read the passphrase in none.txt");
    assert_key_refused(&bench, "", &["new", "--passphrase", PASSPHRASE], "unexpected argument");
    assert!(!bench.path("data").exists());
    put_private(&bench, "secret.txt", &format!("{PASSPHRASE}\n"));
    assert_eq!(bench.run(&["key", "new", "--passphrase-file", "secret.txt"]).code, 0);
}

#[test]
fn lists_keys() {
    let bench = Workbench::new();
    assert!(bench.run(&["key", "list"]).stderr.contains("create one with `fumehood key new`"));
    assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "new", "b", "--algorithm", "ed25519"]).code, 0);
    assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "new", "a"]).code, 0);
    let keys = bench.run(&["key", "list", "--json"]).json();
    let listed: Vec<_> = keys.as_array().unwrap().iter().map(|key| (&key["name"], &key["algorithm"])).collect();
    assert_eq!(listed, [(&"a".into(), &"p256".into()), (&"b".into(), &"ed25519".into())]);
    let shown = bench.run(&["key", "list"]).stdout;
    assert!(shown.lines().count() == 2 && shown.contains("a  P-256   sha256:"), "{shown}");
}

fn run_openssl(bench: &Workbench, arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).current_dir(bench.path(".")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn imports_keys_of_openssl() {
    let bench = Workbench::new();
    let made =
        Command::new("openssl").args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]).output();
    let Ok(made) = made else {
        return skip("openssl", "openssl is not installed");
    };
    let pem = String::from_utf8(made.stdout).unwrap();
    bench.put("open.pem", &pem);
    let open = run_with_passphrase(&bench, PASSPHRASE, &["key", "import", "open.pem"]);
    assert!(open.code == 3 && open.stderr.contains("chmod 600"), "{open:?}");
    put_private(&bench, "plain.pem", &pem);
    let imported = run_with_passphrase(&bench, PASSPHRASE, &["key", "import", "plain.pem", "theirs"]);
    assert_eq!(imported.code, 0, "{imported:?}");
    let public = run_openssl(&bench, &["pkey", "-in", "plain.pem", "-pubout"]);
    assert_eq!(bench.run(&["key", "export", "theirs"]).stdout, public);
    // What is written is what OpenSSL opens, and what it encrypts is what is read.
    let passphrase = format!("pass:{PASSPHRASE}");
    let ours = "data/fumehood/keys/theirs.pem";
    assert_eq!(run_openssl(&bench, &["pkey", "-in", ours, "-passin", &passphrase, "-pubout"]), public);
    let encrypted = run_openssl(&bench, &["pkcs8", "-topk8", "-in", "plain.pem", "-passout", &passphrase]);
    put_private(&bench, "encrypted.pem", &encrypted);
    let wrong = run_with_passphrase(&bench, "another passphrase", &["key", "import", "encrypted.pem", "again"]);
    assert!(wrong.code == 3 && wrong.stderr.contains("wrong passphrase"), "{wrong:?}");
    assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "import", "encrypted.pem", "again"]).code, 0);
    put_private(&bench, "rsa.pem", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n");
    let other = run_with_passphrase(&bench, PASSPHRASE, &["key", "import", "rsa.pem", "rsa"]);
    assert!(other.code == 2 && other.stderr.contains("openssl pkcs8 -topk8"), "{other:?}");
}

#[test]
fn passphrase_is_typed_twice_and_never_shown() {
    let bench = Workbench::new();
    let mut at = TerminalCommand::of(bench.command(&["key", "new"]));
    at.wait_for("new passphrase for the key `default`: ");
    at.type_in(&format!("wrong\x15{PASSPHRASE}\n"));
    at.wait_for("repeat the passphrase: ");
    at.type_in(&format!("{PASSPHRASE}x\x7f\n"));
    let (code, _, screen) = at.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains(PASSPHRASE), "{screen}");
    assert_eq!(run_with_passphrase(&bench, PASSPHRASE, &["key", "export"]).code, 0);

    let bench = Workbench::new();
    let mut at = TerminalCommand::of(bench.command(&["key", "new"]));
    at.wait_for("new passphrase");
    at.type_in(&format!("{PASSPHRASE}\n"));
    at.wait_for("repeat the passphrase: ");
    at.type_in("something else\n");
    let (code, _, screen) = at.finish();
    assert!(code == Some(2) && screen.contains("the passphrases differ"), "{screen}");

    let mut at = TerminalCommand::of(bench.command(&["key", "new"]));
    at.wait_for("new passphrase");
    at.type_in("\x03");
    let (code, _, screen) = at.finish();
    assert!(code == Some(130) && screen.contains("nothing was done"), "{screen}");
    assert!(!bench.path("data").exists());
}
