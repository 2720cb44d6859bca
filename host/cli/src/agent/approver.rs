//! Approval of calls and of more turns: by a person at the terminal, by another program, or later.

use std::sync::Arc;

use anyhow::Result;
use fumehood::AgentBuilder;
use fumehood::boxed::BoxFuture;
use fumehood::policy::{Answer, Approver, DeferringApprover, Question};

use super::call_progress::CallProgress;
use super::json_approver;
use super::saved::SaveMode;
use crate::args::Arguments;
use crate::args::run::{AgentArguments, ApproveName};
use crate::config::Config;
use crate::config::agent::ApprovalSetting;
use crate::exit::UsageError;
use crate::question;
use crate::render::quotation::{Quotation, one_line};
use crate::render::{self, STRONG, styled};

/// The way in which calls that need approval are decided on.
pub(crate) enum Approval {
    /// Somebody answers at once.
    Asked(Arc<dyn Approver>),
    /// They wait for an answer from elsewhere.
    Deferred,
    /// They are refused.
    Refused,
}

impl Approval {
    /// Selects the way: that of the option, or else the terminal, or else what the configuration says for where nobody
    /// can be asked. A saved session defers unless somebody says otherwise: it is there to go on later, while without
    /// one nothing could be answered.
    ///
    /// # Errors
    /// If calls are to wait in a session that is not saved, or answers to be read without `--json`.
    pub(crate) fn select(
        arguments: &Arguments,
        typed: &AgentArguments,
        config: &Config,
        saving: &SaveMode,
        progress: &CallProgress,
    ) -> Result<Self> {
        let is_saved = saving.id().is_some();
        let unattended = Self::unattended(config, is_saved);
        Ok(match typed.approve {
            Some(ApproveName::Defer) if !is_saved => {
                let message = "`--approve defer` needs a saved session; name one with `--session ID`";
                return Err(UsageError(message.to_owned()).into());
            }
            Some(ApproveName::Defer) => Self::Deferred,
            Some(ApproveName::Refuse) => Self::Refused,
            Some(ApproveName::Json) if !arguments.json => {
                let message = "`--approve json` needs `--json`, which prints the questions";
                return Err(UsageError(message.to_owned()).into());
            }
            Some(ApproveName::Json) => Self::Asked(json_approver::start(match unattended {
                Self::Deferred => Answer::Defer,
                Self::Asked(_) | Self::Refused => {
                    Answer::Deny { reason: "standard input is closed, so no answer can come".to_owned() }
                }
            })),
            None => match TerminalApprover::from_terminal(progress.clone()).filter(|_| !arguments.json) {
                Some(terminal) => Self::Asked(Arc::new(terminal)),
                None => unattended,
            },
        })
    }

    /// Returns the way where nobody can be asked at once.
    pub(crate) fn unattended(config: &Config, is_saved: bool) -> Self {
        match config.agent.approval {
            Some(ApprovalSetting::Refuse) => Self::Refused,
            Some(ApprovalSetting::Defer) | None if is_saved => Self::Deferred,
            Some(ApprovalSetting::Defer) | None => Self::Refused,
        }
    }

    /// Adds the approver of calls, and of more turns unless that is switched off.
    pub(crate) fn apply(self, builder: AgentBuilder, config: &Config) -> AgentBuilder {
        match self {
            Self::Asked(approver) if config.agent.ask_for_turns == Some(false) => {
                builder.pipeline(move |pipeline| pipeline.approver(approver))
            }
            Self::Asked(approver) => builder.approver(approver),
            Self::Deferred => builder.pipeline(|pipeline| pipeline.approver(Arc::new(DeferringApprover))),
            Self::Refused => builder,
        }
    }
}

/// An [`Approver`] that asks the person at the terminal.
pub(crate) struct TerminalApprover {
    progress: CallProgress,
    /// Held while a question is open, so that concurrent calls ask one after the other.
    turn: tokio::sync::Mutex<()>,
}

impl TerminalApprover {
    /// Creates an approver; `None` if there is no terminal to ask at.
    pub(crate) fn from_terminal(progress: CallProgress) -> Option<Self> {
        question::can_ask().then(|| Self { progress, turn: tokio::sync::Mutex::new(()) })
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let paused = self.progress.pause();
            let is_allowed = question::ask_with(|| show(question)).await;
            drop(paused);
            if is_allowed {
                Answer::Allow
            } else {
                Answer::Deny { reason: "refused by the person at the terminal".to_owned() }
            }
        })
    }
}

/// Shows a question. Text of a model, a judge or a tool is quoted behind the bar. A call is shown in full, because an
/// approval allows all of it.
fn show(question: Question<'_>) -> Result<()> {
    let mark = styled(STRONG, "?");
    match question {
        Question::Budget(text) => render::note(&format!("{mark} {}", one_line(text))),
        Question::Call(call) => {
            render::note(&format!("{mark} A call is waiting for approval"));
            let mut quotation = Quotation::for_stderr();
            quotation.write_block(2, &call.question)?;
            quotation.write_block(2, &format!("{} {}", one_line(&call.proposed.tool), call.proposed.arguments))?;
        }
    }
    Ok(())
}
