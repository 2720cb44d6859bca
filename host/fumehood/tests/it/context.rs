//! Results that requests repeat, cut or left out and read on by the model, and images.

use std::sync::{Arc, Mutex};

use fumehood::agent::memory::READ_RESULT;
use fumehood::agent::registry::{BuiltIn, BuiltInError, BuiltInTool, BuiltIns, built_in_tool};
use fumehood::boxed::BoxFuture;
use fumehood::chat::{Message, Model, Request, Response, Role, ToolIntent};
use fumehood::record::{Durability, Record, RecordError, Recorder};
use fumehood::{Annotations, CallContext, CallResult, Content, Host, Metadata, Stop, Tool, ValidatedCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The result of each call: more than a model is shown of one.
const PAGE_BYTES: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
struct Page {
    number: usize,
}

fn pages() -> Arc<BuiltIns> {
    let page = async |Page { number }: Page, _| Ok::<_, BuiltInError>(format!("{number}").repeat(PAGE_BYTES));
    let tools = BuiltIns::default();
    tools
        .register(BuiltIn::new("page", "Reads a page", move |args, call| Box::pin(page(args, call))).unwrap())
        .unwrap();
    Arc::new(tools)
}

fn call(name: &str, arguments: &Value) -> Response {
    let id = format!("{name}-{arguments}");
    let name = name.to_owned();
    Response::calls(vec![ToolIntent { id, name, arguments: arguments.to_string() }])
}

fn results(request: &Request) -> Vec<&Message> {
    request.messages.iter().filter(|message| message.role == Role::Tool).collect()
}

/// Returns the id with which a result can be read on.
fn id_of(result: &str) -> String {
    let (_, rest) = result.split_once("read_result with the id \"").unwrap_or_else(|| panic!("{result}"));
    rest.split_once('"').unwrap().0.to_owned()
}

async fn run(model: impl Model + 'static, context_bytes: usize) -> String {
    let host = Host::builder().build().unwrap();
    let agent = host.agent(Arc::new(model)).built_ins(pages()).allow_everything().context_bytes(context_bytes);
    agent.build().unwrap().run("go").await.unwrap().text().to_owned()
}

#[tokio::test]
async fn result_that_was_cut_is_read_to_its_end() {
    let read = Mutex::new(String::new());
    let model = move |request: &Request| {
        let told = results(request);
        let Some(last) = told.last() else { return Ok(call("page", &json!({"number": 7}))) };
        let id = id_of(&told[0].content);
        let part: Value = match told.len() {
            1 => return Ok(call(READ_RESULT, &json!({"id": id}))),
            _ => serde_json::from_str(&last.content).unwrap_or_else(|error| panic!("{error}: {}", last.content)),
        };
        read.lock().unwrap().push_str(part["text"].as_str().unwrap());
        Ok(match part["next_offset"].as_u64() {
            Some(offset) => call(READ_RESULT, &json!({"id": id, "offset": offset})),
            None => Response::text(read.lock().unwrap().as_str()),
        })
    };
    assert_eq!(run(model, 1 << 20).await, "7".repeat(PAGE_BYTES));
}

#[tokio::test]
async fn oldest_results_are_left_out_and_can_be_read() {
    const LIMIT: usize = 16_000;
    let model = |request: &Request| {
        let told = results(request);
        let size: usize = request.messages.iter().map(|message| message.content.len()).sum();
        assert!(size <= LIMIT, "{size}");
        let Some(last) = told.last() else { return Ok(call("page", &json!({"number": 0}))) };
        if let Ok(part) = serde_json::from_str::<Value>(&last.content) {
            return Ok(Response::text(part["text"].as_str().unwrap().get(..9).unwrap()));
        }
        assert!(last.content.len() > 4_000, "the last result is whole: {}", last.content);
        if told.len() < 6 {
            return Ok(call("page", &json!({"number": told.len()})));
        }
        assert!(told[0].content.contains("left out to save room"), "{}", told[0].content);
        Ok(call(READ_RESULT, &json!({"id": id_of(&told[0].content), "offset": 0})))
    };
    assert_eq!(run(model, LIMIT).await, "000000000");
}

#[tokio::test]
async fn results_of_other_sessions_and_wrong_places_are_not_read() {
    let model = |request: &Request| {
        let told = results(request);
        Ok(match told.len() {
            0 => call("page", &json!({"number": 1})),
            1 => call(READ_RESULT, &json!({"id": "exec-of-somebody"})),
            2 => call(READ_RESULT, &json!({"id": id_of(&told[0].content), "offset": PAGE_BYTES})),
            _ => Response::text(format!("{}\n{}", told[1].content, told[2].content)),
        })
    };
    let said = run(model, 1 << 20).await;
    assert!(said.contains("no longer available") && said.contains("offset 10000 is past the end"), "{said}");
}

/// A tool that returns an image of 20,000 bytes.
struct Camera(Arc<Tool>);

impl BuiltInTool for Camera {
    fn tool(&self) -> &Arc<Tool> {
        &self.0
    }

    fn call(&self, _: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let image = Content::Blob { mime_type: "image/PNG".into(), data: vec![7; 20_000] };
        let outcome = Ok(vec![Content::text("A hood."), image]);
        let metadata = Metadata::default();
        let result = CallResult { id: context.id, tool: "camera".to_owned(), outcome, metadata };
        Box::pin(std::future::ready(Ok(result)))
    }
}

#[derive(Default)]
struct Records(Mutex<Vec<Record>>);

impl Recorder for Records {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        self.0.lock().unwrap().push(record);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn images_are_shown_up_to_their_limit_and_not_recorded() {
    check_images(20_000, 1, "[20000 bytes of image/PNG]").await;
    check_images(19_999, 0, "[20000 bytes of image/PNG]").await;
    check_images(0, 0, "[20000 bytes of image/PNG]").await;
}

async fn check_images(image_bytes: usize, shown: usize, text: &str) {
    let model = |request: &Request| {
        let told = results(request);
        let Some(last) = told.last() else { return Ok(call("camera", &json!({}))) };
        Ok(Response::text(format!("{} image(s): {}", last.images.len(), last.content)))
    };
    let host = Host::builder().build().unwrap();
    let tools = BuiltIns::default();
    let records = Arc::new(Records::default());
    let tool = built_in_tool("camera", "Takes a picture", json!({"type": "object"}), Annotations::default()).unwrap();
    tools.register_tool(Arc::new(Camera(Arc::new(tool)))).unwrap();
    let agent = host.agent(Arc::new(model)).built_ins(Arc::new(tools)).allow_everything();
    let mut agent = agent.image_bytes(image_bytes).recorder(records.clone()).build().unwrap();
    let outcome = agent.run("go").await.unwrap();
    assert_eq!(outcome.text(), format!("{shown} image(s): A hood.\n{text}"));
    let records = serde_json::to_string(&*records.0.lock().unwrap()).unwrap();
    assert!(records.contains("A hood.") && !records.contains("BwcHBwcH"), "{records}");
}
