//! The bindings of the contracts are generated, so that components compile no generator. With `UPDATE_EXPECT=1` this
//! writes the files anew.

use std::path::Path;

use expect_test::{ExpectFile, expect_file};
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_bindgen_rust::{Opts, WithOption};

/// The world of the optional export. One of its own, because the exports of a world are all defined or none; the worlds
/// of one component are merged when it is made.
const RESOURCES: &str = "package fumehood:guest;
world resources {
    export fumehood:tool/resources@0.1.0;
}
";

/// The world of asynchronous tools. Their imports are those of other tools.
const ASYNCHRONOUS: &str = "package fumehood:guest;
world asynchronous {
    export fumehood:tool/tools@0.2.0;
}
";

/// Bindings of one world.
struct Bindings<'a> {
    /// The folders of its WIT, relative to this crate.
    wit: &'a [&'a str],
    /// WIT of a package with the world, if that is not in the folder.
    inline: Option<&'a str>,
    world: &'a str,
    /// The purpose of the file.
    title: &'a str,
    options: Opts,
}

/// Returns the options for bindings whose macro `export!` is used in other crates.
fn library(module: &str, runtime: &str) -> Opts {
    Opts {
        format: true,
        pub_export_macro: true,
        default_bindings_module: Some(module.to_owned()),
        runtime_path: Some(runtime.to_owned()),
        ..Opts::default()
    }
}

fn check(bindings: Bindings<'_>, file: &ExpectFile) {
    let mut resolve = Resolve::default();
    let folders = bindings.wit.iter().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let packages: Vec<_> = folders.map(|folder| resolve.push_path(folder).unwrap().0).collect();
    let package = match bindings.inline {
        Some(text) => resolve.push_str("inline.wit", text).unwrap(),
        None => *packages.last().unwrap(),
    };
    let world = resolve.select_world(&[package], Some(bindings.world)).unwrap();
    let mut files = Files::default();
    bindings.options.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, generated) = files.iter().next().unwrap();
    let title = bindings.title;
    file.assert_eq(&format!(
        "//! {title}\n\n\
         #![allow(unsafe_code, missing_docs, unreachable_pub, unused_qualifications, reason = \"generated code\")]\n\n{}",
        str::from_utf8(generated).unwrap()
    ));
}

#[test]
fn bindings_of_tools_are_up_to_date() {
    let runtime = "::fumehood_guest::__private::wit_bindgen::rt";
    let bindings = Bindings {
        wit: &["wit"],
        inline: None,
        world: "tool",
        title: "Bindings of the contract, which only the module `component` uses.",
        options: library("fumehood_guest::bindings", runtime),
    };
    check(bindings, &expect_file!["../../src/bindings.rs"]);

    let types = WithOption::Path("crate::bindings::fumehood::tool::types".to_owned());
    let options = Opts {
        export_macro_name: Some("export_resources".to_owned()),
        with: vec![("fumehood:tool/types@0.1.0".to_owned(), types)],
        ..library("fumehood_guest::resource_bindings", runtime)
    };
    let bindings = Bindings {
        wit: &["wit"],
        inline: Some(RESOURCES),
        world: "resources",
        title: "Bindings of the contract's optional interface `resources`.",
        options,
    };
    check(bindings, &expect_file!["../../src/resource_bindings.rs"]);

    let types = WithOption::Path("crate::bindings::fumehood::tool::types".to_owned());
    let options = Opts {
        export_macro_name: Some("export_async_tools".to_owned()),
        with: vec![("fumehood:tool/types@0.1.0".to_owned(), types)],
        ..library("fumehood_guest::async_bindings", runtime)
    };
    let bindings = Bindings {
        wit: &["wit", "wit/0.2"],
        inline: Some(ASYNCHRONOUS),
        world: "asynchronous",
        title: "Bindings of asynchronous tools: version 0.2 of the contract.",
        options,
    };
    check(bindings, &expect_file!["../../src/async_bindings.rs"]);
}

#[test]
fn bindings_of_hooks_are_up_to_date() {
    let bindings = Bindings {
        wit: &["hooks/wit"],
        inline: None,
        world: "hooks",
        title: "Bindings of the contract, which only the module `component` uses.",
        options: library("fumehood_guest_hooks::bindings", "::fumehood_guest_hooks::__private::wit_bindgen::rt"),
    };
    check(bindings, &expect_file!["../../hooks/src/bindings.rs"]);
}

#[test]
fn bindings_of_interpreters_are_up_to_date() {
    let options = Opts { default_bindings_module: Some("crate::bindings".to_owned()), format: true, ..Opts::default() };
    let bindings = Bindings {
        wit: &["../wit/code"],
        inline: None,
        world: "code",
        title: "Bindings of the contract of interpreters.",
        options,
    };
    check(bindings, &expect_file!["../../../interpreters/javascript/src/bindings.rs"]);
}
