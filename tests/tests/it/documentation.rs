//! The documentation that is embedded in a component reaches a model, and does not keep other tools from reading it.

use std::path::Path;

use fumehood::{Host, Load, WitDocs};
use wit_component::DecodedWasm;
use wit_parser::{Resolve, WorldId, WorldItem, WorldKey};

const WIT: &str = r"
package example:places@1.0.0;

/// Sums.
interface sums {
    /// Adds a number to itself.
    double: func(a: u32) -> u32;
}

/// Places on a map.
world places {
    /// Is not imported by a component that does not call it.
    import unused: func();
    /// A place.
    record place {
        /// Degrees to the east.
        east: u32,
    }
    /// Moves a place.
    export move: func(start: place) -> u32;
    export sums;
    export helpers: interface {
        /// Helps.
        help: func();
    }
}
";
/// A component that a compiler would make of it.
const COMPONENT: &str = r#"(component
    (core module $m (func (export "id") (param i32) (result i32) local.get 0) (func (export "nothing")))
    (core instance $i (instantiate $m))
    (type $t (record (field "east" u32)))
    (import "place" (type $place (eq $t)))
    (func $move (param "start" $place) (result u32) (canon lift (core func $i "id")))
    (func $double (param "a" u32) (result u32) (canon lift (core func $i "id")))
    (func $help (canon lift (core func $i "nothing")))
    (export "move" (func $move))
    (instance $sums (export "double" (func $double)))
    (export "example:places/sums@1.0.0" (instance $sums))
    (instance $helpers (export "help" (func $help)))
    (export "helpers" (instance $helpers)))"#;

/// Reads the types of a component as the tools around WIT do.
fn decode(component: &[u8]) -> (Resolve, WorldId) {
    match wit_component::decode(component).unwrap_or_else(|error| panic!("it cannot be read: {error:#}")) {
        DecodedWasm::Component(resolve, world) => (resolve, world),
        DecodedWasm::WitPackage(..) => panic!("it is a package"),
    }
}

#[tokio::test]
async fn documentation_reaches_the_model_and_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("places.wit"), WIT).unwrap();
    let docs = WitDocs::read(folder.path()).unwrap();
    let component = docs.embed(&wat::parse_str(COMPONENT).unwrap()).unwrap();

    let host = Host::builder().build().unwrap();
    host.load(Load::bytes("places", component.clone())).await.unwrap();
    let described =
        [("move", "Moves a place."), ("sums_double", "Adds a number to itself."), ("helpers_help", "Helps.")];
    for (name, expected) in described {
        let tool = host.tool(&format!("places__{name}")).unwrap();
        let description = tool.definition().description.to_sanitized();
        assert!(description.contains(expected), "{name}: {description}");
    }
    let (resolve, world) = decode(&component);
    let world = &resolve.worlds[world];
    assert_eq!(world.docs.contents.as_deref(), Some("Places on a map."));
    let item = |name: &str| &world.exports[&WorldKey::Name(name.to_owned())];
    let WorldItem::Function(function) = item("move") else { panic!("a function") };
    assert_eq!(function.docs.contents.as_deref(), Some("Moves a place."));
    let WorldItem::Type { id, .. } = world.imports[&WorldKey::Name("place".to_owned())] else { panic!("a type") };
    assert_eq!(resolve.types[id].docs.contents.as_deref(), Some("A place."));
    let WorldItem::Interface { id, .. } = item("helpers") else { panic!("an interface") };
    assert_eq!(resolve.interfaces[*id].functions["help"].docs.contents.as_deref(), Some("Helps."));
}

#[test]
fn example_tools_are_readable_by_other_tools() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/dist");
    let mut count = 0;
    for entry in std::fs::read_dir(dist).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let (resolve, world) = decode(&std::fs::read(&path).unwrap());
            assert!(!resolve.worlds[world].exports.is_empty(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 10, "{count}");
}
