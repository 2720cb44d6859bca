//! Definitions of tools by `#[tool]`, and calls of them like a host's.

use fumehood_guest::{
    Annotations, Blob, Content, Definition, FailureKind, IntoContent, Link, Tool, ToolError, testing, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The arguments of `add`.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    #[serde(default)]
    b: i64,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Sum {
    /// Both together.
    sum: i64,
}

/// Adds two numbers.
///
/// Use it for sums.
#[tool(title = "Add", read_only, idempotent, destructive = false)]
fn add(args: Add) -> Result<Sum, ToolError> {
    let sum = args.a.checked_add(args.b).ok_or_else(|| ToolError::failed("the sum is too large"))?;
    Ok(Sum { sum })
}

/// Greets.
#[tool(name = "greet-people")]
fn greet(
    /// Whom to greet.
    name: String,
    /// Number of greetings.
    #[default(1)]
    #[schemars(range(max = 3))]
    times: u32,
    /// The greeting.
    #[default("Hello")]
    word: String,
    tone: Option<Tone>,
    #[default] shout: bool,
) -> String {
    let end = if shout || matches!(tone, Some(Tone::Loud)) { "!" } else { "." };
    vec![format!("{word}, {name}{end}"); times as usize].join(" ")
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Tone {
    /// As usual.
    Normal,
    /// With emphasis.
    Loud,
}

/// Says nothing.
#[tool]
fn nothing() {}

/// Always the same.
#[tool]
pub(crate) fn fixed() -> &'static str {
    "fixed"
}

/// A number.
#[tool]
fn number(r#type: u8) -> u8 {
    r#type
}

/// Fails with plain text.
#[tool]
fn refuse(args: Add) -> Result<(), String> {
    Err(format!("not {}", args.a))
}

/// Content as it is.
#[tool]
fn picture() -> Result<Content, ToolError> {
    Ok(Content::blob("image/png", [1, 2, 3]))
}

/// Several parts.
#[tool]
fn parts() -> Vec<Content> {
    vec![Content::text("see"), Content::link("https://example.org/")]
}

type Fallible<T> = Result<T, ToolError>;

/// Behind an alias.
#[tool]
fn aliased() -> Fallible<Vec<u8>> {
    Ok(vec![1, 2])
}

struct Markdown(&'static str);

impl IntoContent for Markdown {
    fn into_content(self) -> Vec<Content> {
        vec![Content::text(self.0)]
    }
}

/// A type with its own way to become content.
#[tool]
fn own() -> Markdown {
    Markdown("# Title")
}

mod elsewhere {
    /// Lives in a module.
    #[fumehood_guest::tool]
    pub(super) fn distant(_args: super::Add) -> bool {
        true
    }
}

fumehood_guest::export!(add, greet, nothing, fixed, number, refuse, picture, parts, aliased, own, elsewhere::distant);

fn call<T: Tool>(arguments: Value) -> Result<Vec<Content>, ToolError> {
    testing::call::<T>(&arguments)
}

#[test]
fn function_is_still_callable() {
    assert_eq!(add(Add { a: 1, b: 2 }), Ok(Sum { sum: 3 }));
    assert_eq!(greet("Ada".to_owned(), 2, "Hi".to_owned(), None, false), "Hi, Ada. Hi, Ada.");
}

#[test]
fn describes_whole_arguments_by_their_type() {
    let mut b = integer_schema("The second number.");
    b["default"] = json!(0);
    let expected = Definition {
        name: "add".to_owned(),
        title: Some("Add".to_owned()),
        description: "Adds two numbers.\n\nUse it for sums.".to_owned(),
        input_schema: json!({
            "type": "object",
            "description": "The arguments of `add`.",
            "properties": {"a": integer_schema("The first number."), "b": b},
            "required": ["a"],
        }),
        output_schema: Some(json!({
            "type": "object",
            "properties": {"sum": integer_schema("Both together.")},
            "required": ["sum"],
        })),
        annotations: Annotations {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: None,
        },
    };
    assert_eq!(add::definition(), expected);
}

fn integer_schema(description: &str) -> Value {
    let minimum = i64::MIN;
    let maximum = i64::MAX;
    json!({"type": "integer", "minimum": minimum, "maximum": maximum, "description": description})
}

#[test]
fn describes_each_parameter() {
    let Definition { name, title, input_schema, output_schema, annotations, .. } = greet::definition();
    assert_eq!((greet::NAME, name.as_str(), title), ("greet-people", "greet-people", None));
    assert_eq!((output_schema, annotations), (None, Annotations::default()));
    assert_eq!(input_schema["required"], json!(["name"]));
    assert_eq!(input_schema["additionalProperties"], json!(false));
    let properties = &input_schema["properties"];
    assert_eq!(properties["name"], json!({"type": "string", "description": "Whom to greet."}));
    assert_eq!(
        properties["times"],
        json!({"type": "integer", "minimum": 0, "maximum": 3, "default": 1, "description": "Number of greetings."})
    );
    assert_eq!(properties["word"]["default"], "Hello");
    assert_eq!(properties["shout"], json!({"type": "boolean", "default": false}));
    assert!(input_schema["$defs"]["Tone"].to_string().contains("With emphasis."), "{input_schema}");
    assert_eq!(nothing::definition().input_schema["type"], "object");
    assert_eq!(number::definition().input_schema["required"], json!(["type"]));
}

#[test]
fn calls_tools_with_json() {
    assert_eq!(call::<add>(json!({"a": 1, "b": 2})), Ok(vec![Content::Json(json!({"sum": 3}))]));
    assert_eq!(call::<add>(json!({"a": 1})), Ok(vec![Content::Json(json!({"sum": 1}))]));
    assert_eq!(call::<greet>(json!({"name": "Ada"})), Ok(vec![Content::text("Hello, Ada.")]));
    let all = json!({"name": "Ada", "times": 2, "word": "Hi", "tone": "loud", "shout": false});
    assert_eq!(call::<greet>(all), Ok(vec![Content::text("Hi, Ada! Hi, Ada!")]));
    assert_eq!(call::<number>(json!({"type": 7})), Ok(vec![Content::Json(json!(7))]));
    assert_eq!(call::<elsewhere::distant>(json!({"a": 1})), Ok(vec![Content::Json(json!(true))]));
}

#[test]
fn converts_every_kind_of_result() {
    let none = json!({});
    assert_eq!(call::<nothing>(none.clone()), Ok(vec![]));
    assert_eq!(call::<fixed>(none.clone()), Ok(vec![Content::text("fixed")]));
    let blob = Blob { mime_type: "image/png".to_owned(), data: vec![1, 2, 3] };
    assert_eq!(call::<picture>(none.clone()), Ok(vec![Content::Blob(blob)]));
    let link = Link { uri: "https://example.org/".to_owned(), title: None, mime_type: None };
    assert_eq!(call::<parts>(none.clone()), Ok(vec![Content::text("see"), Content::Link(link)]));
    assert_eq!(call::<aliased>(none.clone()), Ok(vec![Content::Json(json!([1, 2]))]));
    assert_eq!(call::<own>(none), Ok(vec![Content::text("# Title")]));
}

#[test]
fn only_json_results_have_a_schema() {
    for (definition, has_schema) in [
        (add::definition(), true),
        (number::definition(), true),
        (aliased::definition(), true),
        (nothing::definition(), false),
        (fixed::definition(), false),
        (picture::definition(), false),
        (parts::definition(), false),
        (refuse::definition(), false),
        (own::definition(), false),
    ] {
        assert_eq!(definition.output_schema.is_some(), has_schema, "{}", definition.name);
    }
}

#[test]
fn failures_keep_their_kind() {
    assert_eq!(failure_of(call::<refuse>(json!({"a": 1}))), (FailureKind::Failed, "not 1".to_owned()));
    let too_large = failure_of(call::<add>(json!({"a": i64::MAX, "b": 1})));
    assert_eq!(too_large, (FailureKind::Failed, "the sum is too large".to_owned()));
    // Arguments that match the schema but not the type.
    let (kind, message) = failure_of(add::call("{}"));
    assert_eq!(kind, FailureKind::InvalidArguments);
    assert!(message.contains("missing field `a`"), "{message}");
}

fn failure_of(result: Result<Vec<Content>, ToolError>) -> (FailureKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.message().to_owned())
}

#[test]
fn validates_arguments_like_a_host() {
    check_refusal(call::<add>(json!({})), "missing");
    check_refusal(call::<greet>(json!({"name": "Ada", "tone": "odd"})), "/tone");
    // serde alone would ignore the unknown property.
    check_refusal(call::<add>(json!({"a": 1, "oops": 1})), "/oops");
    check_refusal(call::<greet>(json!({"name": "Ada", "times": 4})), "/times");
    check_refusal(call::<greet>(json!({"name": "x".repeat(20_000)})), "/name");
    check_refusal(call::<number>(json!({"type": 256})), "/type");
}

fn check_refusal(result: Result<Vec<Content>, ToolError>, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), FailureKind::InvalidArguments, "{error}");
    assert!(error.message().contains(says), "{error}");
}

/// Promises what it does not keep.
#[derive(Serialize, JsonSchema)]
struct Percentage {
    #[schemars(range(max = 100))]
    percent: u32,
}

/// Returns a share.
#[tool]
fn share(percent: u32) -> Percentage {
    Percentage { percent }
}

/// Has a pattern that no host compiles.
#[tool]
fn impossible(#[schemars(regex(pattern = "("))] text: String) -> String {
    text
}

#[test]
fn validates_results_and_definitions_like_a_host() {
    assert!(call::<share>(json!({"percent": 100})).is_ok());
    check_failure(call::<share>(json!({"percent": 101})), "a host refuses this result");
    check_failure(call::<impossible>(json!({"text": "x"})), "a host does not load this tool");
}

fn check_failure(result: Result<Vec<Content>, ToolError>, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Failed, "{error}");
    assert!(error.message().contains(says), "{error}");
}
