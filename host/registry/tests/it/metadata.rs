//! Annotations, inventories and layouts, from the bytes of components alone.

use std::collections::BTreeMap;

use fumehood_registry::artifact::{Artifact, ArtifactError};
use fumehood_registry::metadata::{annotations, inventory};
use fumehood_registry::publish::{Publication, PublishError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::{component, reference};

/// A list of `cargo auditable`: `greeter` 1.2.3, which depends on `serde` 1.0.229, compressed.
const AUDITABLE: &str = concat!(
    r"\78\da\5d\cc\41\0a\c2\30\10\46\e1\bb\cc\3a\04\1b\57\e6\2a\d2\45\98\fc\94\60\cd\94\99\d4\4d\c9\dd\4d\5d\88\b8\7d\3c",
    r"\be\83\b6\c4\8f\b4\c0\28\de\0f\aa\e9\09\8a\b4\28\d0\a0\e4\e8\05\b5\22\75\b4\c9\07\7f\1d\c5\64\57\3e\a7\55\38\ad\23",
    r"\64\6c\a8\19\95\cb\07\99\66\47\2a\d2\28\36\dd\d1\dd\17\35\68\c6\1f\79\f1\21\dc\7e\51\d6\d4\60\be\08\f5\b9\bf\01\c1",
    r"\81\32\be"
);

#[test]
fn annotations_have_the_names_of_the_specification() {
    let texts = [
        ("description", "description", "Greets people"),
        ("version", "version", "1.2.3"),
        ("licenses", "licenses", "MIT"),
        ("source", "source", "https://example.com/acme/greeter"),
        ("revision", "revision", "0123456789abcdef"),
        ("authors", "authors", "Ann"),
        ("homepage", "url", "https://example.com/"),
    ];
    let sections: String =
        texts.iter().map(|(section, _, text)| format!("(@custom \"{section}\" \"{text}\")\n")).collect();
    let bytes = wat::parse_str(format!("(component $greeter {sections})")).unwrap();
    let found = annotations(&bytes).unwrap();
    assert_eq!(found.len(), texts.len() + 1);
    assert_eq!(found["org.opencontainers.image.title"], "greeter");
    for (_, name, text) in texts {
        assert_eq!(found[&format!("org.opencontainers.image.{name}")], text);
    }
}

#[test]
fn an_inventory_comes_from_the_list_that_the_compiler_embeds() {
    let text = format!(r#"(component $greeter (core module (@custom ".dep-v0" "{AUDITABLE}")))"#);
    let bytes = wat::parse_str(text).unwrap();
    let found = inventory(&bytes).unwrap().unwrap();
    assert_eq!(found, inventory(&bytes).unwrap().unwrap());
    let value: Value = serde_json::from_slice(&found).unwrap();
    assert_eq!((&value["bomFormat"], &value["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
    assert_eq!(value["components"][1]["purl"], "pkg:cargo/serde@1.0.229");
    assert_eq!(value["dependencies"][0], json!({ "ref": "package-0", "dependsOn": ["package-1"] }));
    assert_eq!(inventory(&component(1)).unwrap(), None);
}

#[test]
fn only_components_are_published() {
    let module = wat::parse_str("(module)").unwrap();
    assert!(matches!(Artifact::new(module, BTreeMap::new()), Err(ArtifactError::Module)));
    let cut = component(100);
    for bytes in [Vec::new(), b"hello".to_vec(), b"\0asm".to_vec(), cut[..cut.len() / 2].to_vec()] {
        let error = Publication::new(reference("ghcr.io", "acme/a:1"), bytes, BTreeMap::new()).unwrap_err();
        assert!(matches!(error, PublishError::Artifact(_)), "{error}");
    }
    let other = reference("ghcr.io", "acme/a:1").with_digest(fumehood_core::digest::Digest::of(b""));
    let error = Publication::new(other, component(1), BTreeMap::new()).unwrap_err();
    assert!(matches!(error, PublishError::OtherDigest { .. }), "{error}");
}

#[test]
fn the_example_tools_can_be_published() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist");
    let mut published = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let publication =
                Publication::new(reference("ghcr.io", "acme/a:1"), std::fs::read(&path).unwrap(), BTreeMap::new());
            let config: Value = serde_json::from_slice(publication.unwrap().artifact().config()).unwrap();
            assert!(!config["component"]["exports"].as_array().unwrap().is_empty(), "{}", path.display());
            published += 1;
        }
    }
    assert!(published > 5);
}

proptest! {
    #[test]
    fn bytes_of_any_kind_never_panic(at: usize, value: u8, cut: usize, bytes: Vec<u8>) {
        let mut changed = component(20);
        let at = at % changed.len();
        changed[at] = value;
        changed.truncate(changed.len() - cut % 3);
        for bytes in [changed, bytes.clone(), [b"\0asm\x0d\0\x01\0".to_vec(), bytes].concat()] {
            // Either is fine, as long as it is one of them.
            let _ = Publication::new(reference("ghcr.io", "acme/a:1"), bytes, BTreeMap::new());
        }
    }
}
