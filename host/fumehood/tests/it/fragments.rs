//! The Rust of the README and of the book, compiled as it stands there.
//!
//! A page shows a fragment without what is around it, so each stands here in a function, word for word. One test
//! calls them, and one finds blocks that stand in no such place.

use std::process::Command;
use std::sync::Arc;

use fumehood::agent::agent::{NoModel, Outcome};
use fumehood::agent::allowlist::{Implementation, Skill};
use fumehood::agent::react::ReactDriver;
use fumehood::chat::{Model, ModelError, Request, Response};
use fumehood::permission::KeyValueQuota;
use fumehood::{Call, CallResult, CancellationToken, Grant, Host, Limits, Load, Observer, ToolService};
use fumehood_tests::markdown::{all_blocks, blocks, root};
use serde_json::json;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Files that have blocks of the pages.
const PLACES: [&str; 5] = [
    "host/fumehood/tests/it/fragments.rs",
    "host/fumehood/examples/database.rs",
    "host/fumehood/examples/isolated.rs",
    "guest-sdk/tests/it/guide.rs",
    "guest-sdk/hooks/src/lib.rs",
];
/// The section of README.md with a tool, which a test of the command builds as a component.
const BUILT: &str = "Write a tool";
/// Set in the process that runs in the folder of the components.
const IN_FOLDER: &str = "FUMEHOOD_RUN_FRAGMENTS";

/// README.md.
#[rustfmt::skip]
async fn embed() -> Result<CallResult> {
    let host = Host::builder().build()?;
    host.load(Load::path("calculator.wasm")).await?;
    let result = host.call(Call::new("calculator__add", json!({"a": 3, "b": 5}))).await;
    Ok(result)
}

/// docs/embedding.md.
#[allow(clippy::print_stdout, reason = "it is a program")]
mod program {
    use fumehood::{Call, Host, Load};
    use serde_json::json;

    #[tokio::main(flavor = "current_thread")]
    async fn main() -> Result<(), Box<dyn std::error::Error>> {
        let host = Host::builder().build()?;
        host.load(Load::path("calculator.wasm")).await?;

        let sum = host.call(Call::new("calculator__add", json!({"a": 3, "b": 5}))).await;
        println!("{:?}", sum.text());

        let refused = host.call(Call::new("calculator__add", json!({"a": "3", "b": 5}))).await;
        println!("{}", refused.error().ok_or("it should be refused")?);
        Ok(())
    }

    pub(super) fn run() {
        main().unwrap();
    }
}

/// docs/embedding.md, *One call*.
#[rustfmt::skip]
#[allow(clippy::let_and_return, reason = "it is so in the page")]
async fn call(host: &Host, observer: Arc<dyn Observer>) -> CallResult {
    let arguments = r#"{"title": "milk", "text": "buy some"}"#;
    let state = "{}";
    let limits = Limits::default();
    let token = CancellationToken::new();
    let call = Call::new("notes__write", arguments)   // text as a model wrote it, or a `serde_json::Value`
        .id("order-17")                               // in results and events
        .actor("ann")                                 // on whose behalf
        .state(state)                                 // JSON that a tool with that grant may read
        .limits(limits)                               // instead of the component's limits
        .observer(observer)                           // gets its progress, log lines and requests
        .cancelled_by(token);                         // or drop the future
    let result = host.call(call).await;
    result
}

/// docs/embedding.md, *Several tenants*.
#[allow(clippy::let_and_return, reason = "it is so in the page")]
async fn serve_tenants(host: &Host, tenants: Vec<(&str, u64)>) -> Result<ToolService<Host>> {
    let notes = host.load(Load::path("notes.wasm")).await?;
    for (tenant, bytes) in tenants {
        let grant = Grant::none().with_key_value(KeyValueQuota::new(bytes)?);
        host.load(Load::again(tenant, &notes).grant(grant)).await?;
    }
    host.unload("notes");
    let service = ToolService::new(Arc::new(host.clone()));
    Ok(service)
}

/// docs/agents.md.
async fn ask(host: &Host, model: impl Model + 'static) -> Result<Outcome> {
    let mut agent = host.agent(Arc::new(model)).allow(["calculator__add"]).driver(ReactDriver::new()).build()?;
    let outcome = agent.run("What is 3 + 5?").await?;
    Ok(outcome)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    result: f64,
}

/// docs/skills.md.
async fn call_skill(host: &Host) -> Result<f64> {
    let skill = Skill::new().implemented_by(Implementation::Tool("calculator__add".to_owned())).returns::<Sum>()?;
    let mut agent = host.agent(Arc::new(NoModel)).skill("add", skill).use_skill("add").build()?;
    let sum: Sum = agent.run_as(r#"{"a": 3, "b": 5}"#).await?;
    Ok(sum.result)
}

struct SilentObserver;

impl Observer for SilentObserver {}

#[tokio::test]
async fn fragments_do_what_the_pages_say() {
    if std::env::var_os(IN_FOLDER).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture", "fragments::fragments_do_what_the_pages_say"]).env(IN_FOLDER, "1");
        let ran = again.current_dir(root().join("example-tools/dist")).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let page = blocks("docs/embedding.md").unwrap();
        let output = page.iter().find(|block| block.language == "text").unwrap();
        assert!(String::from_utf8_lossy(&ran.stdout).contains(&output.text), "{ran:?}");
        return;
    }
    std::thread::spawn(program::run).join().unwrap();
    assert_eq!(embed().await.unwrap().text().as_deref(), Some(r#"{"result":8}"#));
    let host = Host::builder().build().unwrap();
    host.load(Load::path("calculator.wasm")).await.unwrap();
    assert_eq!(call_skill(&host).await.unwrap(), 8.0);
    let model = |_: &Request| -> Result<Response, ModelError> {
        Ok(Response::text(r#"{"thought": "easy", "type": "final_answer", "answer": "8"}"#))
    };
    assert_eq!(ask(&host, model).await.unwrap().text(), "8");
    serve_tenants(&host, vec![("ann", 1 << 20), ("bob", 1 << 20)]).await.unwrap();
    let notes = Load::path("notes.wasm").grant(Grant::none().with_key_value(KeyValueQuota::new(1 << 20).unwrap()));
    host.load(notes).await.unwrap();
    assert!(call(&host, Arc::new(SilentObserver)).await.error().is_none());
}

/// Returns the lines of a text without indentation, comment signs and empty lines.
fn lines(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("//!").trim());
    lines.filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_block_of_rust_is_compiled_in_a_test() {
    let places: String =
        PLACES.iter().map(|place| lines(&std::fs::read_to_string(root().join(place)).unwrap())).collect();
    let is_missing = |text: &str| !places.contains(&lines(text));
    let mut blocks = all_blocks().unwrap();
    blocks.retain(|block| block.language == "rust" && block.heading != BUILT);
    assert!(blocks.len() > 5, "{blocks:?}");
    blocks.retain(|block| is_missing(&block.text));
    assert!(blocks.is_empty(), "put these blocks, word for word, into one of {PLACES:?}: {blocks:#?}");
}
