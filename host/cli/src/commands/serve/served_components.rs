//! Served components: loaded at the start, and reloaded when their files change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood::listener::Tenants;
use fumehood::{Host, Lock, Namespace};
pub(crate) use fumehood_platform::files::FileStamp;

use super::tenants;
use crate::commands::approve;
use crate::config::Config;
use crate::config::telemetry::TelemetrySection;
use crate::configured::{self, ConfiguredComponent, LoadSettings, Version};
use crate::exit::UsageError;
use crate::persist_rules::PersistRules;
use crate::trust::ConfigSource;
use crate::{flows, host, protected_files, render, telemetry};

/// A request to serve components.
pub(crate) struct ServeRequest {
    /// Source of the configuration.
    pub(crate) source: ConfigSource,
    /// The configuration at the start.
    pub(crate) config: Config,
    /// Components of the command line.
    pub(crate) typed: Vec<ConfiguredComponent>,
    /// Components of the configuration at the start.
    pub(crate) configured: Vec<ConfiguredComponent>,
    /// True if compiling may take many seconds.
    pub(crate) allow_slow_compile: bool,
    /// Rules on recording arguments and results, by component.
    pub(crate) persist: PersistRules,
}

/// A host, and the components that are to be served by it.
pub(crate) struct ServedComponents {
    host: Host,
    source: ConfigSource,
    config: Config,
    typed: Vec<ConfiguredComponent>,
    wanted: Vec<ConfiguredComponent>,
    allow_slow_compile: bool,
    persist: PersistRules,
    /// Stamps of the files that determine the wanted components.
    source_stamps: Vec<Option<FileStamp>>,
    components: BTreeMap<Namespace, ServedComponent>,
    /// True if the host has a key-value store, which is opened at the start.
    has_store: bool,
    /// The clients of the listener, if there is one.
    tenants: Option<Tenants>,
}

/// A component as it was last loaded.
struct ServedComponent {
    stamp: Option<FileStamp>,
    settings: LoadSettings,
    /// The settings with which it is served; `None` if it is not.
    active_settings: Option<LoadSettings>,
}

impl ServedComponents {
    /// Loads all wanted components into `host`.
    ///
    /// # Errors
    /// If a component cannot be loaded.
    pub(crate) async fn load(host: Host, request: ServeRequest) -> Result<Self> {
        let ServeRequest { source, config, typed, configured, allow_slow_compile, persist } = request;
        let wanted = typed.iter().cloned().chain(configured).collect();
        let has_store = config.tools.values().any(|tool| tool.powers.key_value.is_some());
        let source_stamps = Vec::new();
        let components = BTreeMap::new();
        let mut served = Self {
            host,
            source,
            config,
            typed,
            wanted,
            allow_slow_compile,
            persist,
            source_stamps,
            components,
            has_store,
            tenants: None,
        };
        served.source_stamps = served.stamp_sources();
        for component in served.wanted.clone() {
            let stamp = FileStamp::read(&component.file);
            let load = served.load_request(&component);
            let loaded = host::load_configured(&served.host, &component, load).await?;
            let ConfiguredComponent { name, terms, .. } = component;
            served.warn_if_unapproved(&name);
            let active_settings = loaded.then(|| terms.clone());
            served.components.insert(name, ServedComponent { stamp, active_settings, settings: terms });
        }
        Ok(served)
    }

    /// Changes these clients, too, when the configuration does.
    pub(crate) fn with_tenants(self, tenants: Option<Tenants>) -> Self {
        Self { tenants, ..self }
    }

    /// Like [`Self::refresh`], and reads the configuration whether it has changed or not: what it names may have.
    pub(crate) async fn reload_all(&mut self) {
        if self.config == Config::none() {
            render::note("no configuration to reload; checking components");
        } else {
            match self.reread().await {
                Ok(()) => render::note(&format!("reloaded {}", self.config.origin.display())),
                Err(error) => render::warning(&format!("{error:#}; the current tools stay served")),
            }
        }
        self.refresh().await;
    }

    /// Reloads components that have changed since the last time, and unloads those that are no longer wanted. Each
    /// error is reported once on standard error.
    pub(crate) async fn refresh(&mut self) {
        self.reread_if_changed().await;
        let wanted: BTreeSet<&Namespace> = self.wanted.iter().map(|component| &component.name).collect();
        let gone: Vec<Namespace> = self.components.keys().filter(|name| !wanted.contains(name)).cloned().collect();
        for name in gone {
            self.components.remove(&name);
            if self.host.unload(name.as_str()) {
                render::note_of_event(&format!("`{name}` is no longer served"));
            }
        }
        let changed: Vec<ConfiguredComponent> = self.wanted.iter().filter(|it| self.has_changed(it)).cloned().collect();
        for component in changed {
            self.reload_component(component).await;
        }
    }

    /// Returns the folders in which a change could affect the served components.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        let files = self.wanted.iter().map(|component| component.file.as_path()).chain([self.config.origin.as_path()]);
        let wit = self.config.tools.values().filter_map(|tool| tool.wit.as_deref()).map(|wit| self.config.path(wit));
        let beside = files.flat_map(|file| [Some(parent_folder(file)), real_folder(file)]).flatten();
        let described = wit.map(|wit| if wit.is_dir() { wit } else { parent_folder(&wit) });
        beside.chain(described).chain(self.config.tools_in.iter().map(|folder| self.config.path(folder))).collect()
    }

    /// Stamps the files and folders that determine the wanted components.
    fn stamp_sources(&self) -> Vec<Option<FileStamp>> {
        let config = &self.config;
        let lock = configured::lock_file(config);
        let folders = config.tools_in.iter().map(|folder| FileStamp::read(&config.path(folder)));
        let documentation = config.tools.values().filter_map(|tool| tool.wit.as_deref());
        let documentation = documentation.map(|wit| FileStamp::read(&config.path(wit)));
        // The record of trust is included, because a changed configuration is read once it is trusted again.
        let trust = self.source.record_path().as_deref().and_then(FileStamp::read);
        // So is that of this user's approvals: approving what the lock proposes changes nothing in the lock.
        let approvals = configured::record_path(config).as_deref().and_then(FileStamp::read);
        [FileStamp::read(&config.origin), FileStamp::read(&lock), trust, approvals]
            .into_iter()
            .chain(folders)
            .chain(documentation)
            .collect()
    }

    async fn reread_if_changed(&mut self) {
        let sources = self.stamp_sources();
        if sources == self.source_stamps {
            return;
        }
        self.source_stamps = sources;
        if let Err(error) = self.reread().await {
            render::warning(&format!("{error:#}; the current tools stay served"));
        }
    }

    async fn reread(&mut self) -> Result<()> {
        let config = self.source.open()?;
        if !config.origin.exists() {
            return Err(UsageError(format!("{} is gone", config.origin.display())).into());
        }
        let lock = configured::open_lock(&config)?;
        let wanted = self.wanted_components(&config, &lock).await?;
        self.check_memory(&wanted)?;
        // Before any tool that is loaded now could read one.
        protected_files::named_files(&config).iter().for_each(|(file, role)| self.host.protect(file, *role));
        if let Some(current) = &self.tenants {
            tenants::replace(current, &self.config, &config)?;
        }
        let for_next_start = changes_for_next_start(&self.config, &config);
        if !for_next_start.is_empty() {
            render::warning(&format!("some changes in {} need a restart", for_next_start.join(" and ")));
        }
        self.persist.update(&config);
        telemetry::update(&config);
        (self.config, self.wanted) = (config, wanted);
        // The new configuration may name other folders.
        self.source_stamps = self.stamp_sources();
        Ok(())
    }

    /// Checks that calls may have the memory that they are to have, because it is reserved at the start.
    ///
    /// # Errors
    /// If a component may take more.
    fn check_memory(&self, wanted: &[ConfiguredComponent]) -> Result<()> {
        let ceiling = self.host.memory_ceiling();
        let Some(larger) = wanted.iter().find(|component| component.limits.memory > ceiling) else { return Ok(()) };
        let name = &larger.name;
        let memory = display_bytes(larger.limits.memory as u64);
        let ceiling = display_bytes(ceiling as u64);
        let message =
            format!("`{name}` may use {memory}, but this server reserved {ceiling} per call at its start; restart it");
        Err(UsageError(message).into())
    }

    async fn wanted_components(&self, config: &Config, lock: &Lock) -> Result<Vec<ConfiguredComponent>> {
        let mut wanted: Vec<ConfiguredComponent> = Vec::new();
        let configured = configured::all(config, lock, Version::Pinned).await?;
        for component in self.typed.iter().cloned().chain(configured) {
            if let Some(other) = wanted.iter().find(|other| other.name == component.name) {
                let name = &component.name;
                let one = other.file.display();
                let two = component.file.display();
                return Err(UsageError(format!("{one} and {two} would both be called `{name}`; rename one")).into());
            }
            wanted.push(component);
        }
        Ok(wanted)
    }

    fn has_changed(&self, component: &ConfiguredComponent) -> bool {
        self.components
            .get(&component.name)
            .is_none_or(|served| served.stamp != FileStamp::read(&component.file) || served.settings != component.terms)
    }

    /// Reloads a component. If that fails, the loaded one stays in place, unless it has powers or an approval that were
    /// revoked.
    async fn reload_component(&mut self, component: ConfiguredComponent) {
        let stamp = FileStamp::read(&component.file);
        let file = component.label.clone();
        let loaded = self.reload(&component, &file).await;
        let ConfiguredComponent { name, terms, .. } = component;
        let served = self.components.remove(&name);
        let is_same_file = served.as_ref().is_some_and(|served| served.stamp == stamp);
        let before = served.and_then(|served| served.active_settings);
        let active_settings = match loaded {
            Ok(()) => {
                let verb = match before {
                    Some(_) if is_same_file => "was reloaded, because its settings or its approval changed",
                    Some(_) => "changed and was reloaded",
                    None => "was loaded",
                };
                render::note_of_event(&format!("{file} {verb}"));
                self.warn_if_unapproved(&name);
                Some(terms.clone())
            }
            Err(error) if before.as_ref() == Some(&terms) => {
                render::warning(&format!("{error:#}; the previous version of `{name}` stays served"));
                before
            }
            Err(error) => {
                self.host.unload(name.as_str());
                render::warning(&format!("{error:#}; `{name}` is not served"));
                None
            }
        };
        self.components.insert(name, ServedComponent { stamp, settings: terms, active_settings });
    }

    async fn reload(&self, component: &ConfiguredComponent, file: &str) -> Result<()> {
        let needs_store = component.terms.section.as_ref().is_some_and(|section| section.powers.key_value.is_some());
        if needs_store && !self.has_store {
            let message = format!(
                "`{}` has a `key_value` store, which is opened at the start; restart the server",
                component.name
            );
            return Err(UsageError(message).into());
        }
        host::reload(&self.host, file, self.load_request(component)).await?;
        Ok(())
    }

    fn load_request(&self, component: &ConfiguredComponent) -> fumehood::Load {
        let load = component.load.clone();
        if self.allow_slow_compile { load.allow_slow_compile() } else { load }
    }

    /// Warns if the tools of a component are not offered because it is not approved.
    fn warn_if_unapproved(&self, name: &Namespace) {
        let Some(check) = approve::approval_check(&self.host, name) else { return };
        if !check.standing().is_approved() {
            let standing = check.standing();
            render::warning_of_event(&format!(
                "`{name}` {standing}; its tools are served after `fumehood approve {name}`"
            ));
        }
    }
}

/// Returns the settings that differ, of those that are read at the start only.
fn changes_for_next_start(before: &Config, after: &Config) -> Vec<&'static str> {
    // All are named, so that a new one has to be put on one of the two sides.
    let Config {
        // These hold at once, or are no settings.
        origin: _,
        offline: _,
        accept_lock: _,
        approval: _,
        tools_in: _,
        limits: _,
        tools: _,
        registry: _,
        tenants: _,
        key_value_store,
        http_in_flight,
        model,
        agent,
        arguments,
        skills,
        channels,
        guardrails,
        flows: of_flows,
        hooks,
        knowledge,
        prompts,
        log,
        logging,
        #[cfg(feature = "postgres")]
        storage,
        telemetry,
        serve,
        jobs,
        #[cfg(feature = "cell")]
        cell,
        mcp,
    } = before;
    let settings = [
        ("[serve]", *serve != after.serve),
        ("[jobs]", *jobs != after.jobs),
        ("[model]", *model != after.model),
        ("[agent]", *agent != after.agent),
        ("[arguments]", *arguments != after.arguments),
        ("[guardrails]", *guardrails != after.guardrails),
        ("[skills]", *skills != after.skills),
        ("[channels]", *channels != after.channels),
        ("[hooks]", *hooks != after.hooks),
        ("[flows]", *of_flows != after.flows),
        ("labels of flows", flows::labels(before) != flows::labels(after)),
        ("[knowledge]", *knowledge != after.knowledge),
        ("[prompts]", *prompts != after.prompts),
        ("[mcp]", *mcp != after.mcp),
        ("[log]", *log != after.log),
        ("[logging]", *logging != after.logging),
        #[cfg(feature = "postgres")]
        ("[storage]", *storage != after.storage),
        #[cfg(feature = "cell")]
        ("[cell]", *cell != after.cell),
        ("[telemetry]", without_content(telemetry) != without_content(&after.telemetry)),
        ("`key_value_store`", *key_value_store != after.key_value_store),
        ("`http_in_flight`", *http_in_flight != after.http_in_flight),
    ];
    settings.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// Returns the settings that are read at the start only: `content` is updated when the configuration changes.
fn without_content(telemetry: &TelemetrySection) -> TelemetrySection {
    TelemetrySection { content: false, ..telemetry.clone() }
}

/// Returns the folder of the file behind links.
fn real_folder(file: &Path) -> Option<PathBuf> {
    file.canonicalize().ok()?.parent().map(Path::to_owned)
}

fn parent_folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        toml::from_str::<Config>(text).unwrap()
    }

    fn assert_changes(before: &str, after: &str, expected: &[&str]) {
        assert_eq!(changes_for_next_start(&parse(before), &parse(after)), expected, "{after}");
    }

    #[test]
    fn settings_of_the_start_are_compared_by_section() {
        assert_changes("", "", &[]);
        assert_changes("", "[telemetry]\ncontent = true\n", &[]);
        assert_changes("", "[telemetry]\nsampling = 0.5\n[serve]\nqueue = 3\n", &["[serve]", "[telemetry]"]);
        assert_changes("", "[agent]\nconcurrency = 3\n[guardrails]\ndeny = [\"a__b\"]\n", &["[agent]", "[guardrails]"]);
        assert_changes("", "http_in_flight = 3\n[log]\noff = true\n", &["[log]", "`http_in_flight`"]);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn another_server_of_the_log_is_noticed() {
        let config = |url: &str| parse(&format!("[storage]\nurl = \"postgres://u@{url}/d\"\n"));
        assert_eq!(changes_for_next_start(&config("one"), &config("two")), ["[storage]"]);
        assert_eq!(changes_for_next_start(&config("one"), &Config::default()), ["[storage]"]);
    }

    fn config_of_cell(name: &str) -> Config {
        parse(&format!("[cell]\nnats = \"tls://a\"\nname = \"{name}\"\nkey = \"k\"\n"))
    }

    #[cfg(feature = "cell")]
    #[test]
    fn another_cell_is_noticed() {
        assert_eq!(changes_for_next_start(&config_of_cell("one"), &config_of_cell("two")), ["[cell]"]);
    }

    #[test]
    fn detects_a_replaced_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let other = folder.path().join("b");
        assert_eq!(FileStamp::read(&path), None);
        std::fs::write(&path, "one").unwrap();
        let first = FileStamp::read(&path);
        assert!(first.is_some() && first == FileStamp::read(&path));
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(FileStamp::read(&path), first);
    }
}
