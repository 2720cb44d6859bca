//! The state of one call while it runs, and the interfaces through which the guest reads it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{CallContext, CancellationToken, Observer};
use fumehood_core::capability::CapabilityContext;
use fumehood_core::policy::permission::Grant;
use fumehood_core::tool::name::Namespace;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use super::bindings::fumehood::tool::{context, secrets, types};
use super::capability::{CallSessions, GrantedCapabilities};
use super::filesystem::{CallFiles, FilesView, OpenFolders};
use super::journal::Journal;
use super::key_value::ComponentStore;
use super::outbound::OutboundConfig;
use super::refusals::Refusals;
use super::report::{CallReport, Counters};
use super::sockets::SocketsView;
use super::stdio::StdoutTooLarge;
use super::{Program, Wasi};
use crate::engine::deadline::Deadline;
use crate::engine::memory::MemoryLimiter;

/// The name that a program without a name gets as its first argument.
const PROGRAM: &str = "program";

/// A call of a guest. The guest can read the first four; all of it comes from the host.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Invocation {
    /// The id of the call.
    pub(crate) id: String,
    /// The tool's name within its component.
    pub(crate) tool: String,
    /// The person or program on whose behalf the call is made.
    pub(crate) actor: Option<Arc<str>>,
    /// A snapshot of the agent's state, as JSON text. Only a tool that was granted it can read it.
    pub(crate) state: Option<Arc<str>>,
    /// The limits. They have passed [`Limits::check`].
    pub(crate) limits: Limits,
    /// The observer of the call's log lines, progress and requests.
    #[serde(skip)]
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// A token that ends the call with the kind `cancelled`, and with the metadata of its cost until then.
    #[serde(skip)]
    pub(crate) cancelled: Option<CancellationToken>,
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, tool, actor, state, limits, .. } = self;
        f.debug_tuple("Invocation").field(&(id, tool, actor, state, limits)).finish()
    }
}

impl Invocation {
    /// Creates the call of a tool with these limits, in place of those of the context.
    pub(crate) fn new(tool: &str, limits: Limits, context: CallContext) -> Self {
        let CallContext { id, actor, state, observer, cancelled, .. } = context;
        Self { id, tool: tool.to_owned(), actor, state, limits, observer, cancelled }
    }

    /// Returns the context that capabilities have of the call.
    pub(crate) fn capability_context(
        &self,
        component: Option<Namespace>,
        deadline: Instant,
        refusals: Refusals,
    ) -> CapabilityContext {
        CapabilityContext {
            component,
            tool: self.tool.clone(),
            call_id: self.id.clone(),
            actor: self.actor.clone(),
            time_left: Arc::new(move || deadline.saturating_duration_since(Instant::now())),
            refusals: Arc::new(move |refusal| refusals.add(refusal)),
        }
    }

    /// Reports to the observer that the call has a place among the running ones.
    pub(crate) fn report_admission(&self) {
        if let Some(observer) = &self.observer {
            observer.admitted(self.limits.deadline);
        }
    }
}

/// The input of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct CommandInput {
    /// The arguments, without the name of the program.
    pub(crate) args: Vec<String>,
    /// The text on its standard input.
    #[serde(default)]
    pub(crate) stdin: String,
    /// The exit codes that are no failure. Arguments of a model have none: the schema of programs refuses them.
    #[serde(default = "default_success")]
    pub(crate) success: Vec<u8>,
}

fn default_success() -> Vec<u8> {
    vec![0]
}

impl CommandInput {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// If they do not match the input schema.
    pub(crate) fn from_arguments(arguments: &Value) -> Result<Self, CallError> {
        Self::deserialize(arguments).map_err(|error| CallError::new(ErrorKind::InvalidArguments, error.to_string()))
    }
}

/// A failure of the host during a call, which the guest did not cause. The text describes what failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HostFailure(pub(crate) String);

/// The powers of a component in its calls.
#[derive(Clone)]
pub(crate) struct Powers {
    pub(crate) grant: Arc<Grant>,
    /// True if it has them while it describes itself, too.
    pub(crate) describe_with_grant: bool,
    /// Names of the secrets that it was granted. Their values never enter a guest.
    pub(crate) secret_names: Arc<[String]>,
    pub(crate) store: Arc<ComponentStore>,
    pub(crate) outbound: OutboundConfig,
    pub(crate) capabilities: GrantedCapabilities,
}

/// What the host does for one call in a worker, in place of the component's own [`Powers`].
pub(crate) struct HostServices {
    /// The store; `None` if it was not granted.
    pub(crate) store: Option<Arc<ComponentStore>>,
    pub(crate) outbound: OutboundConfig,
    pub(crate) capabilities: GrantedCapabilities,
}

impl Powers {
    /// Returns no powers at all, as while a component describes its tools.
    pub(crate) fn without_grant(&self) -> Self {
        let capabilities = self.capabilities.without_grant();
        Self { grant: Arc::default(), secret_names: Arc::default(), capabilities, ..self.clone() }
    }
}

/// The data of a call's [`Store`](wasmtime::Store), created for the call and dropped with it.
pub(crate) struct CallState {
    pub(crate) memory: MemoryLimiter,
    /// True while the guest's counter of fuel is up to date: within host functions, and not at a check of the deadline.
    pub(crate) is_fuel_saved: bool,
    pub(crate) deadline: Deadline,
    pub(crate) call: Arc<Invocation>,
    pub(crate) powers: Arc<Powers>,
    pub(crate) journal: Journal,
    pub(crate) report: Arc<CallReport>,
    /// The command line and the input, if the guest is a program.
    program: Option<CommandInput>,
    /// Created when the guest first uses WASI: most calls of pure tools never do.
    wasi: Option<Box<Wasi>>,
    folders: Option<Arc<OpenFolders>>,
    /// Created when the guest first uses the folders that it was granted.
    files: Option<Box<CallFiles>>,
    /// Created when the guest first uses a capability.
    sessions: Option<Box<CallSessions>>,
    table: ResourceTable,
    limits: Limits,
}

impl CallState {
    /// Returns the observer of the call.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.call.observer.as_deref()
    }

    pub(crate) fn new(call: Arc<Invocation>, powers: Arc<Powers>, report: Arc<CallReport>) -> Self {
        let limits = call.limits;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            memory: MemoryLimiter::new(limits.memory),
            is_fuel_saved: true,
            deadline: report.deadline(),
            journal: Journal::new(limits.log, call.observer.clone(), powers.outbound.redactor()),
            call,
            powers,
            report,
            program: None,
            wasi: None,
            folders: None,
            files: None,
            sessions: None,
            table,
            limits,
        }
    }

    /// Returns the record of what the call tried that it was not granted.
    pub(crate) fn refusals(&self) -> &Refusals {
        self.report.refusals()
    }

    /// Copies the counters into the report of the call.
    pub(crate) fn update_report(&self, fuel_used: u64) {
        self.report.update(Counters {
            fuel_used,
            peak_memory: self.memory.peak(),
            log_dropped: self.journal.dropped(),
            hidden_chars: self.journal.hidden_chars(),
        });
    }

    /// Sets the folders that were opened when the tool was loaded.
    pub(crate) fn with_folders(mut self, folders: Option<Arc<OpenFolders>>) -> Self {
        self.folders = folders;
        self
    }

    /// Sets the command line and the input of a program, before it is instantiated.
    pub(crate) fn set_program(&mut self, program: CommandInput) {
        self.program = Some(program);
    }

    /// Takes what a program wrote to its standard output.
    ///
    /// # Errors
    /// If that is more than its result may have.
    pub(crate) fn take_stdout(&self) -> Result<Vec<u8>, StdoutTooLarge> {
        self.wasi.as_ref().map_or_else(|| Ok(Vec::new()), |wasi| wasi.stdio.take_stdout())
    }

    /// Returns what `read` makes of the standard output and the standard error.
    pub(crate) fn with_output<T>(&self, read: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        match &self.wasi {
            Some(wasi) => wasi.stdio.with_output(read),
            None => read(&[], &[]),
        }
    }

    /// Returns the table of its handles.
    pub(super) fn table_mut(&mut self) -> &mut ResourceTable {
        &mut self.table
    }

    /// Returns the bytes in the buffers of open files.
    pub(super) fn file_buffer_bytes(&self) -> usize {
        self.files.as_ref().map_or(0, |files| files.buffer_bytes())
    }

    /// Returns the files of the call and the table of its handles.
    pub(crate) fn files(&mut self) -> FilesView<'_> {
        self.admit_host_function();
        let refusals = self.report.refusals();
        let files = self
            .folders
            .as_ref()
            .map(|folders| &mut **self.files.get_or_insert_with(|| Box::new(CallFiles::new(folders, refusals))));
        FilesView { files, refusals, table: &mut self.table }
    }

    /// Returns the sockets of the call and the table of its handles.
    pub(crate) fn sockets(&mut self) -> SocketsView<'_> {
        let refusals = self.report.refusals().clone();
        let (wasi, table) = self.wasi_and_table();
        SocketsView { sockets: Arc::clone(&wasi.sockets), refusals, table }
    }

    /// Takes the sessions of its capabilities for the time of one function. They must be returned.
    pub(super) fn take_sessions(&mut self) -> Box<CallSessions> {
        self.sessions.take().unwrap_or_else(|| {
            let refusals = self.report.refusals().clone();
            let owner = self.powers.store.owner().cloned();
            let context = self.call.capability_context(owner, self.deadline.at(), refusals);
            Box::new(CallSessions::new(self.powers.capabilities.clone(), context, &self.limits))
        })
    }

    /// Returns the sessions that [`Self::take_sessions`] took.
    pub(super) fn return_sessions(&mut self, sessions: Box<CallSessions>) {
        self.sessions = Some(sessions);
    }

    /// Returns the WASI contexts, if the guest used WASI at all.
    pub(crate) fn wasi(&self) -> Option<&Wasi> {
        self.wasi.as_deref()
    }

    fn wasi_and_table(&mut self) -> (&mut Wasi, &mut ResourceTable) {
        self.admit_host_function();
        let powers = &self.powers;
        let limits = &self.limits;
        let report = &self.report;
        let make = || {
            let observer = self.call.observer.clone();
            let outbound = powers.outbound.open(&powers.grant, self.deadline, report.refusals(), observer);
            let program = self
                .program
                .as_ref()
                .map(|input| Program { name: powers.store.owner().map_or(PROGRAM, |owner| owner.as_str()), input });
            Box::new(Wasi::new(&powers.grant, limits, report, outbound, program))
        };
        (self.wasi.get_or_insert_with(make), &mut self.table)
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (wasi, table) = self.wasi_and_table();
        WasiCtxView { ctx: &mut wasi.ctx, table }
    }
}

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let (wasi, table) = self.wasi_and_table();
        WasiHttpCtxView { hooks: &mut wasi.egress, table, ctx: &mut wasi.http }
    }
}

/// The facts that a guest can read about its own call.
impl context::Host for CallState {
    fn call_id(&mut self) -> String {
        self.call.id.clone()
    }

    fn tool_name(&mut self) -> String {
        self.call.tool.clone()
    }

    fn remaining_ms(&mut self) -> u64 {
        u64::try_from(self.deadline.remaining().as_millis()).unwrap_or(u64::MAX)
    }

    fn actor(&mut self) -> Option<String> {
        self.call.actor.as_deref().map(str::to_owned)
    }

    fn state(&mut self) -> Option<String> {
        self.call.state.as_deref().filter(|_| self.powers.grant.state()).map(str::to_owned)
    }
}

impl types::Host for CallState {}

/// The names of granted secrets. Their values never enter a guest; the host puts them into requests.
impl secrets::Host for CallState {
    /// Returns whether this tool was granted a secret of this name. A secret that only other tools were granted and one
    /// that does not exist give the same answer.
    fn exists(&mut self, name: String) -> bool {
        self.powers.secret_names.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_the_input_of_a_program() {
        let read = |arguments| CommandInput::from_arguments(&arguments);
        assert_eq!(read(json!({"args": ["-c"]})).unwrap().args, ["-c"]);
        assert_eq!(read(json!({"args": [], "stdin": "x"})).unwrap().stdin, "x");
        assert_eq!(read(json!({"args": []})).unwrap().success, [0]);
        assert_eq!(read(json!({"args": [], "success": [0, 1]})).unwrap().success, [0, 1]);
        assert_eq!(read(json!({"stdin": "x"})).unwrap_err().kind, ErrorKind::InvalidArguments);
    }
}
