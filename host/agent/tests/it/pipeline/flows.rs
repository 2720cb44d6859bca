//! Flows of private data to the public: the ways in which a model could carry it out, and what becomes of each.
//!
//! Each way is tried twice. Without a policy the data gets out, so a way that stopped working would be noticed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood_agent::code::CodeMode;
use fumehood_agent::execution::Status;
use fumehood_agent::executor::ToolExecutor as _;
use fumehood_agent::memory::{self, InMemoryStore, Memory};
use fumehood_agent::pipeline::{PipelineBuilder, PipelineError};
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::history::CallHistory;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::flow::{FlowLabel, FlowLabels, FlowPolicy, FlowScope, ToolFlow};
use fumehood_core::policy::call::{Answer, Approver, Decision, Question};
use fumehood_core::record::RecordKind;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use serde_json::json;

use super::stage::{Nothing, Stage, Text, before, everything, intent, stage_of};
use crate::line_interpreter::Lines;

const SECRET: &str = "the-secret";

/// A place that anybody can look at, and one that tools share.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) public: Arc<Mutex<Vec<String>>>,
    kept: Arc<Mutex<String>>,
}

impl World {
    pub(crate) fn has_leaked(&self) -> bool {
        !self.public.lock().unwrap().is_empty()
    }
}

fn annotated(open_world: bool) -> Annotations {
    Annotations { open_world: Some(open_world), ..Annotations::default() }
}

/// Registers sources (`read`, `fail`, `slow`), a store (`put`, `get`) and a sink (`post`).
pub(crate) fn tools(world: &World) -> BuiltIns {
    let private = ToolFlow { source: Some("it reads granted folders"), sink: None };
    let tools = BuiltIns::default();
    let read = |_: Nothing, _: CallContext| async move { Ok::<_, BuiltInError>(SECRET.to_owned()) };
    tools.register(BuiltIn::new("read", "Reads.", read).unwrap().with_flow(private)).unwrap();
    let fail = |_: Nothing, _: CallContext| async move { Err::<(), _>(BuiltInError::from(SECRET)) };
    tools.register(BuiltIn::new("fail", "Fails.", fail).unwrap().with_flow(private)).unwrap();
    let kept = Arc::clone(&world.kept);
    let slow = move |_: Nothing, _: CallContext| {
        SECRET.clone_into(&mut kept.lock().unwrap());
        async move {
            std::future::pending::<()>().await;
            Ok::<_, BuiltInError>(())
        }
    };
    tools.register(BuiltIn::new("slow", "Reads for ever.", slow).unwrap().with_flow(private)).unwrap();
    let kept = Arc::clone(&world.kept);
    let put = move |text: Text, _: CallContext| {
        *kept.lock().unwrap() = text.text;
        async move { Ok::<_, BuiltInError>(()) }
    };
    tools.register(BuiltIn::new("put", "Keeps.", put).unwrap().with_annotations(annotated(false))).unwrap();
    let kept = Arc::clone(&world.kept);
    let get = move |_: Nothing, _: CallContext| {
        let kept = Arc::clone(&kept);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, BuiltInError>(kept.lock().unwrap().clone())
        }
    };
    tools.register(BuiltIn::new("get", "Gets.", get).unwrap().with_annotations(annotated(false))).unwrap();
    let public = Arc::clone(&world.public);
    let post = move |text: Text, _: CallContext| {
        public.lock().unwrap().push(text.text);
        async move { Ok::<_, BuiltInError>(()) }
    };
    tools.register(BuiltIn::new("post", "Posts.", post).unwrap()).unwrap();
    tools
}

/// Tools of a server: `mail__send`, which claims nothing, and `mail__list`, which stays in a closed world.
struct Server {
    tools: Vec<Arc<Tool>>,
    behind: BuiltIns,
}

impl Server {
    fn new(world: &World) -> Self {
        let behind = tools(world);
        let name = Namespace::parse("mail").unwrap();
        let post = behind.find("post").unwrap();
        let read = behind.find("get").unwrap();
        let tools =
            vec![Arc::new(Tool::clone(&read).in_namespace(&name)), Arc::new(Tool::clone(&post).in_namespace(&name))];
        Self { tools, behind }
    }
}

impl ToolProvider for Server {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mcp
    }
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.clone()
    }
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.iter().find(|tool| tool.full_name() == name).cloned()
    }
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let tool = self.behind.find(call.tool().definition().name.as_str()).unwrap();
        let call = tool.validate(call.arguments().clone().into()).unwrap();
        self.behind.call(call, context)
    }
    fn changes(&self) -> Changes {
        Revision::default().subscribe()
    }
}

fn flow_stage(world: &World, policy: Option<FlowPolicy>, notes: &Arc<InMemoryStore>) -> Stage {
    let tools = tools(world);
    memory::register(&tools, &(Arc::clone(notes) as Arc<dyn Memory>)).unwrap();
    stage_of(Arc::new(tools), |builder| {
        let builder = builder.provider(Arc::new(Server::new(world))).memory_tools().allowlists(everything());
        let builder = builder.code(Arc::new(Lines::default()), CodeMode::beside_direct_calls());
        match policy {
            Some(policy) => builder.flows(policy),
            None => builder,
        }
    })
}

fn post(text: &str) -> String {
    json!({"text": text}).to_string()
}

/// The calls of one reply: names and arguments.
type Reply = Vec<(&'static str, String)>;

fn program(lines: &[&str]) -> (&'static str, String) {
    ("run_code", json!({"code": lines.join("\n\n")}).to_string())
}

/// Replies of a model that carry the secret out.
fn ways() -> Vec<(&'static str, Vec<Reply>)> {
    fn read() -> (&'static str, String) {
        ("read", "{}".to_owned())
    }

    fn direct() -> (&'static str, String) {
        ("post", post(SECRET))
    }

    let post_line: &str = "host__post {\"text\": \"the-secret\"}";
    let encoded: &str = "host__post {\"text\": \"dGhlLXNlY3JldA==\"}";
    vec![
        ("direct calls", vec![vec![read()], vec![direct()]]),
        ("one program", vec![vec![program(&["host__read", post_line])]]),
        ("encoded arguments of a program", vec![vec![program(&["host__read", encoded])]]),
        ("two programs", vec![vec![program(&["host__read"])], vec![program(&[post_line])]]),
        ("a program and a direct call", vec![vec![program(&["host__read"])], vec![direct()]]),
        ("a direct call and a program", vec![vec![read()], vec![program(&[post_line])]]),
        ("the text of an error", vec![vec![("fail", "{}".to_owned())], vec![direct()]]),
        ("the text of an error in a program", vec![vec![program(&["host__fail", post_line])]]),
        (
            "the exception and the console of a program",
            vec![vec![program(&["host__read", "throw the-secret"])], vec![direct()]],
        ),
        (
            "what tools keep",
            vec![
                vec![program(&["host__read", "host__put {\"text\": \"the-secret\"}"])],
                vec![program(&["host__get", post_line])],
            ],
        ),
        (
            "what tools keep, from one program to another that runs at the same time",
            vec![vec![
                program(&["host__read", "host__put {\"text\": \"the-secret\"}"]),
                program(&["host__get", "host__get", post_line]),
            ]],
        ),
        ("calls of one paragraph", vec![vec![program(&["host__read\nhost__put {\"text\": \"x\"}", post_line])]]),
        ("a tool of a server", vec![vec![read()], vec![("mail__post", post(SECRET))]]),
        (
            "a tool of a server, in a program",
            vec![vec![program(&["host__read", "mail__post {\"text\": \"the-secret\"}"])]],
        ),
        ("what a server keeps", vec![vec![("mail__get", "{}".to_owned())], vec![direct()]]),
        (
            "notes of the session",
            vec![
                vec![read()],
                vec![("memory_write", json!({"key": "k", "text": SECRET}).to_string())],
                vec![program(&["host__memory_read {\"key\": \"k\"}", post_line])],
            ],
        ),
    ]
}

/// Tries a way, and returns the last result of the way's last reply, as text.
async fn attempt(policy: Option<FlowPolicy>, replies: &[Reply]) -> (World, String) {
    let world = World::default();
    let notes = Arc::new(InMemoryStore::default());
    let stage = flow_stage(&world, policy, &notes);
    let mut last = String::new();
    for reply in replies {
        let calls: Vec<_> = reply.iter().map(|(name, arguments)| (*name, arguments.as_str())).collect();
        let outcome = stage.batch(&calls).await;
        last = format!("{:?}", outcome.executions.last().unwrap().result.outcome);
    }
    (world, last)
}

#[tokio::test]
async fn private_data_stays_in_whatever_way_it_is_carried() {
    for (name, replies) in ways() {
        let (world, _) = attempt(None, &replies).await;
        assert!(world.has_leaked(), "{name}: it does not even work without a policy");
        let (world, last) = attempt(Some(FlowPolicy::new()), &replies).await;
        assert!(!world.has_leaked(), "{name}: {last}");
        assert!(last.contains("private data may become public"), "{name}: {last}");
        let (world, last) = attempt(Some(FlowPolicy::new().deny(true)), &replies).await;
        assert!(!world.has_leaked() && last.contains("denied by flows"), "{name}: {last}");
    }
}

#[tokio::test]
async fn notes_carry_nothing_from_one_session_to_the_next() {
    let world = World::default();
    let notes = Arc::new(InMemoryStore::default());
    let write = json!({"key": "k", "text": SECRET}).to_string();
    let first = flow_stage(&world, Some(FlowPolicy::new()), &notes);
    first.call("read", "{}").await;
    assert_eq!(first.call("memory_write", &write).await.status, Status::Ok);
    let second = flow_stage(&world, Some(FlowPolicy::new()), &notes);
    assert_eq!(second.call("post", &post("before")).await.status, Status::Ok);
    assert_eq!(second.call("memory_search", r#"{"query": "secret"}"#).await.status, Status::Ok);
    let refused = second.call("post", &post(SECRET)).await;
    assert!(refused.error_message().contains("notes may contain private data from earlier sessions"), "{refused:?}");
}

#[tokio::test]
async fn a_refusal_names_the_path_of_the_data() {
    let stage = flow_stage(&World::default(), Some(FlowPolicy::new()), &Arc::default());
    stage.call("get", "{}").await;
    stage.call("read", "{}").await;
    let refused = stage.call("post", &post("x")).await;
    assert_eq!(refused.status, Status::RejectedDenied);
    assert_eq!(refused.error().unwrap().kind, ErrorKind::NeedsApproval);
    assert_eq!(
        refused.error_message(),
        "this call needs approval: private data may become public: `read` (private: it reads granted \
         folders) was called at call 2, and `post` is a public sink (it does not declare a closed world)"
    );
    let verdicts = stage.recorder.of_kind(RecordKind::Verdict);
    assert_eq!((verdicts.len(), verdicts[0].status.as_deref()), (1, Some("ask")));
    assert_eq!(verdicts[0].body["by"], "flows");
    assert!(verdicts[0].body["reason"].as_str().unwrap().contains("`read`"), "{}", verdicts[0].body);
    assert_eq!(stage.recorder.of_kind(RecordKind::ToolRejected).len(), 1);
}

#[tokio::test]
async fn calls_before_a_source_and_in_its_reply_are_not_held_up() {
    let world = World::default();
    let notes = Arc::default();
    let stage = flow_stage(&world, Some(FlowPolicy::new()), &notes);
    assert_eq!(stage.call("post", &post("a")).await.status, Status::Ok);
    // A call that the gate refuses reads nothing.
    assert_eq!(stage.call("read", r#"{"wrong": 1}"#).await.status, Status::RejectedSchema);
    // The model wrote both before it saw a result.
    let batch = stage.batch(&[("read", "{}"), ("post", &post("b"))]).await;
    assert!(batch.executions.iter().all(|execution| execution.status == Status::Ok), "{batch:?}");
    assert_eq!(stage.call("post", &post("c")).await.status, Status::RejectedDenied);
    assert_eq!(*world.public.lock().unwrap(), ["a", "b"]);
    // Sources go on.
    assert_eq!(stage.call("read", "{}").await.status, Status::Ok);
}

#[tokio::test]
async fn programs_can_be_judged_by_themselves() {
    async fn run(stage: &Stage, lines: &[&str]) -> String {
        let (name, arguments) = program(lines);
        stage.call(name, &arguments).await.result.text().unwrap().into_owned()
    }

    let world = World::default();
    let notes = Arc::default();
    let stage = flow_stage(&world, Some(FlowPolicy::new().scope(FlowScope::Program)), &notes);
    let line = "host__post {\"text\": \"x\"}";
    assert!(run(&stage, &["host__read", line]).await.contains("needs_approval"));
    assert!(!world.has_leaked());
    assert!(!run(&stage, &[line]).await.contains("needs_approval"));
    assert!(world.has_leaked());
    // A direct call is judged by the session, programs included.
    assert_eq!(stage.call("post", &post("y")).await.status, Status::RejectedDenied);
}

#[tokio::test]
async fn labels_decide() {
    async fn check(policy: FlowPolicy, source: &str, sink: &str, expected: Status) {
        let stage = flow_stage(&World::default(), Some(policy.clone()), &Arc::default());
        stage.call(source, "{}").await;
        assert_eq!(stage.call(sink, &post("x")).await.status, expected, "{source}, {sink}: {policy:?}");
    }

    fn labels(source: Option<FlowLabel>, sink: Option<FlowLabel>) -> FlowLabels {
        FlowLabels { source, sink }
    }

    let new = FlowPolicy::new;
    let private = Some(FlowLabel::Private);
    let public = Some(FlowLabel::Public);
    check(new(), "get", "post", Status::Ok).await;
    check(new().label_tool("get", labels(private, None)), "get", "post", Status::RejectedDenied).await;
    check(new().label_tool("read", labels(public, None)), "read", "post", Status::Ok).await;
    check(new().label_tool("post", labels(None, private)), "read", "post", Status::Ok).await;
    check(new(), "read", "put", Status::Ok).await;
    check(new().label_tool("put", labels(None, public)), "read", "put", Status::RejectedDenied).await;
    check(new().label_component("mail", labels(None, private)), "read", "mail__post", Status::Ok).await;
    check(new().label_component("mail", labels(public, None)), "mail__get", "post", Status::Ok).await;
}

#[tokio::test]
async fn labels_of_unknown_tools_are_refused() {
    let policy = FlowPolicy::new().label_tool("raed", FlowLabels::default().source(FlowLabel::Private));
    let built = PipelineBuilder::default().built_ins(Arc::new(tools(&World::default()))).flows(policy).build();
    assert!(matches!(built, Err(PipelineError::UnknownLabelled(name)) if name == "raed"));
}

/// An approver that collects the questions.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>, bool);

impl Approver for Asked {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        if let Question::Call(question) = question {
            self.0.lock().unwrap().push(format!("{}: {}", question.from, question.question));
        }
        let answer = if self.1 { Answer::Allow } else { Answer::no() };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test]
async fn a_person_decides_about_each_call() {
    for allows in [true, false] {
        let world = World::default();
        let approver = Arc::new(Asked(Mutex::default(), allows));
        // A hook that changes the arguments of one call, which is checked once more.
        let trim = before("trim", |call| match call.arguments()["text"].as_str() {
            Some(" x") => Decision::Rewrite { to: Arguments::Text(post("x")), note: None },
            _ => Decision::Allow,
        });
        let stage = stage_of(Arc::new(tools(&world)), |builder| {
            let builder = builder.flows(FlowPolicy::new()).approver(Arc::clone(&approver) as _);
            builder.call_hooks([trim].into_iter().collect())
        });
        stage.call("read", "{}").await;
        let status = if allows { Status::Ok } else { Status::RejectedDenied };
        assert_eq!(stage.call("post", &post("x")).await.status, status);
        assert_eq!(approver.0.lock().unwrap().len(), 1, "the hook changed nothing");
        assert!(approver.0.lock().unwrap()[0].starts_with("flows: private data may become public: `read`"));
        assert_eq!(stage.call("post", &post(" x")).await.status, status);
        let asked = approver.0.lock().unwrap().len();
        assert_eq!(asked, if allows { 3 } else { 2 }, "other arguments are another question");
        assert_eq!(world.public.lock().unwrap().len(), if allows { 2 } else { 0 });
    }
}

#[tokio::test]
async fn a_source_that_runs_or_was_dropped_counts() {
    let world = World::default();
    let notes = Arc::default();
    let stage = flow_stage(&world, Some(FlowPolicy::new()), &notes);
    let running = stage.pipeline.execute(vec![intent("c", "slow", "{}")], &stage.scope);
    assert!(tokio::time::timeout(Duration::from_millis(10), running).await.is_err());
    assert_eq!(stage.call("post", &post(SECRET)).await.status, Status::RejectedDenied);
}

#[tokio::test]
async fn a_tool_that_is_not_there_any_more_counts() {
    let mut stage = flow_stage(&World::default(), Some(FlowPolicy::new()), &Arc::default());
    let history = CallHistory::default();
    history.start("gone__read");
    stage.scope.history = Arc::new(history);
    let refused = stage.call("post", &post("x")).await;
    assert!(refused.error_message().contains("the label of its data is unknown"), "{refused:?}");
}
