//! The rules of a pipeline, in order, and their verdicts.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::rule::{ProposedCall, Rule, Verdict};

/// The source of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictSource {
    /// The rule of this name.
    Rule(String),
    /// The judge.
    Judge,
    /// The approver.
    Approver,
    /// The policy for flows of data.
    Flows,
}

impl VerdictSource {
    /// Returns the name of the source in records.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Rule(name) => name,
            Self::Judge => "judge",
            Self::Approver => "human",
            Self::Flows => "flows",
        }
    }
}

/// A verdict and its source, as they are recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// The source.
    pub source: VerdictSource,
    /// The verdict.
    pub verdict: Verdict,
}

/// The outcome of all rules for a call.
#[derive(Debug, Clone, PartialEq)]
pub struct RulesOutcome {
    /// The verdict of each rule that was evaluated, in order. A denial is the last one.
    pub rulings: Vec<Ruling>,
    /// Notes about changes of the arguments, one for each [`Verdict::Modify`].
    pub notes: Vec<String>,
}

/// Rules in the order in which they are evaluated. Each sees the arguments as those before it left them.
#[derive(Clone, Default)]
pub struct Rules(Vec<Arc<dyn Rule>>);

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

impl Rules {
    /// Returns whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a rule after the others.
    pub fn add(&mut self, rule: Arc<dyn Rule>) {
        self.0.push(rule);
    }

    /// Evaluates the rules until one denies, and updates the arguments of `proposed`.
    ///
    /// [`Verdict::Ask`] does not stop the evaluation, because a later rule may deny; the question is in the rulings.
    pub fn evaluate(&self, proposed: &mut ProposedCall) -> RulesOutcome {
        let mut outcome = RulesOutcome { rulings: Vec::with_capacity(self.0.len()), notes: Vec::new() };
        for rule in &self.0 {
            let source = VerdictSource::Rule(rule.name().to_owned());
            let verdict = evaluate_caught(rule.as_ref(), proposed);
            outcome.rulings.push(Ruling { source, verdict: verdict.clone() });
            match verdict {
                Verdict::Allow | Verdict::Ask { .. } => {}
                Verdict::Modify { arguments, note } => outcome.apply(proposed, arguments, note),
                Verdict::Deny { .. } => break,
            }
        }
        outcome
    }
}

impl RulesOutcome {
    /// Applies a [`Verdict::Modify`] to the call.
    pub fn apply(&mut self, proposed: &mut ProposedCall, arguments: Value, note: String) {
        proposed.arguments = arguments;
        self.notes.push(note);
    }
}

/// Evaluates a rule. One that panics denies.
fn evaluate_caught(rule: &dyn Rule, proposed: &ProposedCall) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| rule.evaluate(proposed)))
        .unwrap_or_else(|_| Verdict::Deny { reason: format!("the rule '{}' could not be evaluated", rule.name()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::guardrail::rule::RuleFn;
    use serde_json::json;

    fn proposed() -> ProposedCall {
        ProposedCall {
            alias: None,
            tool: "t".to_owned(),
            annotations: fumehood_core::tool::definition::Annotations::default(),
            arguments: json!({"glob": "**"}),
            actor: None,
            skill: None,
            session: String::new(),
        }
    }

    #[test]
    fn rules_see_earlier_changes_and_end_with_a_denial() {
        let mut rules = Rules::default();
        rules.add(Arc::new(RuleFn::new("trim", |_: &ProposedCall| Verdict::Modify {
            arguments: json!({"glob": "src/**"}),
            note: "the glob was trimmed to src/**".to_owned(),
        })));
        rules.add(Arc::new(RuleFn::new("seen", |proposed: &ProposedCall| Verdict::Deny {
            reason: proposed.arguments["glob"].to_string(),
        })));
        rules.add(Arc::new(RuleFn::new("never", |_: &ProposedCall| Verdict::Allow)));
        let mut proposed = proposed();
        let outcome = rules.evaluate(&mut proposed);
        assert_eq!(outcome.notes, ["the glob was trimmed to src/**"]);
        assert_eq!(outcome.rulings.len(), 2);
        assert_eq!(outcome.rulings[1].verdict, Verdict::Deny { reason: "\"src/**\"".to_owned() });
    }

    #[test]
    fn panicking_rule_denies() {
        let mut rules = Rules::default();
        rules.add(Arc::new(RuleFn::new("broken", |_: &ProposedCall| panic!("broken on purpose"))));
        let outcome = rules.evaluate(&mut proposed());
        assert!(matches!(&outcome.rulings[0].verdict, Verdict::Deny { reason } if reason.contains("'broken'")));
    }
}
