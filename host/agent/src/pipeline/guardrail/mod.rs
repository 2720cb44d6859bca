//! Policies about calls: rules about their arguments, and a model that judges them.

mod argument_rules;
mod model_judge;

pub use argument_rules::{ArgumentBytes, IgnoreError, IgnoreList, Workspace};
pub use model_judge::ModelJudge;
