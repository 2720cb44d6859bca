//! Tool calls of OpenAI's form, whose pieces servers label in many ways.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{is_significant, take_list, text_of};

/// The fields with the arguments of a call. The first is the usual one.
pub(super) const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];

/// The ids of the calls of one reply, so that no two calls have the same.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    taken: HashSet<String>,
    made: usize,
}

impl CallIds {
    /// Creates ids that the calls of other replies in a conversation do not have either.
    pub(super) fn random() -> Self {
        let made = u32::try_from(getrandom::u64().unwrap_or_default() >> 32).unwrap_or_default();
        Self { taken: HashSet::new(), made: made as usize }
    }

    /// Returns the id of a new call: its own, or one of `make` if it has none or another call has it.
    pub(super) fn assign(&mut self, own: &str, make: impl Fn(usize) -> String) -> String {
        let mut id = own.to_owned();
        while id.is_empty() || !self.taken.insert(id.clone()) {
            id = make(self.made);
            self.made = self.made.saturating_add(1);
        }
        id
    }
}

/// The calls of a reply so far. Each piece is matched to its call, and labelled with an index and an id that no other call of
/// the reply has.
///
/// A piece belongs to the call with its index, or else its id, or else to the last call. It begins a new call if it has a name
/// and
///
/// - neither an index nor an id of an earlier call (a name without either goes on with the last call if that has an id),
/// - the index of an earlier call, and another id, or
/// - arguments, although those of its call are complete.
#[derive(Debug, Default)]
pub(super) struct CallTracker {
    calls: Vec<Call>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    ids: CallIds,
}

#[derive(Debug, Default)]
struct Call {
    /// The id that the provider sent; empty so far if it sent none.
    own_id: String,
    /// The id for the library.
    id: String,
    name: String,
    arguments: String,
    scanner: Scanner,
}

/// A piece of a call, as it was sent.
#[derive(Debug)]
struct Piece {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// The call that a piece belongs to.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    New,
    Existing(usize),
    /// The piece repeats its whole call.
    Repeated,
}

impl CallTracker {
    /// Creates a tracker that takes the ids of calls without their own from these.
    pub(super) fn new(ids: CallIds) -> Self {
        Self { ids, ..Self::default() }
    }

    /// Returns whether the reply has no calls so far.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Translates the pieces of one event.
    pub(super) fn translate(&mut self, pieces: Vec<Value>) -> Vec<Value> {
        pieces.into_iter().filter_map(Piece::read).filter_map(|piece| self.translate_piece(piece)).collect()
    }

    fn translate_piece(&mut self, piece: Piece) -> Option<Value> {
        let at = match self.place(&piece) {
            Place::Repeated => return None,
            Place::Existing(at) => at,
            Place::New => {
                let id = self.ids.assign(&piece.id, |number| format!("call_{number}"));
                self.calls.push(Call { id, ..Call::default() });
                self.calls.len().saturating_sub(1)
            }
        };
        let call = self.calls.get_mut(at)?;
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        if call.own_id.is_empty() && !piece.id.is_empty() {
            self.by_id.insert(piece.id.clone(), at);
            call.own_id = piece.id;
        }
        let name = call.take_name(&piece.name);
        call.scanner.scan(&piece.arguments);
        call.arguments.push_str(&piece.arguments);
        let function = json!({"name": name, "arguments": piece.arguments});
        Some(json!({"index": at, "id": call.id, "type": "function", "function": function}))
    }

    fn place(&self, piece: &Piece) -> Place {
        let is_named = !piece.name.is_empty();
        let by_index = piece.index.and_then(|index| self.by_index.get(&index).copied());
        let by_id = self.by_id.get(&piece.id).copied();
        let found = match (piece.index, by_index) {
            (_, Some(at)) if self.has_other_id(at, piece, by_id.is_some()) => by_id,
            (_, Some(at)) => Some(at),
            // A new index begins a call, unless nothing else does.
            (Some(_), None) if is_named || (!piece.id.is_empty() && by_id.is_none()) => None,
            (None, None) if is_named => by_id.or_else(|| self.last_with_id(piece)),
            (_, None) => by_id.or(self.calls.len().checked_sub(1)),
        };
        let Some((at, call)) = found.and_then(|at| Some((at, self.calls.get(at)?))) else { return Place::New };
        if is_named && call.is_complete() && !piece.arguments.is_empty() {
            let is_same = by_index == Some(at) && !piece.id.is_empty() && piece.id == call.own_id;
            return if is_same && piece.arguments == call.arguments { Place::Repeated } else { Place::New };
        }
        Place::Existing(at)
    }

    /// Returns the last call for a piece without an id, if the server gives ids to calls.
    fn last_with_id(&self, piece: &Piece) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let has_id = self.calls.get(last).is_some_and(|call| !call.own_id.is_empty());
        (has_id && piece.id.is_empty()).then_some(last)
    }

    /// Returns whether a piece with the index of a call belongs to another one, by its id. A server may send another id with
    /// every piece, so that a piece which goes on within the arguments stays.
    fn has_other_id(&self, at: usize, piece: &Piece, is_known: bool) -> bool {
        let Some(call) = self.calls.get(at) else { return false };
        if piece.id.is_empty() || call.own_id.is_empty() || piece.id == call.own_id {
            return false;
        }
        let goes_on = !call.arguments.is_empty() && !call.is_complete() && piece.name == call.name;
        is_known || !(piece.name.is_empty() || goes_on)
    }
}

impl Call {
    /// Adds a piece of the name. Returns the part that is new: some servers repeat the name, or all of it so far.
    fn take_name<'a>(&mut self, piece: &'a str) -> &'a str {
        let has_name = !self.name.is_empty();
        if has_name && (piece == self.name || !self.arguments.is_empty()) {
            return "";
        }
        let fresh = if has_name { piece.strip_prefix(self.name.as_str()).unwrap_or(piece) } else { piece };
        self.name.push_str(fresh);
        fresh
    }

    fn is_complete(&self) -> bool {
        self.scanner.is_complete || self.arguments == "null"
    }
}

impl Piece {
    /// Reads a piece. Its function may be a field, the JSON text of a field, or the piece itself with its name in that field.
    fn read(entry: Value) -> Option<Self> {
        let Value::Object(mut entry) = entry else { return None };
        let index = entry.get("index").and_then(|index| match index {
            Value::String(text) => text.trim().parse().ok(),
            index => index.as_u64(),
        });
        let id = match entry.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => String::new(),
        };
        let mut function = match entry.remove("function") {
            Some(Value::Object(function)) => function,
            Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_else(|_| {
                entry.entry("name").or_insert(Value::String(text));
                entry
            }),
            _ => entry,
        };
        let arguments = take_arguments(&mut function);
        Some(Self { index, id, name: text_of(&function, "name").to_owned(), arguments })
    }
}

/// Takes the entries of a list of calls out of a field. The list may be an object whose fields are the entries.
pub(super) fn take_calls(object: &mut Map<String, Value>, field: &str) -> Vec<Value> {
    match object.get_mut(field) {
        Some(Value::Object(list)) if is_map_of_calls(list) => {
            std::mem::take(list).into_iter().map(|(_, call)| call).collect()
        }
        _ => take_list(object, field),
    }
}

/// Returns whether the members of an object are calls, so that it is not a call itself.
fn is_map_of_calls(list: &Map<String, Value>) -> bool {
    !list.contains_key("function") && !list.contains_key("name") && list.values().all(Value::is_object)
}

/// Takes the arguments as text; empty if there are none.
fn take_arguments(function: &mut Map<String, Value>) -> String {
    match ARGUMENTS.iter().find_map(|field| function.remove(*field)) {
        Some(Value::String(text)) => text,
        Some(value) if is_significant(&value) => value.to_string(),
        _ => String::new(),
    }
}

/// A scanner for the end of a JSON object, list or text.
#[derive(Debug, Default)]
struct Scanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    is_complete: bool,
}

impl Scanner {
    fn scan(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                let ends = byte == b'"' && !self.is_escaped;
                self.is_escaped = byte == b'\\' && !self.is_escaped;
                self.in_string = !ends;
                self.is_complete |= ends && self.depth == 0;
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_complete |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Translates these pieces, one in each event. Returns the calls that the library reads.
    fn calls(pieces: Value) -> Vec<[String; 3]> {
        let mut tracker = CallTracker::default();
        let mut found: Vec<[String; 3]> = Vec::new();
        for piece in pieces.as_array().unwrap() {
            for piece in tracker.translate(vec![piece.clone()]) {
                let at = piece["index"].as_u64().unwrap() as usize;
                found.resize_with(found.len().max(at + 1), Default::default);
                let text = |pointer: &str| piece.pointer(pointer).unwrap().as_str().unwrap();
                found[at][0] = text("/id").to_owned();
                found[at][1].push_str(text("/function/name"));
                found[at][2].push_str(text("/function/arguments"));
            }
        }
        found
    }

    fn check(pieces: Value, expected: &[[&str; 3]]) {
        let found = calls(pieces.clone());
        assert_eq!(found, expected.iter().map(|call| call.map(str::to_owned)).collect::<Vec<_>>(), "{pieces}");
    }

    fn piece(index: Value, id: Value, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn takes_pieces_together_that_an_index_or_an_id_ties() {
        let one = &[["a", "add", "{\"a\":1}"]];
        let null = Value::Null;
        for (index, id) in [(json!(0), json!("a")), (json!("0"), null.clone()), (null.clone(), json!("a"))] {
            let first = piece(index.clone(), json!("a"), "add", "{\"a\"");
            check(json!([first, piece(index.clone(), id.clone(), "", ":1}")]), one);
            check(json!([first, piece(index.clone(), id.clone(), "add", ":1}")]), one);
            let split =
                [piece(index.clone(), json!("a"), "ad", ""), piece(index.clone(), id.clone(), "d", "{\"a\":1}")];
            check(json!(split), one);
            let grows = [piece(index.clone(), json!("a"), "ad", ""), piece(index, id, "add", "{\"a\":1}")];
            check(json!(grows), one);
        }
        // Another id in every piece.
        check(json!([piece(json!(0), json!("a"), "add", "{\"a\""), piece(json!(0), json!("b"), "", ":1}")]), one);
        check(json!([piece(json!(0), json!("a"), "add", "{\"a\""), piece(json!(0), json!("b"), "add", ":1}")]), one);
        // Only the first piece has an id.
        check(
            json!([piece(null.clone(), json!("a"), "ad", ""), piece(null.clone(), null.clone(), "d", "{\"a\":1}")]),
            one,
        );
        // An id that comes late.
        let late = [piece(json!(0), null.clone(), "add", ""), piece(json!(0), json!("a"), "", "{\"a\":1}")];
        check(json!(late), &[["call_0", "add", "{\"a\":1}"]]);
        check(json!([piece(json!(4_294_967_295_u64), json!("a"), "add", "{\"a\":1}")]), one);
        check(json!([piece(json!(1), json!("a"), "add", ""), piece(json!(7), null, "", "{\"a\":1}")]), one);
    }

    #[test]
    fn tells_calls_apart_that_share_an_index_or_an_id() {
        fn two(first: (Value, Value), second: (Value, Value), ids: [&str; 2]) {
            let pieces = [piece(first.0, first.1, "add", "{\"a\":1}"), piece(second.0, second.1, "add", "{\"a\":2}")];
            check(json!(pieces), &[[ids[0], "add", "{\"a\":1}"], [ids[1], "add", "{\"a\":2}"]]);
        }

        let null = Value::Null;
        two((json!(0), json!("a")), (json!(0), json!("b")), ["a", "b"]);
        two((json!(0), json!("a")), (json!(1), json!("a")), ["a", "call_0"]);
        two((json!(0), json!("a")), (json!(0), json!("a")), ["a", "call_0"]);
        two((null.clone(), json!("a")), (null.clone(), json!("a")), ["a", "call_0"]);
        two((null.clone(), json!("a")), (null.clone(), json!("b")), ["a", "b"]);
        two((json!(0), json!("")), (json!(1), json!("")), ["call_0", "call_1"]);
        two((json!(0), null.clone()), (json!(0), null.clone()), ["call_0", "call_1"]);
        two((null.clone(), null.clone()), (null.clone(), null.clone()), ["call_0", "call_1"]);
        two((null.clone(), json!("a")), (null.clone(), null.clone()), ["a", "call_0"]);
        two((json!(0), json!("call_0")), (json!(1), null), ["call_0", "call_1"]);
        // Interleaved, by index and by id alone.
        for (i, k) in [(json!(0), json!(1)), (json!(0), json!(0)), (Value::Null, Value::Null)] {
            let begin = [piece(i.clone(), json!("a"), "add", ""), piece(k.clone(), json!("b"), "now", "")];
            let rest = [piece(k, json!("b"), "", "{}"), piece(i, json!("a"), "", "{\"a\":1}")];
            check(json!([begin, rest].concat()), &[["a", "add", "{\"a\":1}"], ["b", "now", "{}"]]);
        }
    }

    #[test]
    fn whole_call_that_is_repeated_is_one_call() {
        let whole = piece(json!(0), json!("a"), "add", "{\"a\":1}");
        check(json!([whole, whole, piece(json!(0), json!("a"), "add", "")]), &[["a", "add", "{\"a\":1}"]]);
    }

    #[test]
    fn reads_arguments_of_any_type() {
        for (arguments, expected) in [
            (json!({"a": 1}), "{\"a\":1}"),
            (json!("{\"a\":1}"), "{\"a\":1}"),
            (json!({}), ""),
            (Value::Null, ""),
            (json!([1]), "[1]"),
        ] {
            let function = json!({"name": "add", "arguments": arguments});
            check(json!([{"id": "a", "function": function}]), &[["a", "add", expected]]);
            check(json!([{"id": "a", "name": "add", "arguments": arguments}]), &[["a", "add", expected]]);
            check(json!([{"id": "a", "name": "add", "parameters": arguments}]), &[["a", "add", expected]]);
        }
        check(json!([{"id": 7, "function": {"name": "now"}}, 3, null]), &[["7", "now", ""]]);
        check(json!([{"id": "a", "function": "add", "input": {"a": 1}}]), &[["a", "add", "{\"a\":1}"]]);
        check(
            json!([{"id": "a", "function": "{\"name\":\"add\",\"arguments\":{\"a\":1}}"}]),
            &[["a", "add", "{\"a\":1}"]],
        );
        // Arguments without a call become one, which the agent rejects.
        check(json!([{"function": {"arguments": "{}"}}]), &[["call_0", "", "{}"]]);
    }
}
