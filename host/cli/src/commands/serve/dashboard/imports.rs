//! Imports of served components without the power for them.

use std::collections::BTreeMap;

use fumehood::http_api::dashboard::ports::ComponentImports;
use fumehood::{Host, PrintableText, Ungranted};

/// The components of a host.
pub(super) struct ServedImports(Host);

impl ServedImports {
    pub(super) fn new(host: Host) -> Self {
        Self(host)
    }
}

impl ComponentImports for ServedImports {
    fn ungranted(&self, component: &str) -> Vec<PrintableText> {
        let loaded = self.0.component(component);
        loaded.map(|loaded| by_power(loaded.component().ungranted())).unwrap_or_default()
    }
}

/// Returns a line for each power: `http: wasi:http/outgoing-handler@0.2.6, wasi:http/types@0.2.6`.
fn by_power(ungranted: &[Ungranted]) -> Vec<PrintableText> {
    let mut powers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for import in ungranted {
        powers.entry(import.power.as_str()).or_default().push(&import.name);
    }
    powers.into_iter().map(|(power, names)| format!("{power}: {}", names.join(", ")).into()).collect()
}
