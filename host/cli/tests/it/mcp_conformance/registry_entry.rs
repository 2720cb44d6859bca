//! What `fumehood publish --mcp` writes: the entry of the MCP registry against a validator with the registry's own schemas, and the
//! bundle against the program of its format.

use std::path::Path;
use std::process::Command;

use fumehood::settings::Wishes;
use fumehood_author::mcp_package::{McpPackage, ServerInfo};
use serde_json::{Value, json};

use super::tools::{ProgramOutput, folder, node, run};

/// Runs the validator over a folder with this `server.json`.
fn validate(tools: &Path, server: &str) -> ProgramOutput {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("server.json"), server).unwrap();
    let mut command = Command::new(tools.join("python/bin/skillsaw"));
    command.args(["lint", "--strict", "--no-custom-rules", "--type", "mcp-registry", "."]);
    run(command.current_dir(place.path()))
}

#[test]
fn server_json_is_valid_for_the_mcp_registry() {
    let Some(tools) = folder("python", "the entry of the MCP registry") else { return };
    let full = ServerInfo {
        title: "city-facts".to_owned(),
        version: Some("1.2.0".to_owned()),
        description: Some("Facts about cities, würzig. ".repeat(20)),
        authors: Some("Acme".to_owned()),
        license: Some("MIT OR Apache-2.0".to_owned()),
        repository: Some("https://github.com/acme/cities/tree/main/facts".to_owned()),
        homepage: Some("https://example.com/cities".to_owned()),
        ..ServerInfo::default()
    };
    let minimal = ServerInfo {
        title: "city-facts".to_owned(),
        version: Some("0.1.0".to_owned()),
        server_name: Some("com.example/city-facts".to_owned()),
        bundle_url: Some("https://example.com/city-facts.mcpb".to_owned()),
        ..ServerInfo::default()
    };
    for info in [full, minimal] {
        let server = McpPackage::new(b"\0asm", &info).unwrap().server;
        let checked = validate(&tools, &server);
        assert!(checked.succeeded, "{server}\n{checked:?}");
        // The validator looks at the file: it finds what is wrong.
        for (good, bad) in [("\"stdio\"", "\"pipe\""), ("\"fileSha256\": \"", "\"fileSha256\": \"x")] {
            assert!(!validate(&tools, &server.replace(good, bad)).succeeded, "{good}");
        }
    }
}

/// Starts a bundle as a client does, with these settings of its user, and prints the command.
const CLIENT: &str = "
    import { readFileSync } from 'node:fs';
    import { getMcpConfigForManifest } from '@anthropic-ai/mcpb/node';
    const manifest = JSON.parse(readFileSync(process.argv[2]));
    const userConfig = { http_1: true, read_1: '/home/ann/docs' };
    const started = await getMcpConfigForManifest({
        manifest, extensionPath: '/bundle', systemDirs: {}, userConfig, pathSeparator: '/',
    });
    console.log(JSON.stringify(started));
";

#[test]
fn bundle_is_read_by_the_program_of_its_format() {
    let Some(tools) = folder("node", "a bundle for MCP clients") else { return };
    let wishes = json!({ "http": ["GET https://a.example/**", "POST https://a.example/"], "read": ["/docs"] });
    let info = ServerInfo {
        title: "city-facts".to_owned(),
        version: Some("0.1.0".to_owned()),
        server_name: Some("com.example/city-facts".to_owned()),
        bundle_url: Some("https://example.com/city-facts.mcpb".to_owned()),
        wishes: Wishes::new(wishes).unwrap(),
        ..ServerInfo::default()
    };
    let place = tempfile::tempdir().unwrap();
    let package = McpPackage::new(b"\0asm", &info).unwrap();
    std::fs::write(place.path().join("a.mcpb"), package.bundle).unwrap();
    let mcpb = |arguments: &[&str]| {
        run(node(&tools, "@anthropic-ai/mcpb/dist/cli/cli.js").args(arguments).current_dir(place.path()))
    };
    let unpacked = mcpb(&["unpack", "a.mcpb", "unpacked"]);
    assert!(unpacked.succeeded && place.path().join("unpacked/server/city-facts.wasm").exists(), "{unpacked:?}");
    let checked = mcpb(&["validate", "unpacked/manifest.json"]);
    assert!(checked.succeeded, "{checked:?}");
    // Beside the modules, because that is where Node looks for them.
    let client = tempfile::Builder::new().suffix(".mjs").tempfile_in(tools.join("node")).unwrap();
    std::fs::write(client.path(), CLIENT).unwrap();
    let script = client.path().canonicalize().unwrap();
    let started = run(node(&tools, script.to_str().unwrap()).arg(place.path().join("unpacked/manifest.json")));
    let started: Value = serde_json::from_str(&started.stdout).unwrap_or_else(|error| panic!("{error}: {started:?}"));
    assert_eq!(started["args"], json!(["serve", "mcp", "--wishes-from-env", "/bundle/server/city-facts.wasm"]));
    let answers = json!({
        "FUMEHOOD_WISH_HTTP_1": "true",
        "FUMEHOOD_WISH_HTTP_2": "false",
        "FUMEHOOD_WISH_READ_1": "/home/ann/docs",
    });
    assert_eq!(started["env"], answers);
}
