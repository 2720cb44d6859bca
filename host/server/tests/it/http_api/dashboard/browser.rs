//! The dashboard in a headless Chromium, which runs what is not escaped and refuses what the policy does not allow.

use std::path::{Path, PathBuf};
use std::process::Command;

use fumehood_tests::skip::skip;

use super::visitor::DashboardServer;
use crate::http_api::api_server::TOKEN;

/// Folder with `playwright-core`, as `tests/dashboard/setup` leaves it.
const MODULES: &str = "FUMEHOOD_BROWSER_MODULES";

#[tokio::test]
async fn every_page_does_its_act_in_a_browser() {
    let Some(modules) = std::env::var_os(MODULES).map(PathBuf::from) else {
        return skip(
            "browser",
            &format!("{MODULES} names no folder with playwright-core; `tests/dashboard/setup DIR` makes one"),
        );
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let modules = root.join(modules);
    if !modules.join("node_modules/playwright-core").is_dir() {
        return skip("browser", "`tests/dashboard/setup` could not install a browser");
    }
    let opened = DashboardServer::new().await;
    let one = opened.start_waiting(1).await;
    let two = opened.start_waiting(2).await;
    let url = format!("http://{}", opened.address);
    let browse = move || {
        let mut node = Command::new("node");
        node.arg(root.join("tests/dashboard/browse.mjs")).args([&url, TOKEN]).env(MODULES, modules).output()
    };
    let seen = tokio::task::spawn_blocking(browse).await.unwrap().expect("Node is installed with the modules");
    let said = String::from_utf8_lossy(&seen.stdout);
    assert!(seen.status.success(), "{said}\n{}", String::from_utf8_lossy(&seen.stderr));
    assert!(said.ends_with("all pages\n"), "{said}");
    let decided = opened.approvals.decided.lock().unwrap().clone();
    assert_eq!(decided, ["changed sha256:1 Approve", "remote sha256:1 Approve", "s-1:4 false not today"]);
    // The script killed the first call, and the other one is still running.
    let killed = one.await.unwrap();
    assert_eq!(killed.error().unwrap().message.as_str(), "an operator stopped the call");
    assert!(!two.is_finished());
    two.abort();
    opened.end().await;
}
