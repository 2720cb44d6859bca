//! A cell for one test: a NATS server, gateways and workers as processes in one folder.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fumehood_tests::skip::skip;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::log::Log;
use super::proxy::Proxy;

/// Timeout of every wait, far above what any of them takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The variable that names the server.
const SERVER: &str = "FUMEHOOD_NATS_SERVER";

/// A running cell. Its processes end when it is dropped.
pub(crate) struct Cell {
    folder: tempfile::TempDir,
    program: PathBuf,
    port: u16,
    /// The deadline of calls.
    pub(crate) deadline: &'static str,
    /// Keys of the section `[cell]` of nodes that are started from now on.
    pub(crate) keys_of_all: String,
    /// Sections of the configuration of nodes that are started from now on.
    pub(crate) sections: String,
    /// The rule of the components' approval.
    pub(crate) approval: &'static str,
    /// True if the server has JetStream.
    has_jetstream: bool,
    nats: Option<Process>,
    keys: BTreeMap<String, String>,
    /// The place in which gateways record calls.
    pub(crate) log: Log,
    /// The networks of nodes that do not connect to the server directly.
    proxies: BTreeMap<String, Proxy>,
    nodes: BTreeMap<String, Process>,
}

/// A process that ends when this is dropped.
pub(crate) struct Process {
    child: Child,
    errors: PathBuf,
}

impl Cell {
    /// Starts a server without JetStream. Returns `None`, after printing `SKIPPED`, if there is none on this machine.
    pub(crate) fn start() -> Option<Self> {
        Self::start_server(false)
    }

    /// Starts a server with JetStream.
    pub(crate) fn start_with_jetstream() -> Option<Self> {
        Self::start_server(true)
    }

    fn start_server(has_jetstream: bool) -> Option<Self> {
        let Some(program) = std::env::var_os(SERVER).map(PathBuf::from).filter(|program| program.is_file()) else {
            skip("nats", &format!("{SERVER} names no NATS server; `tests/cell/setup` installs one"));
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist");
        for name in ["calculator", "countdown", "files", "notes"] {
            let file = format!("{name}.wasm");
            std::fs::copy(dist.join(&file), folder.path().join(&file)).unwrap();
        }
        std::fs::create_dir(folder.path().join("trace")).unwrap();
        let mut cell = Self {
            folder,
            program,
            port,
            deadline: "20s",
            keys_of_all: String::new(),
            sections: String::new(),
            approval: "off",
            has_jetstream,
            nats: None,
            keys: BTreeMap::new(),
            log: Log::Files,
            proxies: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        cell.start_nats();
        for name in ["g1", "g2", "w1", "w2", "w3"] {
            let file = cell.path(&format!("{name}.key")).display().to_string();
            let made = cell.command(&["cell", "key", "new", &file]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
            let public = String::from_utf8(made.stdout).unwrap().trim().to_owned();
            cell.keys.insert(name.to_owned(), public);
        }
        Some(cell)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fumehood"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("FUMEHOOD_CACHE_DIR", self.path("cache"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    fn spawn(&self, name: &str, mut command: Command) -> Process {
        let errors = self.path(&format!("{name}.errors"));
        let file = std::fs::File::create(&errors).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Process { child, errors }
    }

    /// Starts the server at its port.
    pub(crate) fn start_nats(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string()]).stdin(Stdio::null());
        if self.has_jetstream {
            command.arg("-js").arg("-sd").arg(self.path("jetstream"));
        }
        self.nats = Some(self.spawn("nats", command));
        wait_until("NATS", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills the server.
    pub(crate) fn stop_nats(&mut self) {
        self.nats = None;
    }

    /// Returns the lines of the nodes whose names begin with `letter`.
    fn nodes_of_role(&self, letter: char) -> String {
        let of_role = self.keys.iter().filter(|(name, _)| name.starts_with(letter));
        of_role.map(|(name, key)| format!("{name} = \"{key}\"\n")).collect::<String>()
    }

    fn write_config(&self, name: &str, places: u32, more: &str) -> PathBuf {
        let approval = self.approval;
        let log = if name.starts_with('g') { self.log.sections() } else { String::new() };
        let text = format!(
            "[cell]\nnats = \"nats://127.0.0.1:{}\"\nname = \"{name}\"\nkey = \"{name}.key\"\nplaces = {places}\n{more}{}\
             [cell.workers]\n{}[cell.gateways]\n{}\
             [limits]\ndeadline = \"{}\"\n\
             [tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"{approval}\"\n\
             [tools.countdown]\ncomponent = \"countdown.wasm\"\napproval = \"{approval}\"\n\
             [tools.files]\ncomponent = \"files.wasm\"\napproval = \"{approval}\"\nwrite = [\"./trace:/trace\"]\n{log}{}",
            self.proxies.get(name).map_or(self.port, |proxy| proxy.port),
            self.keys_of_all,
            self.nodes_of_role('w'),
            self.nodes_of_role('g'),
            self.deadline,
            self.sections,
        );
        let file = self.path(&format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Lets a node that is started from now on connect to the server through a network of its own.
    pub(crate) fn proxy(&mut self, name: &str) {
        self.proxies.insert(name.to_owned(), Proxy::start(self.port));
    }

    /// Returns the network of a node.
    pub(crate) fn network(&self, name: &str) -> &Proxy {
        &self.proxies[name]
    }

    /// Runs a command with the configuration of the gateway.
    pub(crate) fn run_as_gateway(&self, arguments: &[&str]) -> std::process::Output {
        let config = self.path("g1.toml").display().to_string();
        let arguments = [&["--config", &config, "--isolation", "in-process"], arguments].concat();
        self.command(&arguments).output().unwrap()
    }

    /// Lets a node write files of this size at most; `None` restores that they may be of any size.
    pub(crate) fn limit_files(&self, name: &str, bytes: Option<u64>) {
        let maximum = rustix::process::getrlimit(Resource::Fsize).maximum;
        prlimit(Some(self.pid(name)), Resource::Fsize, Rlimit { current: bytes, maximum }).unwrap();
    }

    fn pid(&self, name: &str) -> Pid {
        i32::try_from(self.nodes[name].child.id()).ok().and_then(Pid::from_raw).unwrap()
    }

    /// Starts a worker, and waits until it has joined.
    pub(crate) fn worker(&mut self, name: &str, places: u32) {
        self.write_config(name, places, "");
        self.start_worker(name);
    }

    /// Writes the configuration of a node.
    pub(crate) fn write_config_of(&self, name: &str) {
        self.write_config(name, 1, "");
    }

    /// Starts a worker in a folder of its own, with the lock of the gateway after this change and without components.
    pub(crate) fn worker_apart(&mut self, name: &str, change: impl FnOnce(String) -> String) {
        let folder = self.path(&format!("of-{name}"));
        std::fs::create_dir_all(folder.join("trace")).unwrap();
        let config = std::fs::read_to_string(self.write_config(name, 2, "")).unwrap();
        std::fs::rename(self.path(&format!("{name}.toml")), folder.join(format!("{name}.toml"))).unwrap();
        let config = config.replace(&format!("{name}.key"), &self.path(&format!("{name}.key")).display().to_string());
        std::fs::write(folder.join(format!("{name}.toml")), config).unwrap();
        let lock = std::fs::read_to_string(self.path("g1.lock")).unwrap();
        std::fs::write(folder.join(format!("{name}.lock")), change(lock)).unwrap();
        self.start_worker_of(name, &folder.join(format!("{name}.toml")));
    }

    /// Starts a worker with this configuration.
    pub(crate) fn worker_of(&mut self, config: &str, name: &str) {
        std::fs::write(self.path(&format!("{name}.toml")), config).unwrap();
        self.start_worker(name);
    }

    fn start_worker(&mut self, name: &str) {
        self.start_worker_of(name, &self.path(&format!("{name}.toml")));
    }

    fn start_worker_of(&mut self, name: &str, config: &Path) {
        let config = config.display().to_string();
        // The lock is a copy of the gateway's, which this worker's operator vouches for.
        let command = self.command(&["--config", &config, "--accept-lock", "--isolation", "in-process", "worker"]);
        let mut worker = self.spawn(name, command);
        worker.wait_for("runs ");
        self.nodes.insert(name.to_owned(), worker);
    }

    /// Starts the gateway, and returns its address. `more` are keys of its section.
    pub(crate) fn gateway(&mut self, more: &str) -> String {
        self.gateway_of("g1", more, &["--no-auth"])
    }

    /// Starts a gateway with these options.
    pub(crate) fn gateway_of(&mut self, name: &str, more: &str, options: &[&str]) -> String {
        let config = self.write_config(name, 1, more).display().to_string();
        let mut command = self.command(&[
            "--config",
            &config,
            "--isolation",
            "in-process",
            "serve",
            "http",
            "--cell",
            "--listen",
            "127.0.0.1:0",
            "--calls",
            "64",
        ]);
        command.args(self.log_options(name)).args(options);
        let mut gateway = self.spawn(name, command);
        let said = gateway.wait_for(" at http://");
        let address = said.split_once(" at http://").and_then(|(_, rest)| rest.split_once('/')).unwrap().0.to_owned();
        self.nodes.insert(name.to_owned(), gateway);
        address
    }

    /// Starts a gateway that serves MCP beside the HTTP API, and returns its address. `more` are keys of its section.
    pub(crate) fn mcp_gateway(&mut self, name: &str, more: &str) -> String {
        let config = self.write_config(name, 1, more).display().to_string();
        let serve = ["--config", &config, "--isolation", "in-process", "serve"];
        let mut command = self.command(&[&serve[..], &["--cell", "--listen", "127.0.0.1:0", "--no-auth"]].concat());
        command.args(self.log_options(name));
        let mut gateway = self.spawn(name, command);
        let said = gateway.wait_for(" at http://");
        let address = said.split_once(" at http://").and_then(|(_, rest)| rest.split_once('/')).unwrap().0.to_owned();
        self.nodes.insert(name.to_owned(), gateway);
        address
    }

    /// Sends a signal to a node.
    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        kill_process(self.pid(name), signal).unwrap();
    }

    /// Kills a node without warning.
    pub(crate) fn kill(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Waits until a node has ended by itself. Returns whether it succeeded.
    pub(crate) fn has_ended_well(&mut self, name: &str) -> bool {
        let node = self.nodes.get_mut(name).unwrap();
        wait_until(name, || node.child.try_wait().unwrap().is_some());
        node.child.try_wait().unwrap().unwrap().success()
    }

    /// Returns what a node has written to standard error.
    pub(crate) fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.errors"))).unwrap_or_default()
    }
}

impl Process {
    fn said(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits until the process has written this to standard error, and returns all that it has written.
    fn wait_for(&mut self, note: &str) -> String {
        let began = Instant::now();
        loop {
            // Asked first, so that what a process wrote at its end is read.
            let ended = self.child.try_wait().unwrap();
            let said = self.said();
            if said.contains(note) {
                return said;
            }
            assert!(ended.is_none(), "{ended:?} before `{note}`: {said}");
            assert!(began.elapsed() < PATIENCE, "never: `{note}`: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
