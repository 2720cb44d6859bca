//! Tests of the parser: the cases of the protocol in every chunking, and arbitrary text.

use proptest::prelude::*;

use super::*;

/// Abbreviates events: `T:` think, `A:` text, `name{args}` call, `!` execute, `R:` results, `E:` malformed, `.` end.
fn short(events: &[Event]) -> Vec<String> {
    let one = |event: &Event| match event {
        Event::Think(text) => format!("T:{text}"),
        Event::Respond(text) => format!("A:{text}"),
        Event::Close => "|".to_owned(),
        Event::Call(call) => format!("{}{}", call.name, call.arguments),
        Event::Execute => "!".to_owned(),
        Event::Results(reports) => {
            let rows = reports.iter().map(|r| format!("{}={}:{}", r.tool, r.status.as_str(), r.content));
            format!("R:{}", rows.collect::<Vec<_>>().join(";"))
        }
        Event::Malformed(message) => format!("E:{message}"),
        Event::End => ".".to_owned(),
    };
    events.iter().map(one).collect()
}

fn in_chunks<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Vec<Event> {
    let mut parser = Parser::new(ParserLimits::default());
    let mut events: Vec<Event> = chunks.into_iter().flat_map(|chunk| parser.push(chunk)).collect();
    events.extend(parser.finish());
    merge_pieces(events)
}

fn by_character(reply: &str) -> Vec<Event> {
    in_chunks(reply.split_inclusive(|_| true))
}

/// Asserts the events of a reply: as a whole, character by character, and cut in two at every place.
fn check(reply: &str, expected: &[&str]) {
    assert_eq!(short(&parse(reply, ParserLimits::default())), expected, "{reply}");
    assert_eq!(short(&by_character(reply)), expected, "by character: {reply}");
    for (at, _) in reply.char_indices() {
        let (before, after) = reply.split_at(at);
        assert_eq!(short(&in_chunks([before, after])), expected, "{before:?} + {after:?}");
    }
}

/// Asserts that a call with this text as its only argument is parsed byte for byte.
fn check_argument(argument: &str) {
    let args = serde_json::json!({ "content": argument }).to_string();
    let reply = format!("<execute>\n[{{\"name\": \"write\", \"args\": {args}}}]\n</execute>");
    check(&reply, &[&format!("write{args}"), "!"]);
}

/// Asserts that a reply is malformed, with these words, and has no calls.
fn check_error(reply: &str, words: &str) {
    for events in [parse(reply, ParserLimits::default()), by_character(reply)] {
        let found = short(&events);
        let [only] = &found[..] else { panic!("{reply}: {found:?}") };
        assert!(only.starts_with("E:Error: Malformed tool call syntax. "), "{reply}: {only}");
        assert!(only.contains(words), "{reply}: {only}");
    }
}

#[test]
fn think_execute_results_in_order() {
    // Results in a transcript, and the whole sequence of one turn.
    check(
        "<think>plan</think>\n<results>\n[{\"tool\": \"read\", \"status\": \"success\", \"content\": \"x\"}]\n</results>\n\
         <execute>\n[{\"name\": \"read\", \"args\": {\"file\": \"a\"}}]\n</execute>",
        &["T:plan", "R:read=success:\"x\"", "read{\"file\": \"a\"}", "!"],
    );
}

#[test]
fn think_is_optional_and_any_content_is_accepted() {
    check("<think>analyzing</think>", &["T:analyzing", "."]);
    check("no thoughts", &["A:no thoughts", "."]);
    check("<think>a < b <execute>[{]</execute> \"</think>done", &["T:a < b <execute>[{]</execute> \"", "A:done", "."]);
    check("<think></thi</think>x", &["T:</thi", "A:x", "."]);
    check("<think>cut off", &["T:cut off", "."]);
    check("<think>a</think><think>b</think>", &["T:a", "T:b", "."]);
}

#[test]
fn an_array_of_one_of_many_and_of_none() {
    check(r#"<execute>[{"name": "read", "args": {"file": "a"}}]</execute>"#, &[r#"read{"file": "a"}"#, "!"]);
    check(
        r#"<execute>[{"name": "c", "args": {}}, {"name": "a", "args": {}}, {"name": "b", "args": {}}]</execute>"#,
        &["c{}", "a{}", "b{}", "!"],
    );
    check("<execute>[]</execute>", &["!"]);
}

#[test]
fn a_fence_inside_and_a_missing_end_are_repaired_where_that_is_safe() {
    let call = r#"[{"name": "a", "args": {"x": "</execute>"}}]"#;
    let events = [r#"a{"x": "</execute>"}"#, "!"];
    check(&format!("<execute>\n```json\n{call}\n```\n</execute>"), &events);
    check(&format!("<execute>{call}"), &events);
    check(&format!("<execute>{call}\n</exec"), &events);
    check(&format!("<execute>```json\n{call}"), &events);
    check_error(r#"<execute>[{"name": "a", "args": {}}"#, "is not JSON");
    check_error(r#"<execute>[{"name": "a", "args": {}}] I will wait now."#, "is not JSON");
    check_error(r#"<execute>[{"name": "a", "args": {"x": "cut of"#, "is not JSON");
}

#[test]
fn invalid_json_is_an_error() {
    check_error("<execute>[{not json}]</execute>", "is not JSON");
    check_error("<execute></execute>", "is not JSON");
    check_error("<execute>  \n</execute>", "is not JSON");
    check_error("<execute>[{\"name\": \"a, \"args\": {}}]</execute> and more", "is not JSON");
}

#[test]
fn a_block_over_the_cap_is_an_error_and_is_not_kept() {
    let limits = ParserLimits { block_bytes: 10 };
    assert_eq!(short(&parse("<execute>[        ]</execute>", limits)), ["!"]);
    let found = short(&parse("<execute>[         ]</execute>", limits));
    assert!(found.len() == 1 && found[0].contains("The <execute> block is longer than 10 bytes"), "{found:?}");
    assert_eq!(
        short(&parse(&format!("{}x", " ".repeat(99)), limits)),
        [format!("A:{}x", " ".repeat(10)), ".".to_owned()]
    );
    let mut parser = Parser::new(limits);
    parser.push("<execute>");
    for _ in 0..10_000 {
        parser.push("[[[[[[[[");
    }
    assert!(parser.is_done() && parser.text.capacity() < 100, "{}", parser.text.capacity());
}

#[test]
fn no_call_of_a_batch_with_a_bad_element_runs() {
    check_error(r#"<execute>{"name": "a", "args": {}}</execute>"#, "expected a JSON array");
    check_error(r#"<execute>[{"name": "a", "args": {}}, 7]</execute>"#, "Call 1 invalid: ");
    check_error(r#"<execute>[{"args": {}}]</execute>"#, r#"Call 0 invalid: the field "name""#);
    check_error(
        r#"<execute>[{"name": "a", "args": {}}, {"name": "b"}]</execute>"#,
        r#"Call 1 invalid: the field "args""#,
    );
}

#[test]
fn html_survives_byte_for_byte() {
    check_argument("<html><body class=\"x\">Hello & <b>bye</b></body></html>");
    check_argument("<tool>a</tool><think>b</think>");
}

#[test]
fn a_closing_tag_in_a_string_is_content() {
    check_argument("Hello </write> world");
    check_argument("<a><b></b></a></think></results>");
    check_argument("SELECT * FROM t WHERE name = 'x\"</sql>' OR 1<2; --");
}

#[test]
fn the_closing_tag_of_the_block_in_a_string_is_content() {
    check_argument("before </execute> after");
    check_argument("\"</execute>\\");
    check_argument("</execute></execute><execute>[]");
    // Also in a name and in a key, and after an escaped quote or backslash.
    check(
        r#"<execute>[{"name": "</execute>", "args": {"</execute>": "\\"}}]</execute>"#,
        &[r#"</execute>{"</execute>": "\\"}"#, "!"],
    );
    check(
        r#"<execute>[{"name": "a", "args": {"x": "\"</execute>\\\""}}]</execute>"#,
        &[r#"a{"x": "\"</execute>\\\""}"#, "!"],
    );
    // The same value, as it is written in every block of results.
    check(
        r#"<results>[{"tool": "a", "status": "success", "content": "</results>"}]</results>"#,
        &[r#"R:a=success:"\u003c/results>""#, "."],
    );
}

#[test]
fn mixed_quotes_survive() {
    check_argument(r#"echo "hello" && echo 'world'"#);
    check_argument("`a` \"b\" 'c' \\\" \\' \u{2018}d\u{2019}");
}

#[test]
fn text_outside_tags_is_the_answer() {
    check("Done: a < b, and 1 <2> 3.", &["A:Done: a < b, and 1 <2> 3.", "."]);
    check("Before <think>x</think> after", &["A:Before ", "T:x", "A: after", "."]);
    check("</execute> </think> <thinking> <tool>", &["A:</execute> </think> <thinking> <tool>", "."]);
    check("half a tag <exec", &["A:half a tag <exec", "."]);
    check("<<think>a</think>", &["A:<", "T:a", "."]);
}

#[test]
fn one_event_for_each_call_then_execute_and_nothing_after() {
    let batch = r#"<execute>[{"name": "a", "args": {}}]</execute>"#;
    check(&format!("{batch} the result is 7"), &["a{}", "!"]);
    check(&format!("{batch}<end>"), &["a{}", "!"]);
    check(&format!("{batch}\n<results>[]</results>{batch}"), &["a{}", "!"]);
    check_error("<execute>[</execute><execute>[]</execute>", "is not JSON");
    let mut parser = Parser::new(ParserLimits::default());
    parser.push(&format!("ä {batch} more"));
    assert!(parser.is_done() && parser.is_closed());
    assert_eq!(parser.consumed_bytes(), "ä ".len() + batch.len());
    assert_eq!(parser.push("still more"), []);
    assert_eq!(parser.finish(), []);
}

#[test]
fn end_is_a_mark_at_the_very_end_and_text_elsewhere() {
    check("Done.<end>", &["A:Done.", "."]);
    check("Done.<end>\n ", &["A:Done.", "."]);
    check("<end>", &["."]);
    check("the <end> tag", &["A:the <end> tag", "."]);
    check(" <end> <", &["A: <end> <", "."]);
    check("a<end> <think>b</think>", &["A:a<end> ", "T:b", "."]);
    check("a<end><end>", &["A:a<end>", "."]);
}

#[test]
fn a_partial_tag_is_held_until_it_is_clear() {
    let mut parser = Parser::new(ParserLimits::default());
    assert_eq!(short(&parser.push("Hi <th")), ["A:Hi "]);
    assert_eq!(short(&parser.push("in")), [""; 0]);
    assert_eq!(short(&parser.push("gs")), ["A:<things"]);
    assert_eq!(short(&parser.push("<think>a</thi")), ["|", "T:a"]);
    assert_eq!(short(&parser.push("s</think")), ["T:</this"]);
    assert_eq!(short(&parser.push("><execute>[]</exec")), ["|"]);
    assert_eq!(short(&parser.push("ute>")), ["!"]);
}

#[test]
fn several_tags_in_one_chunk_keep_their_order() {
    check(
        "a<think>b</think>c<think>d</think><results>[]</results>e<execute>[]</execute>",
        &["A:a", "T:b", "A:c", "T:d", "R:", "A:e", "!"],
    );
}

#[test]
fn text_streams_as_it_comes() {
    let mut parser = Parser::new(ParserLimits::default());
    let pieces: Vec<_> = ["On", "e ", "two", " \n"].iter().flat_map(|chunk| parser.push(chunk)).collect();
    assert_eq!(short(&pieces), ["A:On", "A:e ", "A:two", "A: \n"]);
    assert_eq!(short(&merge_pieces(pieces)), ["A:One two \n"]);
    assert_eq!(short(&parser.finish()), ["|", "."]);
}

#[test]
fn blocks_of_only_whitespace_yield_nothing() {
    check("<think> \n\t</think>\n<results> \n</results>\n", &["."]);
    check("", &["."]);
    check(" \n ", &["."]);
    check("\n<think>\n x</think>\n\n<execute>[]</execute>", &["T:\n x", "!"]);
}

#[test]
fn results_that_cannot_be_read_are_no_danger() {
    let found = short(&parse("<results>oops</results>text", ParserLimits::default()));
    assert!(found[0].starts_with("E:Error: Malformed results. "), "{found:?}");
    assert_eq!(found[1..], ["A:text", "."]);
    check("<results>[]", &["R:", "."]);
}

/// Parses each example of the specification, and compares its calls or results.
#[test]
fn every_example_of_the_specification_parses() {
    for (reply, expected) in [
        (
            "<think>reasoning about the problem, what steps to take</think>",
            &["T:reasoning about the problem, what steps to take", "."][..],
        ),
        (
            "<execute>\n[\n{\"name\": \"read\", \"args\": {\"file\": \"config.json\"}}\n]\n</execute>",
            &["read{\"file\": \"config.json\"}", "!"],
        ),
        (
            "<execute>\n[\n{\"name\": \"read\", \"args\": {\"file\": \"a.txt\"}},\n\
             {\"name\": \"write\", \"args\": {\"file\": \"b.txt\", \"content\": \"updated\"}},\n\
             {\"name\": \"read\", \"args\": {\"file\": \"b.txt\"}}\n]\n</execute>",
            &[
                "read{\"file\": \"a.txt\"}",
                "write{\"file\": \"b.txt\", \"content\": \"updated\"}",
                "read{\"file\": \"b.txt\"}",
                "!",
            ],
        ),
        (
            "<execute>\n[\n{\"name\": \"write\", \"args\": {\"file\": \"index.html\", \"content\": \
             \"<html><body>Hello</body></html>\"}}\n]\n</execute>",
            &["write{\"file\": \"index.html\", \"content\": \"<html><body>Hello</body></html>\"}", "!"],
        ),
        (
            "<execute>\n[\n{\"name\": \"write\", \"args\": {\"content\": \"Hello </write> world\"}}\n]\n</execute>",
            &["write{\"content\": \"Hello </write> world\"}", "!"],
        ),
        (
            "<execute>\n[\n{\"name\": \"shell\", \"args\": {\"cmd\": \"echo \\\"hello\\\" && echo 'world'\"}}\n]\n</execute>",
            &["shell{\"cmd\": \"echo \\\"hello\\\" && echo 'world'\"}", "!"],
        ),
        (
            "<results>\n[\n{\"tool\": \"read\", \"status\": \"failure\", \"content\": \"File not found: config.json\"}\n]\n</results>",
            &["R:read=failure:\"File not found: config.json\"", "."],
        ),
        (
            "<results>\n[\n{\"tool\": \"read\", \"status\": \"success\", \"content\": \"data\"},\n{\"tool\": \"write\", \
             \"status\": \"success\", \"content\": {\"bytes\": 22}},\n{\"tool\": \"read\", \"status\": \"failure\", \
             \"content\": \"Permission denied\"}\n]\n</results>",
            &["R:read=success:\"data\";write=success:{\"bytes\": 22};read=failure:\"Permission denied\"", "."],
        ),
        (
            "<think>API is old.com, need to update to new.com</think>\n<execute>\n[\n{\"name\": \"write\", \"args\": \
             {\"file\": \"config.json\", \"content\": \"{\\\"api\\\": \\\"new.com\\\"}\"}},\n{\"name\": \"read\", \"args\": \
             {\"file\": \"config.json\"}}\n]\n</execute>",
            &[
                "T:API is old.com, need to update to new.com",
                "write{\"file\": \"config.json\", \"content\": \"{\\\"api\\\": \\\"new.com\\\"}\"}",
                "read{\"file\": \"config.json\"}",
                "!",
            ],
        ),
    ] {
        check(reply, expected);
    }
}

#[test]
fn the_old_format_with_delimiters_is_only_text() {
    for old in [
        "§think: plan\n§call: {\"name\": \"read\", \"args\": {}}\n§execute",
        "§execute\n[{\"name\": \"a\", \"args\": {}}]\n§end",
    ] {
        check(old, &[&format!("A:{old}"), "."]);
    }
    // Tools as tags of their own are not this format either.
    check_error("<execute><read><file>a</file></read></execute>", "is not JSON");
}

/// Generates text with many parts of tags and JSON.
fn nasty_text() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        4 => prop::sample::select(vec![
            "<think>", "</think>", "<execute>", "</execute>", "<results>", "</results>", "<end>", "<", "</exec", "<th", "\"",
            "\\", "[", "]", "{", "}", "```json\n", "```", "[{\"name\": \"a\", \"args\": {\"x\": \"</execute>\"}}]", "[]",
            "[{\"tool\": \"a\", \"status\": \"success\", \"content\": 1}]", " ", "\n", "é", "§execute",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_in_any_chunking_gives_the_same_events(
        text in nasty_text(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)
    ) {
        let characters: Vec<char> = text.chars().collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(characters.len() + 1)).chain([0, characters.len()]).collect();
        at.sort_unstable();
        let chunks: Vec<String> = at.windows(2).map(|pair| characters[pair[0]..pair[1]].iter().collect()).collect();
        let expected = parse(&text, ParserLimits::default());
        prop_assert_eq!(&in_chunks(chunks.iter().map(String::as_str)), &expected);
        prop_assert_eq!(&by_character(&text), &expected);
    }

    #[test]
    fn text_without_tags_comes_through_whole(text in "[^<]*[^<\\s][^<]*") {
        prop_assert_eq!(by_character(&text), [Event::Respond(text), Event::End]);
    }

    #[test]
    fn any_bytes_at_all_end_in_a_last_event(text in any::<String>(), inside in any::<bool>()) {
        let text = if inside { format!("<execute>{text}</execute>") } else { text };
        let last = parse(&text, ParserLimits::default()).pop();
        prop_assert!(matches!(last, Some(Event::End | Event::Execute | Event::Malformed(_))));
    }
}
