//! The requests and tokens of 20 tasks with direct calls, blocks of calls, and programs: the table of docs/code-mode.md.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood::agent::batch::BatchDriver;
use fumehood::agent::code::CodeMode;
use fumehood::boxed::BoxFuture;
use fumehood::chat::{Reply, Request, Response, ToolIntent};
use fumehood::{
    AgentBuilder, CallContext, CallResult, Changes, Content, Gate, GateLimits, Host, Load, Metadata, Namespace,
    ProviderKind, Revision, Stop, Tool, ToolDefinition, ToolName, ToolProvider, ValidatedCall,
};
use serde_json::{Value, json};

/// Bytes that are taken for one token.
const BYTES_PER_TOKEN: usize = 4;

/// The tools of a recorded list of a server, all of which answer with a page of issues.
struct RecordedTools(Vec<Arc<Tool>>, Revision);

impl RecordedTools {
    fn new() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mcp/tool-lists/github.json");
        let list: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let server = Namespace::parse("github").unwrap();
        let tool = |listed: &Value| {
            let definition = ToolDefinition {
                name: ToolName::from_foreign(listed["name"].as_str().unwrap()).unwrap(),
                export: None,
                title: None,
                description: "".into(),
                input_schema: listed["inputSchema"].clone().into(),
                output_schema: None,
                annotations: Default::default(),
                mcp_members: None,
            };
            let gate =
                Gate::for_arguments(&json!({"type": "object", "additionalProperties": true}), GateLimits::default());
            Arc::new(Tool::new(definition, gate.unwrap()).in_namespace(&server))
        };
        Self(list.iter().map(tool).collect(), Revision::default())
    }

    fn answer() -> Value {
        let issue = |number: usize| {
            json!({
                "number": number, "title": format!("Issue {number} of the list"), "state": if number.is_multiple_of(3) { "closed" } else { "open" },
                "user": {"login": format!("user-{}", number % 7)}, "comments": number % 5, "labels": ["bug"],
            })
        };
        Value::from((1..=25).map(issue).collect::<Vec<_>>())
    }
}

impl ToolProvider for RecordedTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mcp
    }
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.0.clone()
    }
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.0.iter().find(|tool| tool.full_name() == name).cloned()
    }
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let outcome = Ok(vec![Content::json(Self::answer().to_string()).unwrap()]);
        let tool = call.tool().full_name().to_owned();
        let result = CallResult { id: context.id, tool, outcome, metadata: Metadata::default() };
        Box::pin(std::future::ready(Ok(result)))
    }
    fn changes(&self) -> Changes {
        self.1.subscribe()
    }
}

type Call = (&'static str, Value);

/// A task: the calls of each step, which need what the step before returned, and the program that makes them all.
struct Task {
    kind: &'static str,
    steps: Vec<Vec<Call>>,
    code: String,
}

const KINDS: [&str; 4] =
    ["one call", "five calls that are independent", "five calls, one after the other", "a count over three pages"];

/// Returns five tasks of each kind.
fn tasks() -> Vec<Task> {
    let add = |a: u64, b: u64| ("calculator__add", json!({"a": a, "b": b}));
    let mut tasks = Vec::new();
    for n in 1..=5 {
        let code = format!("return await tools.calculator.add({{a: {n}, b: 1}})");
        tasks.push(Task { kind: KINDS[0], steps: vec![vec![add(n, 1)]], code });
        let code = format!("return await Promise.all([1, 2, 3, 4, 5].map(b => tools.calculator.add({{a: {n}, b}})))");
        tasks.push(Task { kind: KINDS[1], steps: vec![(1..=5).map(|b| add(n, b)).collect()], code });
        let code = format!(
            "let a = {n}; for (let i = 0; i < 5; i++) a = (await tools.calculator.add({{a, b: 1}})).result; return a"
        );
        tasks.push(Task { kind: KINDS[2], steps: (0..5).map(|i| vec![add(n + i, 1)]).collect(), code });
        let page = |page: u64| ("github__list_issues", json!({"owner": "acme", "repo": format!("r{n}"), "page": page}));
        let code = format!(
            "const pages = await Promise.all([1, 2, 3].map(page => tools.github.list_issues({{owner: 'acme', repo: 'r{n}', page}})));\n\
             return pages.flat().filter(issue => issue.state === 'open' && issue.comments > 2).length"
        );
        tasks.push(Task { kind: KINDS[3], steps: vec![(1..=3).map(page).collect()], code });
    }
    tasks
}

/// The cost of some tasks.
#[derive(Default, Clone, Copy)]
struct Cost {
    requests: usize,
    sent: usize,
    received: usize,
    time: Duration,
}

fn bytes(response: &Response) -> usize {
    match &response.reply {
        Reply::Text(text) => text.len(),
        other => serde_json::to_string(other).unwrap().len(),
    }
}

#[derive(Clone, Copy)]
enum Way {
    Direct,
    Blocks,
    Programs,
}

fn replies(way: Way, task: &Task) -> VecDeque<Response> {
    let mut replies: VecDeque<Response> = match way {
        Way::Direct => task.steps.iter().map(|calls| Response::calls(as_intents(calls))).collect(),
        Way::Blocks => task.steps.iter().map(|calls| execute_block(calls)).collect(),
        Way::Programs => [Response::calls(as_intents(&[("run_code", json!({"code": task.code}))]))].into(),
    };
    replies.push_back(Response::text("That is the answer."));
    replies
}

fn as_intents(calls: &[Call]) -> Vec<ToolIntent> {
    let intent = |(at, (name, arguments)): (usize, &Call)| ToolIntent {
        id: format!("c{at}"),
        name: (*name).to_owned(),
        arguments: arguments.to_string(),
    };
    calls.iter().enumerate().map(intent).collect::<Vec<_>>()
}

fn execute_block(calls: &[Call]) -> Response {
    let calls: Vec<Value> = calls.iter().map(|(name, args)| json!({"name": name, "args": args})).collect();
    Response::text(format!("<execute>\n{}\n</execute>", Value::from(calls)))
}

async fn run(host: &Host, way: Way, task: &Task) -> Cost {
    let (requests, sent, received) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let script = Mutex::new(replies(way, task));
    let counters = (Arc::clone(&requests), Arc::clone(&sent), Arc::clone(&received));
    let model = move |request: &Request| {
        let part = |json: serde_json::Result<String>| json.unwrap().len();
        let all = part(serde_json::to_string(&request.messages)) + part(serde_json::to_string(&request.tools));
        counters.0.fetch_add(1, Ordering::Relaxed);
        counters.1.fetch_add(all, Ordering::Relaxed);
        let response = script.lock().unwrap().pop_front().unwrap();
        counters.2.fetch_add(bytes(&response), Ordering::Relaxed);
        Ok(response)
    };
    let builder = host.agent(Arc::new(model)).allow_everything().provider(Arc::new(RecordedTools::new()));
    let builder: AgentBuilder = match way {
        Way::Direct => builder,
        Way::Blocks => builder.driver(BatchDriver::new()),
        Way::Programs => builder.code(CodeMode::only()),
    };
    let mut agent = builder.build().unwrap();
    let started = Instant::now();
    let outcome = agent.run("Work it out.").await.unwrap();
    assert_eq!(outcome.text(), "That is the answer.", "{}: {:?}", task.kind, outcome.ending);
    assert!(outcome.run.executions().all(|execution| !execution.has_error()), "{}", task.kind);
    let load = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    Cost { requests: load(&requests), sent: load(&sent), received: load(&received), time: started.elapsed() }
}

#[tokio::test]
async fn the_table_of_what_code_mode_saves_is_current() {
    let host = Host::builder().build().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");
    for name in ["calculator", "text", "json", "countdown"] {
        host.load(Load::path(format!("{folder}/{name}.wasm"))).await.unwrap();
    }
    // The interpreter is loaded with the first program.
    run(&host, Way::Programs, &tasks()[0]).await;
    let mut rows = Vec::new();
    let mut time = String::new();
    for kind in KINDS.iter().copied().map(Some).chain([None]) {
        for (way, name) in [(Way::Direct, "native"), (Way::Blocks, "batch"), (Way::Programs, "code")] {
            let mut all = Cost::default();
            for task in tasks().iter().filter(|task| kind.is_none_or(|kind| task.kind == kind)) {
                let cost = run(&host, way, task).await;
                all.requests += cost.requests;
                (all.sent, all.received) = (all.sent + cost.sent, all.received + cost.received);
                all.time += cost.time;
            }
            let sent = all.sent / BYTES_PER_TOKEN;
            let received = all.received / BYTES_PER_TOKEN;
            let kind = kind.unwrap_or("all 20");
            rows.push(format!("| {kind} | {name} | {} | {sent} | {received} |", all.requests));
            writeln!(time, "{kind}, {name}: {:.0} ms", all.time.as_secs_f64() * 1e3).unwrap();
        }
    }
    println!("{time}");
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/code-mode.md");
    let text = std::fs::read_to_string(document).unwrap();
    // The first table of the document.
    let is_row = |line: &&str| line.starts_with('|');
    let lines = text.lines().skip_while(|line| !is_row(line)).take_while(is_row);
    let documented: Vec<&str> = lines.filter(|line| line.starts_with("| ")).collect();
    assert_eq!(documented.get(1..).unwrap_or_default(), rows, "docs/code-mode.md should have\n{}", rows.join("\n"));
}
