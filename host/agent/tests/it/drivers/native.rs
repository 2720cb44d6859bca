//! Tests of the driver with native tool calling.

use fumehood_agent::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime};
use fumehood_agent::native::NativeDriver;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::chat::{Message, Reply, Request, Response, Role, StopReason, Thought, ToolChoice};
use proptest::prelude::*;
use serde_json::json;

use super::play::{execution, intent, play, survive, texts, tools};

fn bound(mut driver: NativeDriver) -> NativeDriver {
    driver.bind(ToolRuntime { tools: tools() });
    driver
}

fn first_request(driver: NativeDriver) -> Request {
    bound(driver).request(&[Message::user("hi")], &[])
}

fn add() -> Response {
    Response::calls(vec![intent("c1", "add", r#"{"a": 3, "b": 5}"#)])
}

fn with_text(text: &str, response: Response) -> Response {
    let calls = response.reply.calls().to_vec();
    Response { reply: Reply::ToolCalls { text: text.to_owned(), calls }, ..response }
}

fn call_text(decision: Decision) -> String {
    match decision {
        Decision::Call { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_native_driver_calculates() {
    let replies = vec![
        add(),
        Response::calls(vec![intent("c2", "multiply", r#"{"a": 8, "b": 2}"#)]),
        Response::text("(3 + 5) * 2 = 16"),
    ];
    let played = play(&mut NativeDriver::new(), "(3 + 5) * 2", replies);
    assert_eq!(played.end, Decision::Answer("(3 + 5) * 2 = 16".to_owned()));
    assert_eq!(texts(&played.requests[2]), ["(3 + 5) * 2", "", "8", "", "16"]);
}

#[test]
fn the_default_driver_is_native_and_auto() {
    let request = first_request(NativeDriver::default());
    assert_eq!(
        request,
        Request {
            messages: vec![Message::user("hi")],
            tools: tools(),
            cache_breakpoints: vec![1],
            ..Request::default()
        }
    );
}

#[test]
fn a_request_carries_all_that_the_driver_knows() {
    let options = json!({"seed": 7}).as_object().unwrap().clone();
    let mut driver = bound(
        NativeDriver::new()
            .model("gpt")
            .options(options.clone())
            .temperature(0.5)
            .max_tokens(100)
            .system_prompt("Be brief.")
            .tool_choice(ToolChoice::Required),
    );
    let request = driver.request(&[Message::user("hi")], &[Message::assistant("trace")]);
    let expected = Request {
        model: Some("gpt".to_owned()),
        messages: vec![Message::system("Be brief."), Message::user("hi"), Message::assistant("trace")],
        tools: tools(),
        tool_choice: ToolChoice::Required,
        temperature: Some(0.5),
        max_tokens: Some(100),
        cache_breakpoints: vec![2, 3],
        options,
        json: false,
        json_schema: None,
    };
    assert_eq!(request, expected);
}

#[test]
fn a_driver_without_a_model_leaves_the_choice_to_the_client() {
    assert_eq!(first_request(NativeDriver::new()).model, None);
    assert!(first_request(NativeDriver::new()).options.is_empty());
    assert_eq!(first_request(NativeDriver::new().model("m")).model.as_deref(), Some("m"));
}

#[test]
fn auto_may_call_or_answer() {
    let mut driver = bound(NativeDriver::new());
    assert!(matches!(driver.decide(&add()), Decision::Call { calls, .. } if calls == add().reply.calls()));
    assert_eq!(driver.decide(&Response::text("8")), Decision::Answer("8".to_owned()));
}

#[test]
fn required_asks_again_once_and_then_fails() {
    let mut driver = bound(NativeDriver::new().tool_choice(ToolChoice::Required));
    let demand = "You must call at least one of the tools.";
    let again = Decision::Again { messages: vec![Message::assistant("8"), Message::user(demand)] };
    assert_eq!(driver.decide(&Response::text("8")), again);
    let failure = DecisionError { fault: DecisionFault::Validation, message: demand.to_owned() };
    assert_eq!(driver.decide(&Response::text("8")), Decision::Failed(failure));
}

#[test]
fn required_holds_until_the_first_call_of_each_execution() {
    let mut driver = bound(NativeDriver::new().tool_choice(ToolChoice::Required));
    assert_eq!(driver.request(&[], &[]).tool_choice, ToolChoice::Required);
    driver.decide(&add());
    assert_eq!(driver.request(&[], &[]).tool_choice, ToolChoice::Auto);
    assert_eq!(driver.decide(&Response::text("8")), Decision::Answer("8".to_owned()));
    let mut driver = bound(driver);
    assert_eq!(driver.request(&[], &[]).tool_choice, ToolChoice::Required);
    driver.bind(ToolRuntime::default());
    assert_eq!(driver.request(&[], &[]).tool_choice, ToolChoice::Auto, "without tools it would be refused");
}

#[test]
fn none_is_text_only() {
    let mut driver = bound(NativeDriver::new().tool_choice(ToolChoice::None));
    let request = driver.request(&[Message::user("hi")], &[]);
    assert_eq!((request.tools.len(), request.tool_choice), (0, ToolChoice::None));
    assert_eq!(driver.decide(&with_text("eight", add())), Decision::Answer("eight".to_owned()));
    assert!(matches!(driver.decide(&add()), Decision::Again { .. }));
    assert!(matches!(driver.decide(&add()), Decision::Failed(_)));
    // Some providers reject a conversation with calls in it if the request has no tools.
    let replayed = driver.replay(&execution(intent("c", "add", "{}"), Ok(Vec::new())));
    let request = driver.request(&replayed, &[]);
    assert_eq!((request.tools.len(), request.tool_choice), (3, ToolChoice::None));
}

#[test]
fn specific_wants_that_tool() {
    let choice = ToolChoice::Specific("multiply".to_owned());
    let mut driver = bound(NativeDriver::new().tool_choice(choice.clone()));
    assert_eq!(driver.request(&[], &[]).tool_choice, choice);
    let again = Decision::Again { messages: vec![Message::user("You must call the tool `multiply`.")] };
    assert_eq!(driver.decide(&add()), again);
    let both = Response::calls(vec![intent("1", "add", "{}"), intent("2", "multiply", "{}")]);
    assert!(matches!(driver.decide(&both), Decision::Call { calls, .. } if calls.len() == 2));
    assert_eq!(driver.request(&[], &[]).tool_choice, ToolChoice::Auto);

    let mut driver = bound(NativeDriver::new().tool_choice(ToolChoice::Specific("nothing".to_owned())));
    assert_eq!(driver.request(&[], &[]).tool_choice, ToolChoice::Auto);
}

#[test]
fn leaked_arguments_are_dropped_and_prose_is_kept() {
    fn check(driver: &mut NativeDriver, text: &str, expected: &str) {
        let response = with_text(text, add());
        assert_eq!(call_text(driver.decide(&response)), expected);
        let done = execution(intent("c1", "add", "{}"), Ok(vec![Content::text("8")]));
        assert_eq!(driver.trace(&response, &[done])[0].content, expected);
    }

    let mut driver = bound(NativeDriver::new());
    check(&mut driver, r#"{"b": 5, "a": 3}"#, "");
    check(&mut driver, "I add them.", "I add them.");
    check(&mut driver, r#"{"a": 4}"#, r#"{"a": 4}"#);
    let leak = r#"{"a": 3, "b": 5}"#;
    assert_eq!(driver.decide(&Response::text(leak)), Decision::Answer(leak.to_owned()));
}

#[test]
fn each_execution_is_two_messages_with_one_id() {
    let driver = bound(NativeDriver::new());
    let calls = [intent("c1", "add", r#"{"a":1}"#), intent("c2", "divide", "{}")];
    let response = with_text("Let me see.", Response::calls(calls.to_vec()));
    let failed = CallError::new(ErrorKind::ToolFailed, "Division by zero").with_hint("pick another b");
    let done = [execution(calls[0].clone(), Ok(vec![Content::text("8")])), execution(calls[1].clone(), Err(failed))];
    let messages = driver.trace(&response, &done);
    let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool, Role::Assistant, Role::Tool]);
    for (pair, (call, done)) in messages.chunks(2).zip(calls.iter().zip(&done)) {
        assert_eq!(pair[0].tool_calls, std::slice::from_ref(call));
        assert_eq!(pair[1].tool_call_id.as_deref(), Some(call.id.as_str()));
        assert!(pair.iter().all(|message| message.tool_execution_id.as_deref() == Some(done.id.as_str())));
    }
    let contents: Vec<_> = messages.iter().map(|message| (message.content.as_str(), message.is_error)).collect();
    let error = "Error in tool call: Division by zero\nHint: pick another b";
    assert_eq!(contents, [("Let me see.", false), ("8", false), ("", false), (error, true)]);
}

#[test]
fn repeats_thoughts_with_every_call_of_a_reply() {
    let thought = Thought::Signed { text: "Sum first.".to_owned(), signature: "c2ln".to_owned() };
    let calls = ["c1", "c2"].map(|id| intent(id, "add", r#"{"a": 3, "b": 5}"#)).to_vec();
    let response = Response { thoughts: vec![thought.clone()], ..Response::calls(calls.clone()) };
    let executions: Vec<_> = calls.into_iter().map(|call| execution(call, Ok(vec![Content::text("8")]))).collect();
    let driver = bound(NativeDriver::new());
    let thoughts: Vec<_> = driver.trace(&response, &executions).into_iter().map(|message| message.thoughts).collect();
    assert_eq!(thoughts, [vec![thought.clone()], vec![], vec![thought], vec![]]);
    assert!(driver.replay(&executions[0]).iter().all(|message| message.thoughts.is_empty()), "that turn is over");
}

#[test]
fn a_history_is_one_that_providers_take() {
    fn check(driver: &NativeDriver, name: &str, arguments: &str, expected: (&str, &str)) {
        let messages = driver.replay(&execution(intent("c", name, arguments), Ok(Vec::new())));
        let call = &messages[0].tool_calls[0];
        assert_eq!((call.name.as_str(), call.arguments.as_str()), expected);
    }

    let driver = bound(NativeDriver::new());
    check(&driver, "add", r#"{ "a": 1 }"#, ("add", r#"{ "a": 1 }"#));
    check(&driver, "", "", ("_", "{}"));
    check(&driver, "rm -rf\u{202e}ä", "[1", ("rm_-rf__", r#"{"not_a_json_object":"[1"}"#));
    check(&driver, &"x".repeat(194), "[]", (&"x".repeat(194), r#"{"not_a_json_object":"[]"}"#));
    check(&driver, &"x".repeat(195), "{}", (&"x".repeat(64), "{}"));
    check(&driver, "m__a.b/C", "{}", ("m__a.b/C", "{}"));
}

#[test]
fn a_changed_call_is_told_to_the_model() {
    let mut done = execution(intent("c", "add", "{}"), Ok(vec![Content::text("8")]));
    done.modified = Some("`a` was cut to 3".to_owned());
    let messages = NativeDriver::new().replay(&done);
    assert_eq!(messages[1].content, "8\n[The arguments were changed before the call: `a` was cut to 3]");
}

#[test]
fn a_provider_without_tools_is_told_of_none_and_its_calls_are_not_looked_at() {
    let mut driver =
        bound(NativeDriver::new().supports_tools(false).tool_choice(ToolChoice::Required).inline_calls(true));
    let request = driver.request(&[Message::user("hi")], &[]);
    assert_eq!((request.tools.len(), request.tool_choice), (0, ToolChoice::Auto));
    assert_eq!(driver.decide(&with_text("eight", add())), Decision::Answer("eight".to_owned()));
    let inline = r#"{"tool": "add", "arguments": {}}"#;
    assert_eq!(driver.decide(&Response::text(inline)), Decision::Answer(inline.to_owned()));
    let replayed = driver.replay(&execution(intent("c", "add", "{}"), Ok(vec![Content::text("8")])));
    assert!(replayed.iter().all(|message| message.tool_calls.is_empty() && message.role != Role::Tool));
    assert_eq!(replayed[1].content, "Result of the tool: 8");
    assert_eq!(bound(NativeDriver::new()).request(&[], &[]).tools.len(), 3, "by default they are supported");
}

#[test]
fn an_earlier_call_is_replayed_as_a_pair() {
    let done = execution(intent("c", "add", r#"{"a":1}"#), Ok(vec![Content::text("8")]));
    let messages = NativeDriver::new().replay(&done);
    assert_eq!((messages[0].role, messages[1].role), (Role::Assistant, Role::Tool));
    assert_eq!(messages[0].tool_calls[0].id, messages[1].tool_call_id.clone().unwrap());
}

#[test]
fn inline_calls_are_taken_only_where_that_is_asked_for() {
    let text = r#"{"tool": "add", "arguments": {"a": 3, "b": 5}"#;
    assert_eq!(bound(NativeDriver::new()).decide(&Response::text(text)), Decision::Answer(text.to_owned()));
    let mut driver = bound(NativeDriver::new().inline_calls(true));
    let call = intent("", "add", r#"{"a": 3, "b": 5}"#);
    let expected = Decision::Call { text: String::new(), calls: vec![call], refused: Vec::new() };
    assert_eq!(driver.decide(&Response::text(text)), expected);
    let cut = Response { stop: StopReason::Length, ..Response::text(text) };
    assert_eq!(driver.decide(&cut), Decision::Answer(text.to_owned()));
    let other = r#"{"tool": "spade", "arguments": {}}"#;
    assert_eq!(driver.decide(&Response::text(other)), Decision::Answer(other.to_owned()));
    let done = execution(intent("c", "add", "{}"), Ok(vec![Content::text("8")]));
    assert_eq!(driver.trace(&Response::text(text), &[done])[0].content, "");
}

#[test]
fn treats_an_answer_of_calls_as_calls() {
    fn decide(text: &str) -> Decision {
        bound(NativeDriver::new()).decide(&Response::text(text))
    }

    let text = "```json\n{\n  \"name\": \"add\",\n  \"arguments\": {\"a\": 3}\n}\n```";
    let calls = vec![intent("", "add", r#"{"a": 3}"#)];
    assert_eq!(decide(text), Decision::Call { text: String::new(), calls, refused: Vec::new() });
    for answer in [text.replace("add", "spade"), format!("It is called so:\n{text}")] {
        assert_eq!(decide(&answer), Decision::Answer(answer));
    }
}

#[test]
fn retries_an_empty_reply_once() {
    let mut driver = bound(NativeDriver::new());
    let again = Decision::Again { messages: vec![Message::user("The answer is empty. Answer in words.")] };
    assert_eq!(driver.decide(&Response::text(" \n")), again);
    let Decision::Failed(failure) = driver.decide(&Response::text("")) else { panic!("it goes on") };
    assert_eq!(failure.fault, DecisionFault::Extraction);
    let held_back = Response { stop: StopReason::Filtered, ..Response::text("") };
    let Decision::Again { messages } = bound(NativeDriver::new()).decide(&held_back) else { panic!("taken") };
    assert!(messages[0].content.contains("held the answer back"));
    let refused = Response { stop: StopReason::Refused, ..Response::text("") };
    let Decision::Again { messages } = bound(NativeDriver::new()).decide(&refused) else { panic!("taken") };
    assert!(messages[0].content.contains("say why"));
}

fn response() -> impl Strategy<Value = Response> {
    let call = ("(add|.*)", r#"(\{"a": 1\}|.*)"#).prop_map(|(name, arguments)| intent("", &name, &arguments));
    let reply = prop_oneof![
        r#"( |\{"tool": "add"|.*)"#.prop_map(Reply::Text),
        (".*", prop::collection::vec(call, 0..4)).prop_map(|(text, calls)| Reply::ToolCalls { text, calls }),
    ];
    let stop = prop_oneof![
        Just(StopReason::Done),
        Just(StopReason::Length),
        Just(StopReason::Filtered),
        Just(StopReason::Refused),
        Just(StopReason::Failed),
    ];
    (reply, stop).prop_map(|(reply, stop)| Response { stop, ..Response::new(reply) })
}

proptest! {
    #[test]
    fn survives_any_replies(replies in prop::collection::vec(response(), 0..8), choice in 0..4, inline: bool) {
        let choice = match choice {
            0 => ToolChoice::Auto,
            1 => ToolChoice::Required,
            2 => ToolChoice::None,
            _ => ToolChoice::Specific("add".to_owned()),
        };
        survive(&mut NativeDriver::new().tool_choice(choice).inline_calls(inline), replies);
    }
}
