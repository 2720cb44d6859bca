//! Rules and judges that inspect a call before it runs and allow, modify or deny it, or ask a person.

mod judge;
mod model_judge;
mod path_rules;
mod rule;
mod rules;

pub use judge::{CallQuestion, Judge, JudgePolicy, Judgement};
pub use model_judge::ModelJudge;
pub use path_rules::{IgnoreError, IgnoreList, Workspace};
pub use rule::{ArgumentBytes, ProposedCall, Rule, RuleFn, Verdict};
pub use rules::{Rules, RulesOutcome, Ruling, VerdictSource};
