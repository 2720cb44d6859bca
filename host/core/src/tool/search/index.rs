//! An index of tools by their words, ranked by BM25 (Robertson and Zaragoza, 2009) over weighted fields.
//!
//! Nothing of a tool's own words leaves the index: a match is the tool itself. The order of matches depends only on the
//! tools and the query, and not on the order in which they were added.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::words::for_each_word;
use crate::text::sanitize::truncate_str;
use crate::tool::Tool;

/// Weight of a word in the name of a tool, and in that of its component or server.
const NAME_WEIGHT: u32 = 4;
/// Weight of a word in the title.
const TITLE_WEIGHT: u32 = 2;
/// Weight of a word in the description or in the name of a parameter.
const TEXT_WEIGHT: u32 = 1;
/// The parameter `k1`: how soon more occurrences of a word stop to count.
const K1: f32 = 1.2;
/// The parameter `b`: how much the length of a description counts.
const B: f32 = 0.6;
/// Part of a word's weight that another word for the same thing has.
const SYNONYM_WEIGHT: f32 = 0.35;

/// Maximum length of a query, in bytes. The rest is not read.
const MAX_QUERY_BYTES: usize = 1024;
/// Maximum number of different words of a query.
const MAX_QUERY_WORDS: usize = 32;
/// Maximum depth of a schema to which names of parameters are read.
const MAX_SCHEMA_DEPTH: usize = 6;
/// Maximum number of words of one tool. Descriptions of tools have fewer.
const MAX_TOOL_WORDS: usize = 2048;

/// Words that names of tools use for one thing, each group in the form in which words are compared.
const SYNONYMS: [&[&str]; 16] = [
    &["creat", "add", "new", "mak", "insert"],
    &["delet", "remov", "eras", "drop"],
    &["get", "read", "fetch", "show", "retriev", "view"],
    &["list", "enumerat", "show", "brows"],
    &["search", "find", "queri", "lookup", "look"],
    &["updat", "edit", "modifi", "chang", "renam"],
    &["send", "post", "publish", "messag"],
    &["run", "execut", "start", "launch", "trigger", "invok"],
    &["email", "mail"],
    &["folder", "directori"],
    &["imag", "pictur", "photo"],
    &["repo", "repositori"],
    &["pric", "cost"],
    &["event", "meet", "appointment"],
    &["web", "internet"],
    &["stop", "shut", "end"],
];

/// An occurrence of a word: the tool, and the sum of the weights of the fields that have it.
struct Posting {
    slot: u32,
    weight: u32,
}

/// An indexed tool.
struct Entry {
    tool: Arc<Tool>,
    /// Ids of its words, each once.
    words: Vec<u32>,
    /// Sum of the weights of all its words.
    length: u32,
}

/// An index of tools, to find those that fit a query in words.
#[derive(Default)]
pub struct ToolIndex {
    words: HashMap<Box<str>, u32>,
    /// The tools of each word, by the id of the word.
    postings: Vec<Vec<Posting>>,
    entries: Vec<Option<Entry>>,
    slots: BTreeMap<String, u32>,
    free: Vec<u32>,
    /// Sum of the lengths of all entries.
    total: u64,
}

impl fmt::Debug for ToolIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolIndex").field("tools", &self.slots.len()).finish_non_exhaustive()
    }
}

impl ToolIndex {
    /// Creates an index of these tools.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood_core::schema::gate::{Gate, GateLimits};
    /// use fumehood_core::tool::Tool;
    /// use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
    /// use fumehood_core::tool::search::ToolIndex;
    ///
    /// let tool = |name: &str, description: &str| {
    ///     let raw = RawDefinition {
    ///         name: name.to_owned(),
    ///         description: description.to_owned(),
    ///         input_schema: "{}".to_owned(),
    ///         ..RawDefinition::default()
    ///     };
    ///     let definition = raw.parse(&DefinitionLimits::default()).unwrap();
    ///     let gate = Gate::for_arguments(&serde_json::json!({}), GateLimits::default()).unwrap();
    ///     Arc::new(Tool::new(definition, gate))
    /// };
    /// let index = ToolIndex::new([tool("read_file", "Reads a file."), tool("now", "Tells the time.")]);
    /// let found = index.search("which tool reads files?", 5);
    /// assert_eq!(found[0].0.full_name(), "read_file");
    /// ```
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let mut index = Self::default();
        index.update(tools);
        index
    }

    /// Makes these the tools of the index. Only those that differ are indexed; of several with one name, the first
    /// counts.
    pub fn update(&mut self, tools: impl IntoIterator<Item = Arc<Tool>>) {
        let mut seen = HashSet::new();
        let mut changed = Vec::new();
        for tool in tools {
            if !seen.insert(tool.full_name().to_owned()) {
                continue;
            }
            let is_known = self.entry(tool.full_name()).is_some_and(|entry| Arc::ptr_eq(&entry.tool, &tool));
            if !is_known {
                changed.push(tool);
            }
        }
        let gone: Vec<String> = self.slots.keys().filter(|name| !seen.contains(*name)).cloned().collect();
        for name in &gone {
            self.remove(name);
        }
        for tool in changed {
            self.remove(tool.full_name());
            self.insert(tool);
        }
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns at most `limit` tools that have a word of the query, the best first, with their scores.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<(Arc<Tool>, f32)> {
        self.search_among(query, limit, |_| true)
    }

    /// Like [`ToolIndex::search`], for the tools that `is_included` accepts.
    #[must_use]
    pub fn search_among(
        &self,
        query: &str,
        limit: usize,
        is_included: impl Fn(&Tool) -> bool,
    ) -> Vec<(Arc<Tool>, f32)> {
        let mut scratch = Scratch::new(self.entries.len());
        for word in query_words(query) {
            self.score_word(&word, &mut scratch);
        }
        let scored = self.entries.iter().zip(scratch.scores).filter(|(_, score)| *score > 0.0);
        let mut found: Vec<(&Arc<Tool>, f32)> = scored
            .filter_map(|(entry, score)| Some((&entry.as_ref()?.tool, score)))
            .filter(|(tool, _)| is_included(tool))
            .collect();
        if limit < found.len() {
            let _ = found.select_nth_unstable_by(limit, by_rank);
            found.truncate(limit);
        }
        found.sort_unstable_by(by_rank);
        found.into_iter().map(|(tool, score)| (Arc::clone(tool), score)).collect()
    }

    /// Adds what a word of a query is worth to the score of each tool. Of the word and its synonyms, the best counts, and
    /// the most frequent decides how rare all of them are.
    fn score_word(&self, word: &str, scratch: &mut Scratch) {
        let own = [(self.postings_of(word), 1.0)];
        let all = own.into_iter().chain(synonyms(word).map(|other| (self.postings_of(other), SYNONYM_WEIGHT)));
        let all: Vec<(&[Posting], f32)> = all.collect();
        let with = all.iter().map(|(postings, _)| postings.len()).max().unwrap_or_default() as f32;
        let count = self.slots.len() as f32;
        let rarity = (1.0 + (count - with + 0.5) / (with + 0.5)).ln();
        let average = (self.total as f32 / count.max(1.0)).max(1.0);
        for (postings, share) in all {
            for Posting { slot, weight } in postings {
                let Some(Some(entry)) = self.entries.get(*slot as usize) else { continue };
                let weight = *weight as f32;
                let length = entry.length as f32;
                let saturated = weight * (K1 + 1.0) / (weight + K1 * (1.0 - B + B * length / average));
                scratch.raise(*slot, rarity * saturated * share);
            }
        }
        scratch.end_word();
    }

    fn postings_of(&self, word: &str) -> &[Posting] {
        let postings = self.words.get(word).and_then(|id| self.postings.get(*id as usize));
        postings.map(Vec::as_slice).unwrap_or_default()
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(*self.slots.get(name)? as usize)?.as_ref()
    }

    fn insert(&mut self, tool: Arc<Tool>) {
        let weights = weigh_words(&tool);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let mut words = Vec::with_capacity(weights.len());
        let mut length = 0_u32;
        for (word, weight) in weights {
            let next = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
            let id = *self.words.entry(word.into_boxed_str()).or_insert(next);
            if id == next {
                self.postings.push(Vec::new());
            }
            if let Some(postings) = self.postings.get_mut(id as usize) {
                postings.push(Posting { slot, weight });
            }
            words.push(id);
            length = length.saturating_add(weight);
        }
        self.total += u64::from(length);
        self.slots.insert(tool.full_name().to_owned(), slot);
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            *entry = Some(Entry { tool, words, length });
        }
    }

    fn remove(&mut self, name: &str) {
        let Some(slot) = self.slots.remove(name) else { return };
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) else { return };
        for id in entry.words {
            if let Some(postings) = self.postings.get_mut(id as usize) {
                postings.retain(|posting| posting.slot != slot);
            }
        }
        self.total -= u64::from(entry.length);
        self.free.push(slot);
    }
}

/// Scores of a search, by slot.
struct Scratch {
    scores: Vec<f32>,
    /// Scores of the current word alone; zero except for `touched`.
    best: Vec<f32>,
    touched: Vec<u32>,
}

impl Scratch {
    fn new(slots: usize) -> Self {
        Self { scores: vec![0.0; slots], best: vec![0.0; slots], touched: Vec::new() }
    }

    /// Raises the score of the current word for a slot to `score`.
    fn raise(&mut self, slot: u32, score: f32) {
        if let Some(best) = self.best.get_mut(slot as usize) {
            if *best == 0.0 {
                self.touched.push(slot);
            }
            *best = best.max(score);
        }
    }

    fn end_word(&mut self) {
        for slot in self.touched.drain(..) {
            if let (Some(sum), Some(best)) = (self.scores.get_mut(slot as usize), self.best.get_mut(slot as usize)) {
                *sum += std::mem::take(best);
            }
        }
    }
}

/// Compares two matches: the higher score first, and equal ones by their names.
fn by_rank(a: &(&Arc<Tool>, f32), b: &(&Arc<Tool>, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then_with(|| a.0.full_name().cmp(b.0.full_name()))
}

/// Returns the words of a query, each once, in order.
fn query_words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for_each_word(truncate_str(query, MAX_QUERY_BYTES), |word| {
        if words.len() < MAX_QUERY_WORDS && words.iter().all(|known| known != word) {
            words.push(word.to_owned());
        }
    });
    words
}

/// Returns the other words for the same thing.
fn synonyms(word: &str) -> impl Iterator<Item = &'static str> {
    let groups = SYNONYMS.iter().filter(move |group| group.contains(&word));
    groups.flat_map(|group| group.iter()).copied().filter(move |other| *other != word)
}

/// Returns the words of a tool with the sums of their weights, in alphabetical order. A tool that is withheld has those
/// of its name alone, because nobody approved of the others.
fn weigh_words(tool: &Tool) -> BTreeMap<String, u32> {
    let mut words = WeightedWords { weights: BTreeMap::new(), left: MAX_TOOL_WORDS };
    words.add(tool.full_name(), NAME_WEIGHT);
    if tool.is_approved() {
        let definition = tool.definition();
        if let Some(title) = &definition.title {
            words.add(&title.to_sanitized(), TITLE_WEIGHT);
        }
        words.add(&definition.description.to_sanitized(), TEXT_WEIGHT);
        for_each_parameter(tool.input_schema(), 0, &mut |name| words.add(name, TEXT_WEIGHT));
    }
    words.weights
}

/// The words of one tool with their weights. Further words than the maximum are left out.
struct WeightedWords {
    weights: BTreeMap<String, u32>,
    left: usize,
}

impl WeightedWords {
    fn add(&mut self, text: &str, weight: u32) {
        for_each_word(text, |word| {
            if self.left > 0 {
                self.left -= 1;
                *self.weights.entry(word.to_owned()).or_insert(0) += weight;
            }
        });
    }
}

/// Calls `take` with the name of each property of a schema, also of nested ones.
fn for_each_parameter(schema: &Value, depth: usize, take: &mut impl FnMut(&str)) {
    let Some(schema) = schema.as_object().filter(|_| depth < MAX_SCHEMA_DEPTH) else { return };
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        take(name);
        for_each_parameter(inner, depth + 1, take);
    }
    if let Some(items) = schema.get("items") {
        for_each_parameter(items, depth + 1, take);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for inner in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            for_each_parameter(inner, depth + 1, take);
        }
    }
    for inner in schema.get("$defs").and_then(Value::as_object).into_iter().flatten().map(|(_, inner)| inner) {
        for_each_parameter(inner, depth + 1, take);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::call::error_kind::ErrorKind;
    use crate::call::result::CallError;
    use crate::schema::gate::{Gate, GateLimits};
    use crate::tool::definition::{DefinitionLimits, RawDefinition};
    use crate::tool::name::Namespace;

    fn build(name: &str, description: &str, schema: Value) -> Tool {
        let raw = RawDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: schema.to_string(),
            ..RawDefinition::default()
        };
        let definition = raw.parse(&DefinitionLimits::default()).unwrap();
        Tool::new(definition, Gate::for_arguments(&schema, GateLimits::default()).unwrap())
    }

    fn tool(name: &str, description: &str) -> Arc<Tool> {
        Arc::new(build(name, description, json!({})))
    }

    fn names(found: &[(Arc<Tool>, f32)]) -> Vec<&str> {
        found.iter().map(|(tool, _)| tool.full_name()).collect()
    }

    #[test]
    fn finds_tools_by_name_description_and_parameters() {
        let schema = json!({"type": "object", "properties": {
            "latitude": {"type": "number"},
            "place": {"type": "object", "properties": {"postcode": {"type": "string"}}},
        }});
        let index = ToolIndex::new([
            Arc::new(build("forecast", "Predicts rain.", schema)),
            tool("read_file", "Reads a document."),
            Arc::new(build("list", "Lists records.", json!({})).in_namespace(&Namespace::parse("tickets").unwrap())),
        ]);
        let check = |query: &str, expected: &[&str]| assert_eq!(names(&index.search(query, 5)), expected, "{query}");
        check("latitude", &["forecast"]);
        check("postcodes", &["forecast"]);
        check("documents", &["read_file"]);
        check("ticket", &["tickets__list"]);
        check("nothing of this", &[]);
        check("", &[]);
    }

    #[test]
    fn name_counts_more_than_description() {
        let index = ToolIndex::new([
            tool("archive", "Copies mail and mail again into one file of mail."),
            tool("mail", "Delivers a letter."),
        ]);
        assert_eq!(names(&index.search("mail", 2)), ["mail", "archive"]);
    }

    #[test]
    fn other_words_for_an_action_count_less_than_its_own() {
        let index = ToolIndex::new([tool("delete_row", "Deletes a row."), tool("remove_row", "Removes a row.")]);
        assert_eq!(names(&index.search("remove row", 2)), ["remove_row", "delete_row"]);
        assert_eq!(names(&index.search("erase row", 2)), ["delete_row", "remove_row"]);
    }

    #[test]
    fn equal_matches_are_in_the_order_of_their_names() {
        let index = ToolIndex::new(["c", "a", "d", "b"].map(|name| tool(name, "The same.")));
        assert_eq!(names(&index.search("same", 10)), ["a", "b", "c", "d"]);
        assert_eq!(names(&index.search("same", 2)), ["a", "b"]);
        assert_eq!(names(&index.search("same", 0)), [""; 0]);
    }

    #[test]
    fn withheld_tool_is_found_by_its_name_alone() {
        let withheld = build("read_file", "Reads secrets.", json!({}));
        let index = ToolIndex::new([Arc::new(withheld.withheld(Some(CallError::new(ErrorKind::NeedsApproval, "no"))))]);
        assert_eq!(names(&index.search("secrets", 5)), [""; 0]);
        assert_eq!(names(&index.search("file", 5)), ["read_file"]);
    }

    #[test]
    fn only_included_tools_are_returned() {
        let index = ToolIndex::new([tool("read_a", "A file."), tool("read_b", "A file.")]);
        let found = index.search_among("read", 1, |tool| tool.full_name() == "read_b");
        assert_eq!(names(&found), ["read_b"]);
    }

    proptest! {
        #[test]
        fn updated_index_answers_as_a_new_one(
            rounds in prop::collection::vec(prop::collection::btree_map("[a-f]", "([a-d]{2,3} ?){0,6}", 0..6), 1..6),
            query in "([a-d]{2,3} ?){0,4}",
        ) {
            let mut updated = ToolIndex::default();
            for round in rounds {
                let tools: Vec<_> = round.iter().map(|(name, text)| tool(name, text)).collect();
                updated.update(tools.iter().cloned());
                updated.update(tools.iter().cloned());
                let (new, limit) = (ToolIndex::new(tools.iter().rev().cloned()), 4);
                let both = [updated.search(&query, limit), new.search(&query, limit)];
                let [a, b] = both.map(|found| {
                    found.iter().map(|(tool, score)| (tool.full_name().to_owned(), *score)).collect::<Vec<_>>()
                });
                prop_assert_eq!(a, b);
                prop_assert_eq!(updated.len(), tools.len());
            }
        }

        #[test]
        fn survives_any_text(description in any::<String>(), query in any::<String>()) {
            let description: String = description.chars().take(500).collect();
            let _ = ToolIndex::new([tool("a", &description)]).search(&query, 5);
        }
    }
}
