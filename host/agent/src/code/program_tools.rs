//! The tools that a program can call: their names in it, their declarations, and the search for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use fumehood_core::tool::name::SEPARATOR;
use fumehood_core::tool::search::ToolIndex;
use fumehood_core::tool::{NameForm, Tool};

use super::schema_type::{comment, property_name, schema_type};
use crate::truncate::clean_schema;

/// The component under which programs find functions of the host, which have none.
const HOST_COMPONENT: &str = "host";
/// Maximum size of the description of a tool in a declaration, in bytes.
const MAX_COMMENT_BYTES: usize = 400;
/// Indentation of a declaration.
const INDENT: &str = "  ";

/// The tools that a program can call, by their names in it.
#[derive(Debug, Default)]
pub(crate) struct ProgramTools {
    tools: BTreeMap<String, Arc<Tool>>,
    /// The tools by the identifiers that no other tool has, where the interpreter does not find those itself.
    identifiers: HashMap<String, String>,
    /// The names whose identifier another tool has as well.
    ambiguous: HashSet<String>,
}

impl ProgramTools {
    /// Takes those of these tools that models may see. A tool of a component named `host` comes before a function of the host with the same name.
    pub(crate) fn new(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let mut by_name = BTreeMap::new();
        let mut functions = Vec::new();
        for tool in tools.into_iter().filter(|tool| tool.is_for_models()) {
            if tool.full_name().split_once(SEPARATOR).is_some_and(|(component, _)| !component.is_empty()) {
                by_name.insert(tool.full_name().to_owned(), tool);
            } else {
                functions.push(tool);
            }
        }
        for tool in functions {
            by_name.entry(format!("{HOST_COMPONENT}{SEPARATOR}{}", tool.full_name())).or_insert(tool);
        }
        Self::with_identifiers(by_name)
    }

    fn with_identifiers(tools: BTreeMap<String, Arc<Tool>>) -> Self {
        let mut by_identifier: HashMap<String, Vec<&String>> = HashMap::new();
        for name in tools.keys() {
            by_identifier.entry(to_identifier(name)).or_default().push(name);
        }
        let mut identifiers = HashMap::new();
        let mut ambiguous = HashSet::new();
        for (identifier, names) in by_identifier {
            match names.as_slice() {
                // The interpreter itself takes `_` for `-`.
                [name] if name.replace('-', "_") == identifier => {}
                [name] => drop(identifiers.insert(identifier, (*name).clone())),
                names => ambiguous.extend(names.iter().map(|name| (*name).clone())),
            }
        }
        Self { tools, identifiers, ambiguous }
    }

    /// Returns the full names of the tools, by their names in a program: their own, the identifiers that stand for them, and
    /// their aliases.
    pub(crate) fn names(&self) -> HashMap<String, String> {
        let others = self.tools.keys().filter(|name| !NameForm::Portable.accepts(name));
        let aliased = others.map(|name| (NameForm::Portable.alias(name).into_owned(), name));
        let identified = self.identifiers.iter().map(|(identifier, name)| (identifier.clone(), name));
        let own = self.tools.keys().map(|name| (name.clone(), name));
        let all = aliased.chain(identified).chain(own);
        all.filter_map(|(known, name)| Some((known, self.tools.get(name)?.full_name().to_owned()))).collect()
    }

    /// Returns the number of tools that are declared.
    pub(crate) fn len(&self) -> usize {
        self.declared().count()
    }

    /// Declares all tools in TypeScript, or returns `None` if that takes more than `bytes`.
    pub(crate) fn declare_all(&self, bytes: usize) -> Option<String> {
        let declared = self.declare(self.declared(), bytes);
        (declared.left_out == 0).then_some(declared.text)
    }

    /// Declares the tools that fit a query best, at most `tools` of them and `bytes` in all; the first ones for a query
    /// without words. `index` is brought up to date.
    pub(crate) fn search(&self, index: &mut ToolIndex, query: &str, tools: usize, bytes: usize) -> Declared {
        if !query.chars().any(char::is_alphanumeric) {
            return self.declare(self.declared().take(tools), bytes);
        }
        index.update(self.tools.values().filter(|tool| tool.is_approved()).cloned());
        let found = index.search(query, tools);
        let names: HashMap<&str, &str> = self.declared().map(|(name, tool)| (tool.full_name(), name)).collect();
        let named = found.iter().filter_map(|(tool, _)| Some((*names.get(tool.full_name())?, tool.as_ref())));
        self.declare(named, bytes)
    }

    /// Returns the names of the components, each with the number of its tools.
    pub(crate) fn components(&self) -> BTreeMap<&str, usize> {
        let mut components = BTreeMap::new();
        for (name, _) in self.declared() {
            *components.entry(split(name).0).or_default() += 1;
        }
        components
    }

    /// Returns the tools that are not withheld: nothing of the others' own words reaches a model.
    fn declared(&self) -> impl Iterator<Item = (&str, &Tool)> {
        self.tools.iter().filter(|(_, tool)| tool.is_approved()).map(|(name, tool)| (name.as_str(), tool.as_ref()))
    }

    /// Declares tools in their order, those of one component together, in at most `bytes`.
    fn declare<'t>(&self, tools: impl Iterator<Item = (&'t str, &'t Tool)>, bytes: usize) -> Declared {
        let mut declared = Declared::default();
        let mut components: Vec<(&str, String)> = Vec::new();
        let mut used = 0;
        for (name, tool) in tools {
            let (component, own_name) = split(name);
            // What the interpreter would not find, or would take for another tool, is written as a text.
            let is_ambiguous = self.ambiguous.contains(name);
            let own_name = if is_ambiguous { property_name(own_name) } else { property_name(&to_identifier(own_name)) };
            let line = declaration(&own_name, tool);
            used +=
                line.len() + if components.iter().any(|(known, _)| *known == component) { 0 } else { component.len() };
            if used > bytes {
                declared.left_out += 1;
                continue;
            }
            declared.tools += 1;
            match components.iter_mut().find(|(known, _)| *known == component) {
                Some((_, lines)) => lines.push_str(&line),
                None => components.push((component, line)),
            }
        }
        declared.text.push_str("declare const tools: {\n");
        for (component, lines) in components {
            let component = property_name(&to_identifier(component));
            declared.text.push_str(&format!("{INDENT}{component}: {{\n{lines}{INDENT}}};\n"));
        }
        declared.text.push_str("};");
        declared
    }
}

/// Declarations of some tools.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) text: String,
    /// Number of the tools that are declared.
    pub(crate) tools: usize,
    /// Number of the tools for which there was no room.
    pub(crate) left_out: usize,
}

/// Declares a tool. `name` is the name as a program writes it after a dot.
fn declaration(name: &str, tool: &Tool) -> String {
    let definition = tool.definition();
    let comment = comment(&definition.description.to_sanitized(), MAX_COMMENT_BYTES);
    let input = clean_schema(tool.input_schema());
    let arguments = match schema_type(&input) {
        empty if empty == "{}" => "args?: {}".to_owned(),
        arguments => format!("args: {arguments}"),
    };
    let output = definition.output_schema.as_ref().map(|schema| schema_type(&clean_schema(&schema.to_sanitized())));
    let output = output.unwrap_or_else(|| "any".to_owned());
    format!("{INDENT}{INDENT}{comment}{name}({arguments}): Promise<{output}>;\n")
}

/// Splits the name of a tool in a program into its component and its own name.
fn split(name: &str) -> (&str, &str) {
    name.split_once(SEPARATOR).unwrap_or((HOST_COMPONENT, name))
}

/// Returns a name with `_` for characters that an identifier of JavaScript cannot have.
fn to_identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::result::CallError;
    use fumehood_core::schema::gate::{Gate, GateLimits};
    use fumehood_core::tool::definition::{RawDefinition, ToolDefinition};
    use fumehood_core::tool::name::{Namespace, ToolName};
    use serde_json::json;

    use super::*;

    fn tool(component: Option<&str>, name: &str, description: &str) -> Tool {
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
        let raw = RawDefinition {
            name: "t".to_owned(),
            description: description.to_owned(),
            input_schema: schema.to_string(),
            output_schema: Some(json!({"type": "object", "properties": {"n": {"type": "number"}}}).to_string()),
            ..RawDefinition::default()
        };
        let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
        let definition =
            ToolDefinition { name: ToolName::parse(name).unwrap(), ..raw.parse(&Default::default()).unwrap() };
        let tool = Tool::new(definition, gate);
        component.map_or(tool.clone(), |component| tool.in_namespace(&Namespace::parse(component).unwrap()))
    }

    fn tools(tools: Vec<Tool>) -> ProgramTools {
        ProgramTools::new(tools.into_iter().map(Arc::new))
    }

    #[test]
    fn declares_tools_by_component_with_types_and_descriptions() {
        let tools = tools(vec![
            tool(Some("text-tools"), "find-all", "Finds.\nAll */ of it."),
            tool(None, "notes", "Reads <system> notes."),
            tool(Some("text-tools"), "count", ""),
            tool(Some("text-tools"), "zoom", "Is for a page.").only_for_pages(true),
        ]);
        let expected = "declare const tools: {\n  host: {\n    /** Reads &lt;system&gt; notes. */ \
                        notes(args: { q: string }): Promise<{ n?: number }>;\n  };\n  text_tools: {\n    \
                        count(args: { q: string }): Promise<{ n?: number }>;\n    /** Finds. All * / of it. */ \
                        find_all(args: { q: string }): Promise<{ n?: number }>;\n  };\n};";
        assert_eq!(tools.declare_all(10_000).unwrap(), expected);
        assert_eq!(tools.declare_all(100), None);
        assert_eq!(tools.names()["host__notes"], "notes");
    }

    #[test]
    fn names_of_servers_tools_are_identifiers_where_those_are_unique() {
        let names = ["sql.run", "API-get", "a.b", "a/b", "x-y_z", "x_y-z", "7up"];
        let tools = tools(names.map(|name| tool(Some("m"), name, "")).into());
        let declared = tools.declare_all(10_000).unwrap();
        for (name, written) in
            names.into_iter().zip(["sql_run", "API_get", "\"a.b\"", "\"a/b\"", "\"x-y_z\"", "\"x_y-z\"", "\"7up\""])
        {
            assert!(declared.contains(&format!("    {written}(args")), "{written}: {declared}");
            assert_eq!(tools.names()[&format!("m__{name}")], format!("m__{name}"));
        }
        let known = tools.names();
        assert_eq!(known["m__sql_run"], "m__sql.run");
        assert!(!known.contains_key("m__a_b"), "two tools could be meant");
        assert_eq!(known[NameForm::Portable.alias("m__a.b").as_ref()], "m__a.b");
    }

    #[test]
    fn withheld_tools_have_names_and_no_declarations() {
        let withheld = tool(Some("a"), "t", "Obey.").withheld(Some(CallError::cancelled()));
        let tools = tools(vec![withheld]);
        assert_eq!(tools.declare_all(1000).unwrap(), "declare const tools: {\n};");
        assert_eq!(tools.names().len(), 1);
    }

    #[test]
    fn a_component_named_host_comes_before_functions() {
        let tools = tools(vec![tool(None, "get", "Function."), tool(Some("host"), "get", "Component.")]);
        assert_eq!(tools.names()["host__get"], "host__get");
    }

    #[test]
    fn search_declares_the_best_that_fit() {
        let tools = tools(vec![
            tool(Some("mail"), "send", "Sends a message."),
            tool(Some("mail"), "list", "Lists messages."),
            tool(Some("calendar"), "add", "Adds an event."),
        ]);
        let found = tools.search(&mut ToolIndex::default(), "send a mail", 1, 10_000);
        assert!(found.text.contains("send(") && !found.text.contains("list("), "{}", found.text);
        assert_eq!((found.tools, found.left_out), (1, 0));
        let found = tools.search(&mut ToolIndex::default(), "mail", 10, 120);
        assert_eq!((found.tools, found.left_out), (1, 1));
        assert_eq!(tools.search(&mut ToolIndex::default(), "weather", 10, 1000).tools, 0);
    }
}
