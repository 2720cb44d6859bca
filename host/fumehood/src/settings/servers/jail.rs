//! The jail of a server's program: its folders, its proxy, and its start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fumehood_config::mcp::{McpServerSection, ProgramIsolation};
use fumehood_core::call::Refusal;
use fumehood_core::policy::permission::http::ProxyGrant;
use fumehood_mcp::{LaunchSandbox, LaunchWrapper, SandboxedLaunch};
use fumehood_platform::private;
use fumehood_runtime::{Network, ProgramJail, ProgramProxy, RefusalLog};
use tempfile::TempDir;

use super::options::program_limits;
use crate::settings::error::SettingsError;

/// The hidden command of the program `fumehood` that runs a program in a jail.
pub const RUN_PROGRAM: &str = "run-program";

/// The surroundings of the jail of a server.
#[derive(Debug, Clone)]
pub struct JailPlace {
    /// The program `fumehood`, or another one whose command [`RUN_PROGRAM`] calls [`run_program`](crate::run_program).
    pub program: PathBuf,
    /// The folder to which paths of the section are relative.
    pub base: PathBuf,
    /// The folder that the server has as its home; `None` for one that is removed with each of its processes.
    pub home: Option<PathBuf>,
    /// Whether signals are passed on to the program. Otherwise they end it at once.
    pub passes_signals: bool,
}

/// The jail of one server.
#[derive(Debug)]
struct ServerJail {
    place: JailPlace,
    jail: ProgramJail,
    requests: Option<ProxyGrant>,
    refusals: Arc<RefusalLog>,
}

/// Creates the jail of the program of a server; `None` if its section switches it off.
///
/// # Errors
/// If a grant is not possible.
pub fn server_jail(
    section: &McpServerSection,
    place: JailPlace,
) -> Result<Option<Arc<dyn LaunchSandbox>>, SettingsError> {
    let isolation = section.isolation.unwrap_or_default();
    if isolation == ProgramIsolation::None {
        return Ok(None);
    }
    let requests = section.requests().map_err(|(key, message)| SettingsError::setting(key, message))?;
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| place.base.join(path)).collect();
    let jail = ProgramJail {
        read: paths(&section.read),
        write: paths(&section.write),
        temporary: None,
        user_home: std::env::var_os("HOME").map(PathBuf::from),
        proxy: None,
        limits: program_limits(&section.limits.clone().unwrap_or_default()),
        is_required: isolation == ProgramIsolation::Required,
        passes_signals: place.passes_signals,
    };
    Ok(Some(Arc::new(ServerJail { place, jail, requests, refusals: Arc::default() })))
}

/// What a process of a server needs while it runs.
struct Surroundings {
    _temporary: TempDir,
    _proxy: Option<ProgramProxy>,
}

impl LaunchSandbox for ServerJail {
    fn prepare(&self) -> io::Result<SandboxedLaunch> {
        let temporary =
            tempfile::Builder::new().prefix("fumehood-server-").permissions(private::folder_permissions()).tempdir()?;
        let temporary_path = temporary.path().canonicalize()?;
        let home = match &self.place.home {
            Some(home) => home.clone(),
            None => temporary_path.join("home"),
        };
        create_private(&home)?;
        let start = |grant| ProgramProxy::start(grant, Network::default(), Arc::clone(&self.refusals));
        let proxy = self.requests.clone().map(start).transpose()?;
        let mut jail = self.jail.clone();
        jail.write.push(home.clone());
        jail.temporary = Some(temporary_path.clone());
        jail.proxy = proxy.as_ref().map(|proxy| proxy.address().clone());
        let mut arguments = vec![RUN_PROGRAM.to_owned()];
        arguments.extend(jail.to_arguments(std::process::id()).map_err(io::Error::other)?);
        let variable = |name: &str, value: &Path| (name.to_owned(), value.to_string_lossy().into_owned());
        let mut environment = vec![variable("HOME", &home), variable("TMPDIR", &temporary_path)];
        environment.extend(proxy.iter().flat_map(proxy_variables));
        let guard = Box::new(Surroundings { _temporary: temporary, _proxy: proxy });
        let wrapper = LaunchWrapper { program: self.place.program.clone(), arguments };
        Ok(SandboxedLaunch { wrapper, environment, guard })
    }

    fn refusal_count(&self) -> u64 {
        self.refusals.count()
    }

    fn refusals_since(&self, count: u64) -> Vec<Refusal> {
        self.refusals.since(count)
    }
}

/// Returns the variables by which programs find their proxy: curl and Python read those in lower case.
fn proxy_variables(proxy: &ProgramProxy) -> Vec<(String, String)> {
    let url = proxy.url();
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let mut variables: Vec<_> = names.into_iter().map(|name| (name.to_owned(), url.clone())).collect();
    // Nothing goes past it, also no request to this machine. Node reads the variables only if it is told to.
    let others = [("NO_PROXY", ""), ("no_proxy", ""), ("NODE_USE_ENV_PROXY", "1")];
    variables.extend(others.map(|(name, value)| (name.to_owned(), value.to_owned())));
    variables
}

fn create_private(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, private::folder_permissions())
}
