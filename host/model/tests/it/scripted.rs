//! The scripted model, and a closure as a model.

use std::time::{Duration, Instant};

use fumehood_core::chat::{
    Delta, Message, Model, ModelError, ModelFailure, NullDeltaSink, Reply, Request, Response, Role, ToolIntent, Usage,
};
use fumehood_model::{ScriptError, ScriptedModel, ScriptedReply};

fn request(last: &str) -> Request {
    Request { messages: vec![Message::system("be brief"), Message::user(last)], ..Request::default() }
}

#[tokio::test]
async fn replies_in_order_and_then_ends() {
    let script = r#"[
        {"calls": [{"name": "add", "arguments": {"a": 3, "b": 5}}, {"id": "mine", "name": "add"}], "text": "One moment."},
        {"text": "It is 8.", "expect": "8", "usage": {"input": 5, "output": 2}},
        {"error": {"failure": "rate_limited", "message": "slow down", "status": 429, "retry_after_ms": 20}}
    ]"#;
    let model = ScriptedModel::parse(script).unwrap();
    let first = model.chat(&request("3 + 5"), &mut NullDeltaSink).await.unwrap();
    let ids: Vec<_> = first.reply.calls().iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1_1", "mine"]);
    assert_eq!(first.reply.calls()[0].arguments, r#"{"a": 3, "b": 5}"#);

    // A wrong result does not advance the script, however often it is repeated.
    for _ in 0..2 {
        let error = model.chat(&request("it failed"), &mut NullDeltaSink).await.unwrap_err();
        assert_eq!(error.failure, ModelFailure::Setup);
        assert_eq!(
            error.message,
            "reply 2 (line 3) of the script expects \"8\" in the last message, which is: it failed"
        );
    }
    let mut heard = Vec::new();
    let second = model.chat(&request("the tool says 8"), &mut |delta| heard.push(delta)).await.unwrap();
    assert_eq!(second.reply, Reply::Text("It is 8.".to_owned()));
    assert_eq!(second.usage, Usage::new(5, 2));
    assert_eq!(heard, ["It ", "is ", "8."].map(|word| Delta::Text(word.to_owned())));

    let third = model.chat(&request(""), &mut NullDeltaSink).await.unwrap_err();
    assert_eq!((third.failure, third.status), (ModelFailure::RateLimited, Some(429)));
    assert_eq!(third.retry_after, Some(Duration::from_millis(20)));
    assert_eq!(model.replies_left(), 0);
    let end = model.chat(&request(""), &mut NullDeltaSink).await.unwrap_err();
    assert_eq!(end.failure, ModelFailure::Setup);
    assert!(end.message.contains("the script has only 3 replies"), "{end}");
}

#[tokio::test]
async fn builds_a_script_in_code() {
    let calls = vec![ToolIntent { id: String::new(), name: "f".to_owned(), arguments: "{}".to_owned() }];
    let model = ScriptedModel::new(vec![
        ScriptedReply::calls(calls),
        ScriptedReply::text("done").expect_text("ok").delay(Duration::from_millis(30)),
        ScriptedReply::error(ModelError::new(ModelFailure::Unavailable, "gone")),
    ]);
    assert_eq!(model.chat(&request(""), &mut NullDeltaSink).await.unwrap().reply.calls().len(), 1);
    let wrong = model.chat(&request("no"), &mut NullDeltaSink).await.unwrap_err();
    assert!(wrong.message.starts_with("reply 2 of the script expects \"ok\""), "{wrong}");
    let start = Instant::now();
    assert_eq!(model.chat(&request("ok"), &mut NullDeltaSink).await.unwrap(), Response::text("done"));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(model.chat(&request(""), &mut NullDeltaSink).await.unwrap_err().message, "gone");
}

#[test]
fn reads_a_script_from_a_file() {
    let folder = std::env::temp_dir().join(format!("fumehood-script-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("script.jsonl");
    std::fs::write(&file, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").unwrap();
    assert_eq!(ScriptedModel::open(&file).unwrap().replies_left(), 2);
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(matches!(ScriptedModel::open(&file), Err(ScriptError::NotText)));
    std::fs::write(&file, vec![b' '; fumehood_model::MAX_SCRIPT_BYTES + 1]).unwrap();
    assert!(matches!(ScriptedModel::open(&file), Err(ScriptError::TooLong)));
    let missing = ScriptedModel::open(folder.join("none")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the script "), "{missing}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn any_closure_is_a_model_and_the_name_does_not_matter() {
    let model = |request: &Request| -> Result<Response, ModelError> {
        Ok(Response::text(format!("you said {}", request.messages.last().unwrap().content)))
    };
    let model: &dyn Model = &model;
    for name in [None, Some("anything".to_owned())] {
        let asked = Request { model: name, ..request("hello") };
        let mut heard = Vec::new();
        let answer = model.chat(&asked, &mut |delta| heard.push(delta)).await.unwrap();
        assert_eq!(answer.reply.text(), "you said hello");
        assert_eq!(heard, [Delta::Text("you said hello".to_owned())]);
    }
}

#[test]
fn a_message_has_a_role_and_perhaps_calls_and_an_answer_is_text_or_calls() {
    let call = ToolIntent { id: "1".to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() };
    let mut asks = Message::assistant("");
    asks.tool_calls.push(call.clone());
    let messages = [Message::system("s"), Message::user("u"), asks, Message::tool("1", "8")];
    assert_eq!(
        messages.each_ref().map(|message| message.role),
        [Role::System, Role::User, Role::Assistant, Role::Tool]
    );
    let json = serde_json::to_value(&messages).unwrap();
    assert_eq!(json[0], serde_json::json!({"role": "system", "content": "s"}));
    assert_eq!(json[2]["tool_calls"][0]["name"], "add");
    assert_eq!(json[3]["tool_call_id"], "1");
    let kinds = [Response::text("t"), Response::calls(vec![call])].map(|response| match response.reply {
        Reply::Text(_) => "text",
        Reply::ToolCalls { .. } => "calls",
    });
    assert_eq!(kinds, ["text", "calls"]);
}
