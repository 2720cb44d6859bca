//! The entry of the MCP registry that `fumehood publish --mcp` writes, against a validator with the registry's own schemas.

use std::path::Path;
use std::process::Command;

use fumehood_author::mcp_package::{McpPackage, ServerInfo};

use super::tools::{ProgramOutput, folder, run};

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
