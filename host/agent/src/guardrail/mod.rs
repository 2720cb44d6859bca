//! Rules and judges that look at a call before it runs: allow, change, deny, or ask a person.

mod engine;
mod judge;
mod model_judge;
mod path_rules;
mod paths;
mod rule;

pub use engine::{Passage, Rules, Ruling, VerdictSource};
pub use judge::{CallQuestion, Judge, JudgePolicy, Judgement};
pub use model_judge::ModelJudge;
pub use path_rules::{IgnoreError, IgnoreList, Workspace};
pub use rule::{ArgumentBytes, Proposed, Rule, RuleFn, Verdict};
