//! The components that are served: loaded once, and brought in line with their files whenever somebody looks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use fumehood::{Host, Lock, Namespace};

use super::stamp::Stamp;
use crate::commands::approve;
use crate::config::Config;
use crate::configured::{self, ConfiguredComponent, LoadSettings};
use crate::exit::UsageError;
use crate::recording::PersistRules;
use crate::trust::ConfigSource;
use crate::{host, render};

/// What was asked to be served.
pub(crate) struct ServeRequest {
    /// Where the configuration comes from.
    pub(crate) source: ConfigSource,
    /// What that said at the start.
    pub(crate) config: Config,
    /// The components of the command line.
    pub(crate) typed: Vec<ConfiguredComponent>,
    /// Those of the configuration, as it was at the start.
    pub(crate) configured: Vec<ConfiguredComponent>,
    /// Whether compiling may take many seconds.
    pub(crate) allow_slow_compile: bool,
    /// What is recorded of calls.
    pub(crate) persist: PersistRules,
}

/// A host, and what should be loaded in it.
pub(crate) struct Assembly {
    host: Host,
    source: ConfigSource,
    config: Config,
    typed: Vec<ConfiguredComponent>,
    wanted: Vec<ConfiguredComponent>,
    allow_slow_compile: bool,
    persist: PersistRules,
    /// The stamps of the files that say what is wanted.
    seen: Vec<Option<Stamp>>,
    kept: BTreeMap<Namespace, Kept>,
    /// Whether tools that keep something have where to.
    has_store: bool,
}

/// What became of one component when it was last looked at.
struct Kept {
    stamp: Option<Stamp>,
    terms: LoadSettings,
    /// The terms under which it is served; `None` if it is not.
    in_force: Option<LoadSettings>,
}

impl Assembly {
    /// Loads everything into `host`.
    ///
    /// # Errors
    /// If anything of it cannot be loaded.
    pub(crate) async fn load(host: Host, asked: ServeRequest) -> Result<Self> {
        let ServeRequest { source, config, typed, configured, allow_slow_compile, persist } = asked;
        let wanted = typed.iter().cloned().chain(configured).collect();
        let has_store = config.tools.values().any(|tool| tool.key_value.is_some());
        let (seen, kept) = (Vec::new(), BTreeMap::new());
        let mut assembly =
            Self { host, source, config, typed, wanted, allow_slow_compile, persist, seen, kept, has_store };
        assembly.seen = assembly.sources();
        for component in assembly.wanted.clone() {
            let stamp = Stamp::of(&component.file);
            let load = assembly.load_of(&component);
            host::load(&assembly.host, &host::file_name(&component.file), load).await?;
            let ConfiguredComponent { name, terms, .. } = component;
            assembly.tell_standing(&name);
            assembly.kept.insert(name, Kept { stamp, in_force: Some(terms.clone()), terms });
        }
        Ok(assembly)
    }

    /// Loads again what has changed since the last time, and forgets what is no longer wanted. Whatever is wrong is told
    /// on standard error, once.
    pub(crate) async fn renew(&mut self) {
        self.read_sources();
        let wanted: BTreeSet<&Namespace> = self.wanted.iter().map(|component| &component.name).collect();
        let gone: Vec<Namespace> = self.kept.keys().filter(|name| !wanted.contains(name)).cloned().collect();
        for name in gone {
            self.kept.remove(&name);
            if self.host.unload(name.as_str()) {
                render::note(&format!("`{name}` is not served any more"));
            }
        }
        let changed: Vec<ConfiguredComponent> = self.wanted.iter().filter(|it| self.has_changed(it)).cloned().collect();
        for component in changed {
            self.renew_one(component).await;
        }
    }

    /// The folders in which something could change that matters here.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        let files = self.wanted.iter().map(|component| component.file.as_path()).chain([self.config.origin.as_path()]);
        let real = |file: &Path| file.canonicalize().ok().and_then(|file| file.parent().map(Path::to_owned));
        let wit = self.config.tools.values().filter_map(|tool| tool.wit.as_deref()).map(|wit| self.config.path(wit));
        let beside = files.flat_map(|file| [Some(folder_of(file)), real(file)]).flatten();
        let described = wit.map(|wit| if wit.is_dir() { wit } else { folder_of(&wit) });
        beside.chain(described).chain(self.config.tools_in.iter().map(|folder| self.config.path(folder))).collect()
    }

    /// The files and folders that say what is wanted, as they are now.
    fn sources(&self) -> Vec<Option<Stamp>> {
        let config = &self.config;
        let lock = configured::lock_file(config);
        let folders = config.tools_in.iter().map(|folder| Stamp::of(&config.path(folder)));
        let documentation = config.tools.values().filter_map(|tool| tool.wit.as_deref());
        let documentation = documentation.map(|wit| Stamp::of(&config.path(wit)));
        // A file that changed is read once it is trusted again.
        let trust = self.source.record().as_deref().and_then(Stamp::of);
        [Stamp::of(&config.origin), Stamp::of(&lock), trust].into_iter().chain(folders).chain(documentation).collect()
    }

    fn read_sources(&mut self) {
        let sources = self.sources();
        if sources == self.seen {
            return;
        }
        self.seen = sources;
        if let Err(error) = self.read() {
            render::warning(&format!("{error:#}; what is served stays as it was"));
        }
    }

    fn read(&mut self) -> Result<()> {
        let config = self.source.open()?;
        if !config.origin.exists() {
            return Err(UsageError(format!("{} is gone", config.origin.display())).into());
        }
        let lock = configured::open_lock(&config)?;
        let wanted = self.wanted_by(&config, &lock)?;
        let at_start = |config: &Config| {
            let Config { serve, key_value_store, knowledge, prompts, .. } = config;
            (serve.clone(), key_value_store.clone(), knowledge.clone(), prompts.clone())
        };
        if at_start(&config) != at_start(&self.config) {
            render::warning(
                "[serve], [knowledge], [prompts] and `key_value_store` are read at the start; serve again for what \
                 changed there",
            );
        }
        self.persist.update(&config);
        (self.config, self.wanted) = (config, wanted);
        // It may name other folders now.
        self.seen = self.sources();
        Ok(())
    }

    fn wanted_by(&self, config: &Config, lock: &Lock) -> Result<Vec<ConfiguredComponent>> {
        let mut wanted: Vec<ConfiguredComponent> = Vec::new();
        for component in self.typed.iter().cloned().chain(configured::all(config, lock)?) {
            if let Some(other) = wanted.iter().find(|other| other.name == component.name) {
                let (name, one, two) = (&component.name, other.file.display(), component.file.display());
                return Err(UsageError(format!("{one} and {two} would both be called `{name}`; rename one")).into());
            }
            wanted.push(component);
        }
        Ok(wanted)
    }

    fn has_changed(&self, component: &ConfiguredComponent) -> bool {
        self.kept
            .get(&component.name)
            .is_none_or(|kept| kept.stamp != Stamp::of(&component.file) || kept.terms != component.terms)
    }

    /// What cannot be loaded leaves what was loaded before in place, unless that would keep powers or an approval alive
    /// that were taken back.
    async fn renew_one(&mut self, component: ConfiguredComponent) {
        let (stamp, file) = (Stamp::of(&component.file), host::file_name(&component.file));
        let loaded = self.load_again(&component, &file).await;
        let ConfiguredComponent { name, terms, .. } = component;
        let before = self.kept.remove(&name).and_then(|kept| kept.in_force);
        let in_force = match loaded {
            Ok(()) => {
                let verb = if before.is_some() { "changed and was loaded again" } else { "was loaded" };
                render::note(&format!("{file} {verb}"));
                self.tell_standing(&name);
                Some(terms.clone())
            }
            Err(error) if before.as_ref() == Some(&terms) => {
                render::warning(&format!("{error:#}; `{name}` is served as it was before"));
                before
            }
            Err(error) => {
                self.host.unload(name.as_str());
                render::warning(&format!("{error:#}; `{name}` is not served"));
                None
            }
        };
        self.kept.insert(name, Kept { stamp, terms, in_force });
    }

    async fn load_again(&self, component: &ConfiguredComponent, file: &str) -> Result<()> {
        let keeps = component.terms.section.as_ref().is_some_and(|section| section.key_value.is_some());
        if keeps && !self.has_store {
            let message =
                format!("`{}` has a `key_value` store, which is opened at the start; serve again", component.name);
            return Err(UsageError(message).into());
        }
        host::reload(&self.host, file, self.load_of(component)).await?;
        Ok(())
    }

    fn load_of(&self, component: &ConfiguredComponent) -> fumehood::Load {
        let load = component.load.clone();
        if self.allow_slow_compile { load.allow_slow_compile() } else { load }
    }

    /// Says what keeps the tools of a component from being offered.
    fn tell_standing(&self, name: &Namespace) {
        let Some(pinned) = approve::pinned(&self.host, name) else { return };
        if !pinned.standing().is_approved() {
            let standing = pinned.standing();
            render::warning(&format!("`{name}` {standing}; its tools are offered after `fumehood approve {name}`"));
        }
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
