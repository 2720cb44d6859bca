//! Core modules of the contract with tools and answers that a test chooses.

use std::fmt::Write as _;

/// A tool as a program describes it. Nothing here is checked, because that is the task of the host.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    /// Name of the tool.
    pub name: String,
    /// Title, a name for people.
    pub title: Option<String>,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, as text.
    pub input_schema: String,
    /// JSON Schema of the results, as text.
    pub output_schema: Option<String>,
    /// The annotation `read-only`; `None` leaves it out.
    pub read_only: Option<bool>,
}

impl ToolDescription {
    /// Creates a tool that accepts any arguments.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: None,
            description: "A tool of a test.".to_owned(),
            input_schema: r#"{"type":"object","additionalProperties":true}"#.to_owned(),
            output_schema: None,
            read_only: None,
        }
    }

    /// Replaces the schema of the arguments.
    #[must_use]
    pub fn taking(self, input_schema: &str) -> Self {
        Self { input_schema: input_schema.to_owned(), ..self }
    }

    /// Sets the schema of the results.
    #[must_use]
    pub fn returning(self, output_schema: &str) -> Self {
        Self { output_schema: Some(output_schema.to_owned()), ..self }
    }
}

/// The answer of every tool of the program.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// `text` content with these bytes, UTF-8 or not.
    Text(&'a [u8]),
    /// `json` content with these bytes.
    Json(&'a [u8]),
    /// `link` content with this text as its URI, title and MIME type.
    Link(&'a str),
    /// This number of `text` contents without text.
    EmptyTexts(usize),
    /// Success without content.
    Nothing,
    /// A failure of this kind (its number in the contract) with this message.
    Failure(u8, &'a str),
}

/// Static data, laid out from the address `base` on.
struct Data {
    bytes: Vec<u8>,
    base: usize,
}

impl Data {
    fn put(&mut self, bytes: &[u8]) -> usize {
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0);
        }
        let at = self.base + self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        at
    }

    fn text(&mut self, text: &[u8]) -> [u32; 2] {
        [u32_of(self.put(text)), u32_of(text.len())]
    }
}

fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the text of a core module of the contract, for [`crate::wrap`].
#[must_use]
pub fn module(tools: &[ToolDescription], answer: Answer<'_>) -> String {
    let mut data = Data { bytes: Vec::new(), base: 4096 };
    let definitions: Vec<u8> = tools.iter().flat_map(|tool| definition(&mut data, tool)).collect();
    let definitions = data.put(&definitions);
    let described = data.put(&words(&[u32_of(definitions), u32_of(tools.len())]));
    let answered = result(&mut data, answer);
    let room = data.base + data.bytes.len();
    let pages = room / 65_536 + 2;
    let mut escaped = String::with_capacity(data.bytes.len() * 3);
    for byte in &data.bytes {
        // Writing to a string does not fail.
        let _ = write!(escaped, "\\{byte:02x}");
    }
    format!(
        r#"(module
  (memory (export "memory") {pages})
  (global $next (mut i32) (i32.const {room}))
  (data (i32.const 4096) "{escaped}")
  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32) (i32.const {described}))
  (func (export "fumehood:tool/tools@0.1.0#call") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const {answered}))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (drop (memory.grow (i32.add (i32.div_u (local.get 3) (i32.const 65536)) (i32.const 1))))
    (local.get $at)))"#
    )
}

/// Returns a `tool-definition`, 56 bytes, and lays out its texts.
fn definition(data: &mut Data, tool: &ToolDescription) -> Vec<u8> {
    let [name, name_len] = data.text(tool.name.as_bytes());
    let [description, description_len] = data.text(tool.description.as_bytes());
    let [input, input_len] = data.text(tool.input_schema.as_bytes());
    let (has_output, [output, output_len]) = match &tool.output_schema {
        Some(schema) => (1, data.text(schema.as_bytes())),
        None => (0, [0, 0]),
    };
    let title = match &tool.title {
        Some(title) => {
            let [title, len] = data.text(title.as_bytes());
            [1, title, len]
        }
        None => [0, 0, 0],
    };
    // Four optional flags of two bytes, the first of them `read-only`.
    let annotations = [tool.read_only.map_or(0, |is| 1 | u32::from(is) << 8), 0];
    let mut fields = vec![name, name_len];
    fields.extend(title);
    fields.extend([description, description_len, input, input_len, has_output, output, output_len]);
    fields.extend(annotations);
    words(&fields)
}

/// Lays out a `result<list<content>, failure>`, 40 bytes, and returns its address.
fn result(data: &mut Data, answer: Answer<'_>) -> usize {
    let fields = match answer {
        Answer::Text(bytes) => ok(data, 0, bytes),
        Answer::Json(bytes) => ok(data, 1, bytes),
        Answer::Link(text) => {
            let [at, len] = data.text(text.as_bytes());
            let part = data.put(&words(&[3, at, len, 1, at, len, 1, at, len]));
            vec![0, 0, u32_of(part), 1]
        }
        Answer::EmptyTexts(number) => {
            let parts = data.put(&vec![0; 36 * number]);
            vec![0, 0, u32_of(parts), u32_of(number)]
        }
        Answer::Nothing => vec![0, 0, 0, 0],
        Answer::Failure(kind, message) => {
            let [message, len] = data.text(message.as_bytes());
            vec![1, 0, u32::from(kind), message, len, 0, 0, 0, 0, 0]
        }
    };
    data.put(&words(&fields))
}

/// Returns the fields of a success with one part, which is laid out in 36 bytes.
fn ok(data: &mut Data, case: u32, bytes: &[u8]) -> Vec<u32> {
    let [text, len] = data.text(bytes);
    let part = data.put(&words(&[case, text, len, 0, 0, 0, 0, 0, 0]));
    vec![0, 0, u32_of(part), 1]
}
