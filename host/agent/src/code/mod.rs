//! Code mode: programs that a model writes, and that call tools.
//!
//! ```text
//! run_code ─ run ─ Interpreter::run ═ program ─ start, wait ─ InnerCalls ─ limits ─ CallMaker ─ every check of a call
//! ```
//!
//! An interpreter has no power of its own, and each call of a program is made as if the model had made it directly: by
//! the pipeline, or for [`CodeProvider`] by the provider behind it.

mod call_maker;
mod calls;
mod code_tools;
mod interpreter;
mod limits;
mod program_tools;
mod provider;
mod replay;
mod run;
mod schema_type;
mod value;

pub(crate) use call_maker::{CallMaker, Called, OpenQuestion, OpenQuestions};
pub(crate) use code_tools::{CodeTools, code, max_result_bytes};
pub use code_tools::{CodeToolsError, RUN_CODE};
pub use interpreter::Interpreter;
pub use limits::{CodeMode, ProgramLimits};
pub(crate) use program_tools::ProgramTools;
pub use provider::CodeProvider;
pub(crate) use run::{ProgramEnd, ProgramRequest, run};
