//! The rules in order, as one decision with a verdict from each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::rule::{Proposed, Rule, Verdict};

/// Who gave a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictSource {
    /// The rule of this name.
    Rule(String),
    /// The judge.
    Judge,
    /// A person.
    Approver,
}

impl VerdictSource {
    /// The name in records.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Rule(name) => name,
            Self::Judge => "judge",
            Self::Approver => "human",
        }
    }
}

/// One verdict, as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// Who gave it.
    pub source: VerdictSource,
    /// What it was.
    pub verdict: Verdict,
}

/// How a call came through the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The verdict of each rule that was asked, in order. The last one decides if it denies or asks.
    pub rulings: Vec<Ruling>,
    /// What was changed, if anything was.
    pub notes: Vec<String>,
}

/// Rules, asked in order; each sees the arguments as those before it left them.
#[derive(Clone, Default)]
pub struct Rules(Vec<Arc<dyn Rule>>);

impl Rules {
    /// Adds a rule after the others.
    pub fn add(&mut self, rule: Arc<dyn Rule>) {
        self.0.push(rule);
    }

    /// Asks the rules until one denies. `proposed` ends up with the arguments as they were changed.
    ///
    /// A rule that wants a person asked does not keep the rest from denying; the question is in the rulings.
    pub fn evaluate(&self, proposed: &mut Proposed) -> Passage {
        let mut passage = Passage { rulings: Vec::with_capacity(self.0.len()), notes: Vec::new() };
        for rule in &self.0 {
            let source = VerdictSource::Rule(rule.name().to_owned());
            let verdict = careful(rule.as_ref(), proposed);
            passage.rulings.push(Ruling { source, verdict: verdict.clone() });
            match verdict {
                Verdict::Allow | Verdict::Ask { .. } => {}
                Verdict::Modify { arguments, note } => passage.apply(proposed, arguments, note),
                Verdict::Deny { .. } => break,
            }
        }
        passage
    }
}

impl Passage {
    /// Takes over what a verdict changed.
    pub fn apply(&mut self, proposed: &mut Proposed, arguments: Value, note: String) {
        proposed.arguments = arguments;
        self.notes.push(note);
    }
}

/// A rule that panics has not allowed anything.
fn careful(rule: &dyn Rule, proposed: &Proposed) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| rule.evaluate(proposed)))
        .unwrap_or_else(|_| Verdict::Deny { reason: format!("the rule '{}' could not be evaluated", rule.name()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardrail::rule::RuleFn;
    use serde_json::json;

    fn proposed() -> Proposed {
        Proposed {
            tool: "t".to_owned(),
            annotations: fumehood_core::definition::Annotations::default(),
            arguments: json!({"glob": "**"}),
            actor: None,
            skill: None,
            session: String::new(),
        }
    }

    #[test]
    fn rules_see_what_earlier_ones_changed_and_a_denial_ends_them() {
        let mut rules = Rules::default();
        rules.add(Arc::new(RuleFn::new("trim", |_: &Proposed| Verdict::Modify {
            arguments: json!({"glob": "src/**"}),
            note: "the glob was trimmed to src/**".to_owned(),
        })));
        rules.add(Arc::new(RuleFn::new("seen", |proposed: &Proposed| Verdict::Deny {
            reason: proposed.arguments["glob"].to_string(),
        })));
        rules.add(Arc::new(RuleFn::new("never", |_: &Proposed| Verdict::Allow)));
        let mut proposed = proposed();
        let passage = rules.evaluate(&mut proposed);
        assert_eq!(passage.notes, ["the glob was trimmed to src/**"]);
        assert_eq!(passage.rulings.len(), 2);
        assert_eq!(passage.rulings[1].verdict, Verdict::Deny { reason: "\"src/**\"".to_owned() });
    }

    #[test]
    fn a_rule_that_panics_denies() {
        let mut rules = Rules::default();
        rules.add(Arc::new(RuleFn::new("broken", |_: &Proposed| panic!("broken on purpose"))));
        let passage = rules.evaluate(&mut proposed());
        assert!(matches!(&passage.rulings[0].verdict, Verdict::Deny { reason } if reason.contains("'broken'")));
    }
}
