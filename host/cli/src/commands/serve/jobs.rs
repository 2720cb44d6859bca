//! The jobs of a server: calls that outlive their request, and their results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::hooks::ToolPatterns;
use fumehood::job::{JobLimits, JobStore, MemoryJobs};
use fumehood::listener::{JobOptions, Jobs};
use fumehood::{HostBuilder, JobFile, SavedJobs};

use super::cell::QueuedJobs;
use crate::config::Config;
use crate::recording::Recording;
use crate::{render, user_folders};

/// Time that the ends of jobs have to be saved when the server ends.
const SAVE_TIME: Duration = Duration::from_secs(5);

/// The file of the jobs, opened before anything is loaded, and the jobs themselves.
pub(super) struct ServedJobs {
    store: Arc<dyn JobStore>,
    /// The files that no tool may reach.
    files: Vec<PathBuf>,
}

impl ServedJobs {
    /// Opens the file of the jobs of this configuration. `None` if there are to be none. Without an event log they are in
    /// memory, and so they are, with a warning, if the file cannot be opened.
    pub(super) fn open(config: &Config, recording: Option<&Recording>) -> Option<Self> {
        if config.jobs.off {
            return None;
        }
        if recording.is_none() {
            return Some(Self::in_memory());
        }
        let Some(path) = user_folders::jobs_of(config) else {
            render::warning("jobs end with the server, because there is no home folder to save them in");
            return Some(Self::in_memory());
        };
        match JobFile::open(&path) {
            Ok(file) => {
                let files = file.files();
                Some(Self { store: Arc::new(SavedJobs::new(file)), files })
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                render::warning(&format!("{error:#}; jobs end with the server"));
                Some(Self::in_memory())
            }
        }
    }

    fn in_memory() -> Self {
        Self { store: Arc::new(MemoryJobs::default()), files: Vec::new() }
    }

    /// Keeps the files from every tool.
    pub(super) fn protect(&self, mut builder: HostBuilder) -> HostBuilder {
        for file in &self.files {
            builder = builder.own_folder(file);
        }
        builder
    }

    /// Returns the jobs: those of the cell, if there is one that keeps jobs.
    ///
    /// # Errors
    /// If a pattern of tools is invalid.
    pub(super) fn jobs(self, config: &Config, recording: Option<&Recording>, cell: Option<QueuedJobs>) -> Result<Jobs> {
        let section = &config.jobs;
        let limits = JobLimits::default();
        let default = JobOptions::default();
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let at_once = ToolPatterns::new(&section.tools).context("[jobs] `tools`")?;
        let persist = recording.map(|recording| recording.persist().clone());
        let options = JobOptions {
            after: section.after.map_or(default.after, |time| time.0),
            ttl: section.keep.map_or(default.ttl, |time| time.0),
            limits: JobLimits {
                owner_jobs: section.per_client.map_or(limits.owner_jobs, count),
                owner_bytes: section.bytes_per_client.map_or(limits.owner_bytes, |bytes| bytes.0),
                ..limits
            },
            at_once: Arc::new(move |tool| at_once.matches(tool)),
            is_queued: cell.as_ref().map_or(default.is_queued, |cell| Arc::clone(&cell.is_remote)),
            is_stored: Arc::new(move |tool| persist.as_ref().is_none_or(|rules| rules.get(tool).is_full())),
        };
        Ok(Jobs::new(cell.map_or(self.store, |cell| cell.store), options))
    }
}

/// Waits until the ends of all jobs are saved, beside the guests' own grace.
pub(super) async fn close(jobs: Option<Jobs>, grace: Duration) {
    if let Some(jobs) = jobs {
        jobs.close(grace.saturating_add(SAVE_TIME)).await;
    }
}
