//! Flows of data between tools: which tools return private data, which reach the public, and what follows from that.
//!
//! The decision is coarse: what a tool returned counts as part of everything that is sent later. See docs/flows.md.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use crate::call::history::PastCall;
use crate::capability::CapabilityGrant;
use crate::policy::call::Decision;
use crate::policy::permission::Grant;
use crate::tool::Tool;
pub use crate::tool::ToolFlow;

/// A label of a tool as a source of data, or as a place where data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowLabel {
    /// A source of private data; a sink that only those reach who may see it.
    Private,
    /// A source of data that anybody may see; a sink that others reach.
    Public,
}

/// The labels of a tool, or of all tools of a component or server. What is `None` follows from grants and annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowLabels {
    /// The data that it returns.
    pub source: Option<FlowLabel>,
    /// The place where its arguments go.
    pub sink: Option<FlowLabel>,
}

impl FlowLabels {
    /// Sets the label of the data that it returns.
    #[must_use]
    pub fn source(mut self, label: FlowLabel) -> Self {
        self.source = Some(label);
        self
    }

    /// Sets the label of the place where its arguments go.
    #[must_use]
    pub fn sink(mut self, label: FlowLabel) -> Self {
        self.sink = Some(label);
        self
    }

    /// Returns these labels, with those that are `None` taken from `other`.
    fn or(self, other: Self) -> Self {
        Self { source: self.source.or(other.source), sink: self.sink.or(other.sink) }
    }
}

impl ToolFlow {
    /// Returns the flows of a component with these powers: what is kept on this machine is private, and requests are
    /// public. Private addresses are no exception, because a request to one may be passed on.
    #[must_use]
    pub fn from_grant(grant: &Grant) -> Self {
        let of_capabilities = || grant.capabilities().iter().map(CapabilityGrant::flow);
        let source = grant.source().or_else(|| of_capabilities().find_map(|flow| flow.source));
        let sink = grant.sink().or_else(|| of_capabilities().find_map(|flow| flow.sink));
        Self { source, sink }
    }
}

/// The calls that are judged together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowScope {
    /// All calls of a session: a model carries what one program returned into the next.
    #[default]
    Session,
    /// The calls of a program by those of the same program, and direct calls by those of the session.
    Program,
}

/// A policy for flows of data between tools.
///
/// ```
/// use fumehood_core::flow::{FlowLabel, FlowLabels, FlowPolicy};
///
/// let policy = FlowPolicy::new()
///     .label_component("mail", FlowLabels::default().source(FlowLabel::Private))
///     .label_tool("mail__count", FlowLabels::default().source(FlowLabel::Public));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowPolicy {
    scope: FlowScope,
    is_denied: bool,
    tools: BTreeMap<String, FlowLabels>,
    components: BTreeMap<String, FlowLabels>,
}

impl FlowPolicy {
    /// Creates a policy without labels, which asks about flows within a session.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the calls that are judged together.
    #[must_use]
    pub fn scope(mut self, scope: FlowScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets whether a call that would send private data to the public is denied. By default a person is asked; where nobody can
    /// be asked, the call is refused.
    #[must_use]
    pub fn deny(mut self, is_denied: bool) -> Self {
        self.is_denied = is_denied;
        self
    }

    /// Labels a tool, by its full name. Its labels take precedence over those of its component or server.
    #[must_use]
    pub fn label_tool(mut self, tool: impl Into<String>, labels: FlowLabels) -> Self {
        self.tools.insert(tool.into(), labels);
        self
    }

    /// Labels all tools of a component or server, by its name.
    #[must_use]
    pub fn label_component(mut self, name: impl Into<String>, labels: FlowLabels) -> Self {
        self.components.insert(name.into(), labels);
        self
    }

    /// Returns whether the calls of each program are judged by themselves.
    #[must_use]
    pub fn is_per_program(&self) -> bool {
        self.scope == FlowScope::Program
    }

    /// Returns the full names of the tools that have labels.
    pub fn labelled_tools(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Decides on a call of `tool` after those of `past`: see [`Self::check`].
    pub fn decide<T>(&self, tool: &Tool, past: &[PastCall], find: impl Fn(&str) -> Option<T>) -> Decision<Infallible>
    where
        T: std::ops::Deref<Target = Tool>,
    {
        match self.check(tool, past, find) {
            None => Decision::Allow,
            Some(violation) if self.is_denied => Decision::deny(violation.to_string()),
            Some(violation) => Decision::ask(violation.to_string()),
        }
    }

    /// Returns the violation if `tool` is a public sink, and one of the tools that ran before is a private source.
    /// `find` finds a tool by its full name.
    ///
    /// A tool that is not found any more counts as a private source, because nothing is known of it.
    pub fn check<T>(&self, tool: &Tool, past: &[PastCall], find: impl Fn(&str) -> Option<T>) -> Option<FlowViolation>
    where
        T: std::ops::Deref<Target = Tool>,
    {
        let sink = self.sink_of(tool)?;
        past.iter().find_map(|past| {
            let source = match find(&past.tool) {
                Some(found) => self.source_of(&found)?,
                None => match self.tools.get(&past.tool).and_then(|labels| labels.source) {
                    Some(FlowLabel::Public) => return None,
                    Some(FlowLabel::Private) => LABELLED_SOURCE,
                    None => UNKNOWN_SOURCE,
                },
            };
            Some(FlowViolation {
                source: past.clone(),
                source_reason: source,
                sink: tool.full_name().to_owned(),
                sink_reason: sink,
            })
        })
    }

    /// Returns the reason for which a tool is a source of private data, if it is one.
    #[must_use]
    pub fn source_of(&self, tool: &Tool) -> Option<&'static str> {
        match self.labels_of(tool).source {
            Some(FlowLabel::Private) => Some(LABELLED_SOURCE),
            Some(FlowLabel::Public) => None,
            None => tool.flow().source,
        }
    }

    /// Returns the reason for which a tool is a public sink, if it is one.
    #[must_use]
    pub fn sink_of(&self, tool: &Tool) -> Option<&'static str> {
        match self.labels_of(tool).sink {
            Some(FlowLabel::Public) => Some("labelled as a public sink"),
            Some(FlowLabel::Private) => None,
            None => tool.flow().sink,
        }
    }

    fn labels_of(&self, tool: &Tool) -> FlowLabels {
        let own = self.tools.get(tool.full_name()).copied().unwrap_or_default();
        let of_component = tool.namespace().and_then(|name| self.components.get(name.as_str()));
        own.or(of_component.copied().unwrap_or_default())
    }
}

const LABELLED_SOURCE: &str = "labelled as a private source";
const UNKNOWN_SOURCE: &str = "the label of its data is unknown";

/// A flow of private data to the public: the call that read it, and the one that would send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowViolation {
    /// The call that may have returned private data.
    pub source: PastCall,
    /// The reason for which its tool is a private source.
    pub source_reason: &'static str,
    /// The full name of the tool that is a public sink.
    pub sink: String,
    /// The reason for that.
    pub sink_reason: &'static str,
}

impl fmt::Display for FlowViolation {
    /// Writes the path of the data, for a person or a model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source: PastCall { tool, number }, source_reason, sink, sink_reason } = self;
        write!(
            f,
            "private data may become public: `{tool}` (private: {source_reason}) was called at call {number}, and \
             `{sink}` is a public sink ({sink_reason})"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::policy::permission::KeyValueQuota;
    use crate::policy::permission::files::Folder;
    use crate::schema::gate::{Gate, GateLimits};
    use crate::tool::definition::{Annotations, RawDefinition};
    use crate::tool::name::Namespace;

    fn tool(component: Option<&str>, name: &str, open_world: Option<bool>, flow: Option<ToolFlow>) -> Arc<Tool> {
        let raw = RawDefinition {
            name: name.to_owned(),
            input_schema: "{}".to_owned(),
            annotations: Annotations { open_world, ..Annotations::default() },
            ..RawDefinition::default()
        };
        let gate = Gate::for_arguments(&json!({}), GateLimits::default()).unwrap();
        let tool = Tool::new(raw.parse(&Default::default()).unwrap(), gate);
        let tool = component.map_or(tool.clone(), |name| tool.in_namespace(&Namespace::parse(name).unwrap()));
        Arc::new(flow.map_or(tool.clone(), |flow| tool.with_flow(flow)))
    }

    fn past(tool: &str, number: u64) -> PastCall {
        PastCall { tool: tool.to_owned(), number }
    }

    #[test]
    fn flows_follow_from_grants() {
        fn pages_sink(origins: &[&str]) -> Option<&'static str> {
            let grant = Grant::none().with_pages(origins.iter().map(|origin| (*origin).to_owned()).collect()).unwrap();
            ToolFlow::from_grant(&grant).sink
        }

        fn source(grant: &Grant) -> &'static str {
            ToolFlow::from_grant(grant).source.unwrap_or_default()
        }

        let none = Grant::none();
        assert_eq!(ToolFlow::from_grant(&none), ToolFlow::NONE);
        let folder = none.clone().with_folder(Folder::read("./docs:/docs").unwrap()).unwrap();
        assert_eq!(source(&folder), "it has granted folders");
        assert!(source(&none.clone().with_key_value(KeyValueQuota::new(1024).unwrap())).starts_with("it has a store"));
        assert_eq!(source(&none.with_state()), "it reads the agent's state");
        assert_eq!(ToolFlow::from_grant(&folder).sink, None);
        assert!(pages_sink(&["https://a.example"]).is_some() && pages_sink(&[]).is_none());
    }

    #[test]
    fn tools_without_a_claim_reach_an_open_world() {
        // A claim makes a component with known powers worse and never better.
        fn flow_of_component(open_world: Option<bool>, flow: ToolFlow) -> ToolFlow {
            tool(Some("s"), "a", open_world, Some(flow)).flow()
        }

        fn sink(open_world: Option<bool>) -> Option<&'static str> {
            tool(Some("s"), "a", open_world, None).flow().sink
        }

        fn function(open_world: Option<bool>) -> ToolFlow {
            tool(None, "a", open_world, None).flow()
        }

        assert_eq!((function(Some(false)), function(None).sink.is_some()), (ToolFlow::NONE, true));
        assert!(sink(None).is_some() && sink(Some(true)).is_some() && sink(Some(false)).is_none());
        assert_eq!(flow_of_component(None, ToolFlow::NONE), ToolFlow::NONE);
        assert_eq!(flow_of_component(Some(false), ToolFlow::NONE), ToolFlow::NONE);
        assert!(flow_of_component(Some(true), ToolFlow::NONE).sink.is_some());
        let requests = ToolFlow { source: None, sink: Some("requests") };
        assert_eq!(flow_of_component(Some(false), requests), requests);
    }

    #[test]
    fn labels_take_precedence_and_those_of_a_tool_over_those_of_its_component() {
        fn labels(source: Option<FlowLabel>, sink: Option<FlowLabel>) -> FlowLabels {
            FlowLabels { source, sink }
        }

        let read = tool(Some("c"), "read", Some(false), None);
        let post = tool(Some("c"), "post", None, None);
        let policy = FlowPolicy::new().label_component("c", labels(Some(FlowLabel::Private), None));
        assert!(policy.source_of(&post).is_some() && policy.sink_of(&post).is_some());
        let policy = policy.label_tool("c__post", labels(Some(FlowLabel::Public), Some(FlowLabel::Private)));
        assert_eq!((policy.source_of(&post), policy.sink_of(&post)), (None, None));
        assert_eq!(policy.source_of(&read), Some(LABELLED_SOURCE));
        let public = FlowPolicy::new().label_tool("c__read", labels(Some(FlowLabel::Public), Some(FlowLabel::Public)));
        assert!(public.source_of(&read).is_none() && public.sink_of(&read).is_some());
    }

    #[test]
    fn names_the_path_of_the_data() {
        let read = tool(Some("notes"), "read", Some(false), None);
        let post = tool(Some("http"), "post", None, None);
        let policy = FlowPolicy::new().label_component("notes", FlowLabels::default().source(FlowLabel::Private));
        let find = |name: &str| [&read, &post].into_iter().find(|tool| tool.full_name() == name).cloned();
        let calls = [past("http__post", 1), past("notes__read", 3)];
        assert_eq!(policy.check(&post, &calls[..1], find), None);
        assert_eq!(policy.check(&read, &calls, find), None);
        let violation = policy.check(&post, &calls, find).unwrap();
        assert_eq!(
            violation.to_string(),
            "private data may become public: `notes__read` (private: labelled as a private source) was called at call \
             3, and `http__post` is a public sink (it does not declare a closed world)"
        );
    }

    #[test]
    fn a_tool_that_is_gone_counts_as_private_unless_it_is_labelled() {
        let post = tool(Some("http"), "post", None, None);
        let none = |_: &str| None::<Arc<Tool>>;
        let calls = [past("gone__read", 1)];
        assert!(FlowPolicy::new().check(&post, &calls, none).is_some());
        let public = FlowLabels::default().source(FlowLabel::Public);
        assert_eq!(FlowPolicy::new().label_tool("gone__read", public).check(&post, &calls, none), None);
    }
}
