//! The examples of the batch protocol's specification, through the loop and the pipeline: the model's replies are the
//! specification's own, and so are the results that the model gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fumehood_agent::agent::Agent;
use fumehood_agent::batch::BatchDriver;
use fumehood_agent::pipeline::PipelineBuilder;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::call::CallContext;
use fumehood_core::chat::{Message, Request, Response, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::pipeline::stage::everything;

#[derive(Serialize, Deserialize, JsonSchema)]
struct ReadArguments {
    file: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Write {
    #[serde(default)]
    file: String,
    content: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Shell {
    cmd: String,
}

/// The results of calls, by the tool and the most telling of its arguments.
type Answers = BTreeMap<(&'static str, &'static str), Result<Value, &'static str>>;

/// A conversation with an agent whose tools give the answers, and what it was asked and called with.
#[derive(Default)]
struct Conversation {
    requests: Vec<Request>,
    /// The tool and the arguments of each call that ran.
    ran: Vec<(&'static str, Value)>,
    text: String,
}

impl Conversation {
    /// Returns the rows of the `<results>` block at the end of a request.
    fn results(&self, request: usize) -> Value {
        let last = self.requests[request].messages.last().unwrap();
        assert_eq!(last.role, Role::User);
        let block = last.content.strip_prefix("<results>").and_then(|rest| rest.strip_suffix("</results>"));
        serde_json::from_str(block.unwrap_or_else(|| panic!("{}", last.content))).unwrap()
    }
}

/// Registers `read`, `write` and `shell`.
fn tools(answers: &Arc<Answers>, played: &Arc<Mutex<Conversation>>) -> Arc<BuiltIns> {
    let tools = BuiltIns::default();
    let answer = {
        let answers = Arc::clone(answers);
        let played = Arc::clone(played);
        move |tool: &'static str, key: &str, arguments: Value| {
            played.lock().unwrap().ran.push((tool, arguments));
            let found = answers.iter().find(|((name, wanted), _)| *name == tool && *wanted == key);
            let answer = found.map_or_else(|| Ok(json!(format!("{tool} {key}"))), |(_, answer)| answer.clone());
            answer.map_err(BuiltInError::from)
        }
    };
    let reading = answer.clone();
    let writing = answer.clone();
    let running = answer;
    let read = move |it: ReadArguments, _: CallContext| std::future::ready(reading("read", &it.file, json!(it)));
    tools.register(BuiltIn::new("read", "Reads a file.", read).unwrap()).unwrap();
    let write = move |it: Write, _: CallContext| std::future::ready(writing("write", &it.file, json!(it)));
    tools.register(BuiltIn::new("write", "Writes a file.", write).unwrap()).unwrap();
    let shell = move |it: Shell, _: CallContext| std::future::ready(running("shell", &it.cmd, json!(it)));
    tools.register(BuiltIn::new("shell", "Runs a command.", shell).unwrap()).unwrap();
    Arc::new(tools)
}

/// Sends messages to an agent, whose model gives these replies.
async fn play(messages: &[&str], replies: &[&str], answers: Answers) -> Conversation {
    let played = Arc::new(Mutex::new(Conversation::default()));
    let asked = Arc::clone(&played);
    let replies: Vec<_> = replies.iter().map(|&text| text.to_owned()).collect();
    let model = move |request: &Request| {
        let mut played = asked.lock().unwrap();
        played.requests.push(request.clone());
        Ok(Response::text(replies[played.requests.len() - 1].clone()))
    };
    let pipeline = PipelineBuilder::default().built_ins(tools(&Arc::new(answers), &played)).allowlists(everything());
    let agent =
        Agent::builder(Arc::new(model)).driver(BatchDriver::new()).executor(Arc::new(pipeline.build().unwrap()));
    let mut agent = agent.build().unwrap();
    for message in messages {
        let outcome = agent.run(*message).await.unwrap();
        played.lock().unwrap().text = outcome.text().to_owned();
    }
    drop(agent);
    std::mem::take(&mut *played.lock().unwrap())
}

/// Plays one reply with a batch. Returns what ran, and the rows that the model got.
async fn batch(reply: &str, answers: Answers) -> (Vec<(&'static str, Value)>, Value) {
    let played = play(&["Go"], &[reply, "Done."], answers).await;
    assert_eq!(played.text, "Done.");
    let rows = played.results(1);
    (played.ran, rows)
}

#[tokio::test]
async fn examples_of_calls_run_with_their_arguments_byte_for_byte() {
    async fn check(reply: &str, expected: Vec<(&'static str, Value)>) {
        let (ran, rows) = batch(reply, Answers::new()).await;
        assert_eq!(ran, expected, "{reply}");
        let told: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| (row["tool"].clone(), row["status"].clone())).collect();
        let calls: Vec<_> = expected.iter().map(|(tool, _)| (json!(tool), json!("success"))).collect();
        assert_eq!(told, calls, "{reply}");
    }

    let one = "<execute>\n[\n{\"name\": \"read\", \"args\": {\"file\": \"config.json\"}}\n]\n</execute>";
    check(one, vec![("read", json!({"file": "config.json"}))]).await;
    let thinking = format!("<think>reasoning about the problem, what steps to take</think>{one}");
    check(&thinking, vec![("read", json!({"file": "config.json"}))]).await;
    check(
        r#"<execute>
[
{"name": "write", "args": {"file": "index.html", "content": "<html><body>Hello</body></html>"}}
]
</execute>"#,
        vec![("write", json!({"file": "index.html", "content": "<html><body>Hello</body></html>"}))],
    )
    .await;
    check(
        r#"<execute>
[
{"name": "write", "args": {"content": "Hello </write> world"}}
]
</execute>"#,
        vec![("write", json!({"file": "", "content": "Hello </write> world"}))],
    )
    .await;
    // As the specification says of the closing tag of the block itself.
    check(
        r#"<execute>[{"name": "write", "args": {"content": "Hello </execute> world"}}]</execute>"#,
        vec![("write", json!({"file": "", "content": "Hello </execute> world"}))],
    )
    .await;
    check(
        r#"<execute>
[
{"name": "shell", "args": {"cmd": "echo \"hello\" && echo 'world'"}}
]
</execute>"#,
        vec![("shell", json!({"cmd": "echo \"hello\" && echo 'world'"}))],
    )
    .await;
}

#[tokio::test]
async fn examples_of_results_are_what_the_model_gets() {
    fn read(file: &str) -> Value {
        json!({"name": "read", "args": {"file": file}})
    }

    async fn check(calls: Value, answers: Answers, expected: Value) {
        let (_, rows) = batch(&format!("<execute>{calls}</execute>"), answers).await;
        assert_eq!(rows, expected);
    }

    let write = json!({"name": "write", "args": {"file": "b.txt", "content": "updated"}});
    check(
        json!([read("a.txt")]),
        Answers::from([(("read", "a.txt"), Ok(json!("file contents")))]),
        json!([{"tool": "read", "status": "success", "content": "file contents"}]),
    )
    .await;
    check(
        json!([read("config.json")]),
        Answers::from([(("read", "config.json"), Err("File not found: config.json"))]),
        json!([{"tool": "read", "status": "failure", "content": "File not found: config.json"}]),
    )
    .await;
    check(
        json!([read("a.txt"), write, read("b.txt")]),
        Answers::from([
            (("read", "a.txt"), Ok(json!("a contents"))),
            (("write", "b.txt"), Ok(json!({"bytes": 22}))),
            (("read", "b.txt"), Ok(json!("b updated"))),
        ]),
        json!([
            {"tool": "read", "status": "success", "content": "a contents"},
            {"tool": "write", "status": "success", "content": {"bytes": 22}},
            {"tool": "read", "status": "success", "content": "b updated"},
        ]),
    )
    .await;
    check(
        json!([read("a.txt"), write, read("b.txt")]),
        Answers::from([
            (("read", "a.txt"), Ok(json!("data"))),
            (("write", "b.txt"), Err("Permission denied")),
            (("read", "b.txt"), Ok(json!("data"))),
        ]),
        json!([
            {"tool": "read", "status": "success", "content": "data"},
            {"tool": "write", "status": "failure", "content": "Permission denied"},
            {"tool": "read", "status": "success", "content": "data"},
        ]),
    )
    .await;
}

#[tokio::test]
async fn example_of_a_conversation_runs_to_its_answer() {
    let replies = [
        r#"<think>Need to read config, update it, verify the change</think>
<execute>
[
{"name": "read", "args": {"file": "config.json"}}
]
</execute>"#,
        // What a model makes up behind its calls is not read.
        r#"<think>API is old.com, need to update to new.com</think>
<execute>
[
{"name": "write", "args": {"file": "config.json", "content": "{\"api\": \"new.com\"}"}},
{"name": "read", "args": {"file": "config.json"}}
]
</execute>
<results>
[{"tool": "write", "status": "success", "content": {"made": "up"}}]
</results>
This is not an answer."#,
        "Configuration updated successfully. API endpoint changed from old.com to new.com and verified.",
    ];
    let answers = Answers::from([
        (("read", "config.json"), Ok(json!({"api": "old.com"}))),
        (("write", "config.json"), Ok(json!({"bytes": 22}))),
    ]);
    let played = play(&["Move the API to new.com."], &replies, answers).await;
    assert_eq!(played.text, replies[2]);
    assert_eq!(played.results(1), json!([{"tool": "read", "status": "success", "content": {"api": "old.com"}}]));
    let rows = played.results(2);
    assert_eq!(rows[0], json!({"tool": "write", "status": "success", "content": {"bytes": 22}}));
    assert_eq!((&rows[1]["tool"], rows.as_array().unwrap().len()), (&json!("read"), 2));
    assert_eq!(played.ran[1].1, json!({"file": "config.json", "content": "{\"api\": \"new.com\"}"}));
    assert!(!played.requests[2].messages.iter().any(|message| message.content.contains("made")));
}

#[tokio::test]
async fn old_format_calls_nothing_in_a_run() {
    for old in ["§execute\n[{\"name\": \"read\", \"args\": {\"file\": \"a\"}}]\n§end", "§call: {\"name\": \"read\"}"]
    {
        let played = play(&["Go"], &[old], Answers::new()).await;
        assert_eq!((played.text.as_str(), played.ran.len()), (old, 0));
    }
}

/// Runs a batch of a good call and this one. Returns the row of this one.
async fn faulty(name: &str, args: Value) -> Value {
    let calls = json!([{"name": "read", "args": {"file": "a"}}, {"name": name, "args": args}]);
    let (ran, rows) = batch(&format!("<execute>{calls}</execute>"), Answers::new()).await;
    assert_eq!(ran, [("read", json!({"file": "a"}))], "only the good one runs");
    assert_eq!(rows[0], json!({"tool": "read", "status": "success", "content": "read a"}));
    assert_eq!((&rows[1]["tool"], &rows[1]["status"]), (&json!(name), &json!("failure")));
    rows[1]["content"].clone()
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_of_its_element() {
    let content = faulty("raed", json!({"file": "b"})).await;
    assert_eq!(content, "Tool 'raed' not registered (did you mean `read`?)");
}

#[tokio::test]
async fn a_missing_argument_is_an_error_of_its_element() {
    let content = faulty("write", json!({"file": "b"})).await;
    assert!(content.as_str().unwrap().contains("Missing required parameters: content"), "{content}");
}

#[tokio::test]
async fn a_wrong_type_is_an_error_of_its_element() {
    let content = faulty("read", json!({"file": 7})).await;
    let content = content.as_str().unwrap();
    assert!(content.contains("file") && content.contains("string"), "{content}");
}

#[tokio::test]
async fn a_batch_is_replayed_whole_with_the_next_message() {
    fn call(name: &str, args: &str) -> String {
        format!("{{\"name\": \"{name}\", \"args\": {args}}}")
    }

    let reply = "<think>one</think>Looking. <execute>[{\"name\": \"read\", \"args\": {\"file\": \"a\"}},\
                 {\"name\": \"shell\", \"args\": {\"cmd\": \"rm\"}}]</execute> after <end>";
    let second = "<execute>[{\"name\": \"read\", \"args\": {\"file\": \"b\"}}]</execute>";
    let answers = Answers::from([(("shell", "rm"), Err("Permission denied"))]);
    let played = play(&["One", "Two"], &[reply, second, "It is a.", "It is still a."], answers).await;
    let told = &played.requests[3].messages;
    let texts: Vec<(Role, &str)> =
        told.iter().skip(1).map(|Message { role, content, .. }| (*role, content.as_str())).collect();
    let calls = format!(
        "Looking.<execute>\n[\n{},\n{}\n]\n</execute>",
        call("read", "{\"file\": \"a\"}"),
        call("shell", "{\"cmd\": \"rm\"}")
    );
    let results = "<results>\n[\n{\"tool\": \"read\", \"status\": \"success\", \"content\": \"read a\"},\n\
                   {\"tool\": \"shell\", \"status\": \"failure\", \"content\": \"Permission denied\"}\n]\n</results>";
    let then = format!("<execute>\n[\n{}\n]\n</execute>", call("read", "{\"file\": \"b\"}"));
    let rest = "<results>\n[\n{\"tool\": \"read\", \"status\": \"success\", \"content\": \"read b\"}\n]\n</results>";
    let expected = [
        (Role::User, "One"),
        (Role::Assistant, calls.as_str()),
        (Role::User, results),
        (Role::Assistant, then.as_str()),
        (Role::User, rest),
        (Role::Assistant, "It is a."),
        (Role::User, "Two"),
    ];
    assert_eq!(texts, expected);
}
