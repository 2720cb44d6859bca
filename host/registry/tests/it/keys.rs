//! Keys and signatures, alone and beside other programs' implementations.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fumehood_core::digest::Digest;
use fumehood_registry::signature::{
    Algorithm, Claim, KeyError, Passphrase, PublicKey, SignatureError, SigningKey, sign, verify,
};
use fumehood_tests::skip::skip;
use pkcs5::pbes2;
use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::Encode as _;
use proptest::prelude::*;

use crate::fixture::{KEY, OTHER_KEY, pem, provenance, reference};

const NAME: &str = "ghcr.io/acme/greeter";

fn passphrase() -> Passphrase {
    Passphrase::new("a long passphrase\n".to_owned())
}

fn digests() -> (Digest, Digest) {
    (Digest::of(b"manifest"), Digest::of(b"component"))
}

fn bundle(key: &SigningKey) -> Vec<u8> {
    let (manifest, component) = digests();
    let claim = Claim::new(&reference("ghcr.io", "acme/greeter:1"), manifest, component, provenance());
    sign(key, &claim).unwrap().into_bytes()
}

fn check(bundle: &[u8], trusted: &[PublicKey]) -> Result<(), SignatureError> {
    let (manifest, component) = digests();
    verify(NAME, &manifest, &component, &[bundle.to_vec()], trusted).map(|_| ())
}

#[test]
fn keys_survive_files_and_other_passphrases_do_not_open_them() {
    let folder = tempfile::tempdir().unwrap();
    for (algorithm, name) in [(Algorithm::P256, "p256.pem"), (Algorithm::Ed25519, "ed25519.pem")] {
        let key = SigningKey::generate(algorithm).unwrap();
        let path = folder.path().join(name);
        key.write(&path, &passphrase()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), "{text}");
        let read = SigningKey::read(&path, Some(&passphrase())).unwrap();
        assert_eq!((read.public(), read.public().algorithm()), (key.public(), algorithm));
        check(&bundle(&read), &[key.public().clone()]).unwrap();
        let wrong = SigningKey::read(&path, Some(&Passphrase::new("another one".to_owned())));
        assert!(matches!(wrong, Err(KeyError::Passphrase)), "{wrong:?}");
        assert!(matches!(SigningKey::read(&path, None), Err(KeyError::Encrypted)));
        assert!(matches!(key.write(&path, &passphrase()), Err(KeyError::Exists(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SigningKey::read(&path, Some(&passphrase())), Err(KeyError::Open(_))));
        // The public half in both of its forms.
        let line = String::from(key.public().clone());
        assert_eq!(line.parse::<PublicKey>().unwrap(), *key.public());
        assert_eq!(key.public().to_pem().parse::<PublicKey>().unwrap(), *key.public());
        assert!(!format!("{key:?} {:?}", passphrase()).contains("long"));
    }
    let short = KEY.to_encrypted_pem(&Passphrase::new("short".to_owned()));
    assert!(matches!(short, Err(KeyError::ShortPassphrase(5))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn refuses_keys_that_cost_too_much() {
    // 2^24 blocks of 8: 16 GiB. Nobody can encrypt with that, so that the rest of the file is of no matter.
    let scrypt = pbes2::ScryptParams {
        salt: &[0; 16],
        cost_parameter: 1 << 24,
        block_size: 8,
        parallelization: 1,
        key_length: None,
    };
    let encryption = pbes2::EncryptionScheme::Aes256Cbc { iv: &[0; 16] };
    let parameters = pbes2::Parameters { kdf: pbes2::Kdf::Scrypt(scrypt), encryption };
    let document = EncryptedPrivateKeyInfo { encryption_algorithm: parameters.into(), encrypted_data: &[0; 160] };
    let bomb = pem("ENCRYPTED PRIVATE KEY", &document.to_der().unwrap());
    assert!(matches!(SigningKey::from_pem(&bomb, Some(&passphrase())), Err(KeyError::Work)));
}

#[test]
fn verifies_good_signatures_and_names_the_fault_of_others() {
    for key in [&*KEY, &*OTHER_KEY] {
        check(&bundle(key), &[OTHER_KEY.public().clone(), KEY.public().clone()]).unwrap();
    }
    let trusted = [KEY.public().clone()];
    let foreign = check(&bundle(&OTHER_KEY), &trusted);
    assert!(matches!(foreign, Err(SignatureError::ForeignKey { .. })), "{foreign:?}");
    assert!(matches!(check(&bundle(&KEY), &[]), Err(SignatureError::NoTrustedKey { .. })));
    // The bytes of the signature are those of another one, under the hint of a trusted key.
    let mut value: serde_json::Value = serde_json::from_slice(&bundle(&KEY)).unwrap();
    let mut other: serde_json::Value = serde_json::from_slice(&bundle(&OTHER_KEY)).unwrap();
    value["dsseEnvelope"]["signatures"] = other["dsseEnvelope"]["signatures"].take();
    let wrong = check(value.to_string().as_bytes(), &trusted);
    assert!(matches!(wrong, Err(SignatureError::Wrong { .. })), "{wrong:?}");
    let (manifest, component) = digests();
    let moved = verify("ghcr.io/acme/other", &manifest, &component, &[bundle(&KEY)], &trusted);
    assert!(matches!(moved, Err(SignatureError::OtherName { .. })), "{moved:?}");
    for (manifest, component) in [(component, component), (manifest, manifest)] {
        let replayed = verify(NAME, &manifest, &component, &[bundle(&KEY)], &trusted);
        assert!(matches!(replayed, Err(SignatureError::OtherDigest { .. })), "{replayed:?}");
    }
    // One good signature among bad ones is enough; without one, the closest explains.
    let all = [b"{}".to_vec(), bundle(&OTHER_KEY), bundle(&KEY)];
    verify(NAME, &manifest, &component, &all, &trusted).unwrap();
    let none = verify(NAME, &manifest, &component, &all[..2], &trusted);
    assert!(matches!(none, Err(SignatureError::ForeignKey { .. })), "{none:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_changed_byte_is_never_accepted_for_something_else(at in 0_usize..2000, value: u8) {
        let mut bytes = bundle(&KEY);
        let at = at % bytes.len();
        bytes[at] = value;
        // Whatever is still accepted says the same: a changed byte of white space or of an unused field.
        let (manifest, component) = digests();
        if let Ok(verified) = verify(NAME, &manifest, &component, &[bytes], &[KEY.public().clone()]) {
            prop_assert_eq!(verified.claim.manifest, manifest);
            prop_assert_eq!(verified.claim.provenance, provenance());
        }
    }

    #[test]
    fn reading_keys_and_bundles_never_panics(bytes: Vec<u8>, text in "\\PC{0,200}") {
        prop_assert!(SigningKey::from_pem(&text, Some(&passphrase())).is_err());
        prop_assert!(SigningKey::from_pkcs8(&bytes).is_err());
        prop_assert!(PublicKey::from_der(&bytes).is_err());
        prop_assert!(check(&bytes, &[KEY.public().clone()]).is_err());
    }
}

/// Runs a program, or says that the test is skipped.
fn run(program: &str, arguments: &[&str], folder: &Path) -> Option<std::process::Output> {
    match Command::new(program).args(arguments).current_dir(folder).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip(program, &format!("{program} cannot be run here: {error}"));
            None
        }
    }
}

#[test]
fn openssl_reads_our_keys_and_we_read_its() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("passphrase"), "a long passphrase").unwrap();
    for (algorithm, name) in [(Algorithm::P256, "EC"), (Algorithm::Ed25519, "ED25519")] {
        let path = folder.path().join(format!("{name}.pem"));
        let key = SigningKey::generate(algorithm).unwrap();
        key.write(&path, &passphrase()).unwrap();
        let file = path.to_str().unwrap();
        let arguments = ["pkey", "-in", file, "-passin", "file:passphrase", "-pubout"];
        let Some(output) = run("openssl", &arguments, folder.path()) else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap().parse::<PublicKey>().unwrap(), *key.public());
        let group = if algorithm == Algorithm::P256 { vec!["-pkeyopt", "ec_paramgen_curve:P-256"] } else { vec![] };
        let mut arguments = vec!["genpkey", "-algorithm", name, "-aes256", "-pass", "file:passphrase"];
        arguments.extend(group);
        let made = run("openssl", &arguments, folder.path()).unwrap();
        let text = String::from_utf8(made.stdout).unwrap();
        let theirs = SigningKey::from_pem(&text, Some(&passphrase())).unwrap();
        assert_eq!(theirs.public().algorithm(), algorithm);
        check(&bundle(&theirs), &[theirs.public().clone()]).unwrap();
    }
}

/// Returns the folder of Node's modules that `tests/sigstore/setup` installs.
fn sigstore_modules() -> Option<PathBuf> {
    let folder = std::env::var_os("FUMEHOOD_SIGSTORE_MODULES").map(PathBuf::from);
    let folder = folder.map(|folder| if folder.is_absolute() { folder } else { root().join(folder) });
    let found = folder.filter(|folder| folder.join("node_modules/@sigstore/verify").is_dir());
    if found.is_none() {
        skip("sigstore", "FUMEHOOD_SIGSTORE_MODULES names no folder with npm's @sigstore/verify");
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn npm_sigstore_verifies_ours_and_we_verify_its() {
    let Some(modules) = sigstore_modules() else { return };
    let script = root().join("tests/sigstore/cross-check.mjs");
    let (manifest, component) = digests();
    for key in [&*KEY, &*OTHER_KEY] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ours.json"), bundle(key)).unwrap();
        std::fs::write(folder.path().join("key.pem"), key.public().to_pem()).unwrap();
        let pkcs8 = key.to_encrypted_pem(&passphrase()).unwrap();
        std::fs::write(folder.path().join("private.pem"), &*pkcs8).unwrap();
        let output = Command::new("node")
            .arg(&script)
            .arg(folder.path())
            .env("MODULES", &modules)
            .env("PASSPHRASE", "a long passphrase")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let theirs = std::fs::read(folder.path().join("theirs.json")).unwrap();
        verify(NAME, &manifest, &component, &[theirs], &[key.public().clone()]).unwrap();
    }
}
