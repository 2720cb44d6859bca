//! Tests of rebuilding: a rebuilt reply is equal to the parsed one, and parses to the same events.

use fumehood_core::chat::Role;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::event::merge_pieces;
use super::super::parser::{Parser, ParserLimits, parse};
use super::super::report::ReportStatus;
use super::*;

fn call(name: &str, args: &str) -> Entry {
    Entry::Call(intent(name, args))
}

fn intent(name: &str, args: &str) -> ToolIntent {
    ToolIntent { id: String::new(), name: name.to_owned(), arguments: args.to_owned() }
}

fn result(tool: &str, content: &str) -> Entry {
    let tool = tool.to_owned();
    let content = content.to_owned();
    Entry::Result(ToolReport { tool, status: ReportStatus::Success, content, modified: None })
}

fn user(text: &str) -> Entry {
    Entry::User(text.to_owned())
}

fn check(entries: &[Entry], expected: &[(Role, &str)]) {
    let found = to_messages(entries);
    let found: Vec<_> = found.iter().map(|message| (message.role, message.content.as_str())).collect();
    assert_eq!(found, expected, "{entries:?}");
}

/// Parses, rebuilds and parses again.
fn roundtrip(reply: &str) {
    let events = parse(reply, ParserLimits::default());
    let rebuilt = rebuild(&events);
    assert_eq!(parse(&rebuilt, ParserLimits::default()), events, "{reply:?} became {rebuilt:?}");
}

#[test]
fn nothing_and_a_single_message() {
    check(&[], &[]);
    check(&[user("hello")], &[(Role::User, "hello")]);
}

#[test]
fn thoughts_and_answers_are_told_again() {
    let think = Entry::Think("plan".to_owned());
    let respond = Entry::Respond("Hello".to_owned());
    check(&[user("hi"), think, respond], &[(Role::User, "hi"), (Role::Assistant, "<think>plan</think>Hello")]);
}

#[test]
fn calls_are_rebuilt_as_one_array_in_order() {
    let one = "<execute>\n[\n{\"name\": \"read\", \"args\": {\"file\": \"a\"}}\n]\n</execute>";
    check(&[call("read", r#"{"file": "a"}"#)], &[(Role::Assistant, one)]);
    let three = "<execute>\n[\n{\"name\": \"c\", \"args\": {}},\n{\"name\": \"a\", \"args\": {}},\n\
                 {\"name\": \"b\", \"args\": {}}\n]\n</execute>";
    check(&[call("c", "{}"), call("a", "{}"), call("b", "{}")], &[(Role::Assistant, three)]);
}

#[test]
fn a_result_without_calls_makes_no_execute_block() {
    let results = "<results>\n[\n{\"tool\": \"read\", \"status\": \"success\", \"content\": 1}\n]\n</results>";
    check(&[user("hi"), result("read", "1")], &[(Role::User, "hi"), (Role::User, results)]);
}

#[test]
fn separate_batches_stay_separate_and_results_are_the_users() {
    fn ok(name: &str) -> Entry {
        result(name, "\"ok\"")
    }

    fn results(names: &[&str]) -> String {
        let row = |name: &&str| format!("{{\"tool\": \"{name}\", \"status\": \"success\", \"content\": \"ok\"}}");
        format!("<results>\n[\n{}\n]\n</results>", names.iter().map(row).collect::<Vec<_>>().join(",\n"))
    }

    fn block(names: &[&str]) -> String {
        let rows: Vec<_> = names.iter().map(|name| format!("{{\"name\": \"{name}\", \"args\": {{}}}}")).collect();
        format!("<execute>\n[\n{}\n]\n</execute>", rows.join(",\n"))
    }

    check(
        &[
            user("go"),
            Entry::Think("first".to_owned()),
            call("a", "{}"),
            call("b", "{}"),
            ok("a"),
            ok("b"),
            call("c", "{}"),
            ok("c"),
            Entry::Respond("Done.".to_owned()),
        ],
        &[
            (Role::User, "go"),
            (Role::Assistant, &format!("<think>first</think>\n{}", block(&["a", "b"]))),
            (Role::User, &results(&["a", "b"])),
            (Role::Assistant, &block(&["c"])),
            (Role::User, &results(&["c"])),
            (Role::Assistant, "Done."),
        ],
    );
}

#[test]
fn roundtrip_of_one_call_and_of_many() {
    roundtrip(r#"<execute>[{"name": "read", "args": {"file": "a"}}]</execute>"#);
    roundtrip(
        r#"<think>a</think>Text. <execute>[{"name": "a", "args": {"x": [1.50, 1e2]}}, {"name": "b", "args": {}}]</execute>"#,
    );
    roundtrip("<execute>[]</execute>");
    roundtrip(r#"<results>[{"tool": "a", "status": "failure", "content": "no"}]</results>Sorry."#);
}

#[test]
fn what_would_run_together_is_kept_apart() {
    for reply in [
        "<thi<think> </think>nk>",
        "a<end><think> </think>",
        "a<think> </think>b",
        "a<end><think>b</think> ",
        "a<end><end>",
    ] {
        roundtrip(reply);
    }
}

#[test]
fn html_and_closing_tags_are_rebuilt_byte_for_byte() {
    for args in
        [r#"{"content": "<html></html>"}"#, r#"{"content":  "x </write> </execute> y"}"#, r#"{"a": "\u003c\/b>"}"#]
    {
        let messages = to_messages(&[call("write", args)]);
        assert!(messages[0].content.contains(args), "{messages:?}");
        assert_eq!(
            parse(&messages[0].content, ParserLimits::default()),
            [Event::Call(intent("write", args)), Event::Execute]
        );
    }
}

#[test]
fn a_result_that_names_tags_stays_the_same() {
    fn parse_without_end(reply: &str) -> Vec<Event> {
        let mut events = parse(reply, ParserLimits::default());
        events.retain(|event| *event != Event::End);
        events
    }

    let reply = r#"<results>[{"tool": "</results>", "status": "failure", "content": "</results>"}]</results>"#;
    let events = parse_without_end(reply);
    assert!(matches!(events.as_slice(), [Event::Results(_)]), "{events:?}");
    assert_eq!(parse_without_end(&rebuild(&events)), events);
}

#[test]
fn arguments_of_another_protocol_do_not_break_the_array() {
    for (args, expected) in [("", "{}"), ("{\"a\": ", r#""{\"a\":""#), ("[1]", r#""[1]""#)] {
        let rebuilt = rebuild(&[Event::Call(intent("a", args))]);
        assert!(rebuilt.contains(&format!("\"args\": {expected}}}")), "{rebuilt}");
    }
}

#[test]
fn entries_are_what_was_said() {
    let reply = r#"<think>t</think>Hi <results>[]</results><execute>[{"name": "a", "args": {}}]</execute>"#;
    let expected = [Entry::Think("t".to_owned()), Entry::Respond("Hi ".to_owned()), call("a", "{}")];
    assert_eq!(to_entries(parse(reply, ParserLimits::default())), expected);
}

#[test]
fn in_pieces_or_whole_the_same_is_kept_once() {
    let reply = r#"<think>one two</think>three four<execute>[{"name": "a", "args": {}}]</execute>"#;
    let mut parser = Parser::new(ParserLimits::default());
    let mut pieces: Vec<Event> = reply.split_inclusive(' ').flat_map(|chunk| parser.push(chunk)).collect();
    pieces.extend(parser.finish());
    assert_eq!(pieces.iter().filter(|event| matches!(event, Event::Respond(_))).count(), 2, "{pieces:?}");
    assert_eq!(to_entries(merge_pieces(pieces)), to_entries(parse(reply, ParserLimits::default())));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "</execute>",
            "\"</execute>\\",
            "<think>",
            "</results>",
            "<html>\"'</html>",
            "[{\"name\":",
            "\\",
            "\u{0}\n",
            "é\u{1f600}",
        ])
        .prop_map(str::to_owned),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any_text(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parse_rebuild_parse_is_identity_for_any_arguments_in_any_chunking(
        calls in prop::collection::vec((any_text(), prop::collection::hash_map(any_text(), any_json(), 0..4), any::<bool>()), 0..5),
        size in 1_usize..40,
    ) {
        let calls: Vec<Event> = calls
            .into_iter()
            .map(|(name, args, pretty)| {
                let args = json!(args);
                let args = if pretty { serde_json::to_string_pretty(&args).unwrap() } else { args.to_string() };
                Event::Call(intent(&name, &args))
            })
            .chain([Event::Execute])
            .collect();
        let reply = rebuild(&calls);
        let characters: Vec<char> = reply.chars().collect();
        let mut parser = Parser::new(ParserLimits::default());
        let mut found: Vec<Event> =
            characters.chunks(size).flat_map(|chunk| parser.push(&chunk.iter().collect::<String>())).collect();
        found.extend(parser.finish());
        prop_assert_eq!(&found, &calls);
        prop_assert_eq!(rebuild(&found), reply);
    }

    #[test]
    fn parse_rebuild_parse_is_identity_for_any_reply(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "<think>", "</think>", "<execute>", "</execute>", "<results>", "</results>", "<end>", "<", "<thi", "nk>", "</th",
            " ", "\n", "a", "\"", "é", "[]", "[{\"name\": \"a\", \"args\": {\"x\": \"</execute>\"}}]",
            "[{\"tool\": \"a\", \"status\": \"failure\", \"content\": \"</results>\"}]", "```json\n", "<e", "nd>",
        ]), 0..16)
    ) {
        let reply = tokens.concat();
        let mut events = parse(&reply, ParserLimits::default());
        // Malformed blocks are reported to the model in other ways, so they are not rebuilt.
        let dropped = events.iter().any(|event| matches!(event, Event::Malformed(_)));
        events.retain(|event| !matches!(event, Event::Malformed(_) | Event::End));
        let rebuilt = rebuild(&events);
        let mut again = parse(&rebuilt, ParserLimits::default());
        again.retain(|event| *event != Event::End);
        prop_assert_eq!(again, events, "{:?} became {:?} (malformed parts: {})", reply, rebuilt, dropped);
    }
}
