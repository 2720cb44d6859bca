//! A component's imports, with a description and the power that each of them needs.

use std::borrow::Cow;
use std::fmt;

use fumehood_core::policy::permission::{Grant, Power};
use fumehood_core::text::sanitize::printable;
use serde::Serialize;

use super::surface::Surface;
use crate::wasi::Capabilities;
use crate::wasi::capability::LinkedCapability;

/// One interface that a component imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The name in the component, for example `wasi:filesystem/types@0.2.6`.
    pub name: String,
    /// A description of what the component could do with the import if it were granted the power.
    pub meaning: Cow<'static, str>,
    /// The power that the import needs; `None` if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// The capability of the embedder that provides the import; `None` if the host itself does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
}

const UNKNOWN: &str = "unknown to this host";
const TYPES: &str = "define types";

impl Import {
    /// Returns whether this host provides nothing of that name.
    pub(crate) fn is_unknown(&self) -> bool {
        self.meaning == UNKNOWN
    }
}

/// The version of WASI 0.3 that this host has.
pub(crate) const P3_VERSION: &str = "0.3.0";

/// The interfaces of WASI 0.3 that this host has.
const P3_INTERFACES: [&str; 23] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/types",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/system-clock",
    "wasi:clocks/types",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:http/client",
    "wasi:http/types",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/types",
];

/// Interface, meaning, power. The first row whose interface is a prefix of the import's name applies.
const KNOWN: &[(&str, &str, Option<Power>)] = &[
    ("fumehood:tool/log", "write log lines for the operator", None),
    ("fumehood:tool/progress", "report progress while it runs", None),
    ("fumehood:tool/context", "know its call's id, remaining time and actor; read agent state if granted", None),
    ("fumehood:tool/key-value", "keep keys and values between its calls, in a private store", Some(Power::KeyValue)),
    ("fumehood:tool/secrets", "ask whether it has a secret by name, without seeing it", None),
    ("fumehood:tool/", "share types with the host", None),
    ("wasi:cli/environment", "read environment variables and arguments", Some(Power::Env)),
    ("wasi:cli/exit", "end itself early", None),
    ("wasi:cli/stdin", "read its standard input, which only calls of programs have", None),
    ("wasi:cli/stdout", "write to its standard output, which is captured", None),
    ("wasi:cli/stderr", "write to its standard error, which is captured", None),
    ("wasi:cli/terminal", "ask whether it runs in a terminal, which it does not", None),
    ("wasi:cli/types", "share types with the host", None),
    ("wasi:io/error", "read why a stream failed", None),
    ("wasi:io/", "wait for, read and write its streams", None),
    ("wasi:clocks/wall-clock", "tell the time, to the millisecond", None),
    ("wasi:clocks/system-clock", "tell the time, to the millisecond", None),
    ("wasi:clocks/", "measure time, to the millisecond, and sleep", None),
    ("wasi:random/", "get random bytes", None),
    ("wasi:filesystem/preopens", "list its granted folders", Some(Power::Files)),
    ("wasi:filesystem/", "read and write files in its granted folders", Some(Power::Files)),
    ("wasi:sockets/ip-name-lookup", "look up the names of granted hosts", Some(Power::Tcp)),
    ("wasi:sockets/udp", "open UDP sockets", Some(Power::Sockets)),
    ("wasi:sockets/types", "open network sockets", Some(Power::Sockets)),
    ("wasi:sockets/", "open TCP connections to granted hosts", Some(Power::Tcp)),
    ("wasi:http/outgoing-handler", "make HTTP requests", Some(Power::Http)),
    ("wasi:http/client", "make HTTP requests", Some(Power::Http)),
    ("wasi:http/", "build HTTP requests", Some(Power::Http)),
];

/// An import of a power that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ungranted {
    /// The name in the component.
    pub name: String,
    /// The power that the import needs.
    pub power: Power,
}

impl fmt::Display for Ungranted {
    /// Writes the import, the power, and the line of a policy that would allow it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` needs {}; ", self.name, self.power)?;
        match self.power.example() {
            Some(line) => write!(f, "to allow it: {line}"),
            None => f.write_str("this can never be granted"),
        }
    }
}

/// Returns the imports whose power is not granted.
pub(crate) fn find_ungranted(imports: &[Import], grant: &Grant) -> Vec<Ungranted> {
    let ungranted = imports.iter().filter_map(|import| Some((import, import.power?)));
    ungranted
        .filter(|(import, power)| !is_granted(grant, import, *power))
        .map(|(import, power)| Ungranted { name: import.name.clone(), power })
        .collect()
}

/// Returns whether an interface may be imported. The environment and the arguments share one.
fn is_granted(grant: &Grant, import: &Import, power: Power) -> bool {
    match &import.capability {
        Some(name) => grant.capability(name).is_some(),
        None => grant.has(power) || (power == Power::Env && grant.has(Power::Args)),
    }
}

/// Describes a component's imports, in the component's order.
pub(crate) fn list(surface: &Surface, capabilities: &Capabilities) -> Vec<Import> {
    let describe = |name: &String| match capabilities.provider_of(name) {
        Some(linked) => describe_provided(name, linked),
        None => describe(name, surface.imported_types.contains(name)),
    };
    surface.imports.iter().map(describe).collect()
}

fn describe(name: &str, is_type: bool) -> Import {
    let known = KNOWN.iter().find(|(start, ..)| name.starts_with(start));
    let unknown = if is_type { TYPES } else { UNKNOWN };
    let (meaning, power) = known.map_or((unknown, None), |(_, meaning, power)| (*meaning, *power));
    Import { name: name.to_owned(), meaning: Cow::Borrowed(meaning), power, capability: None }
}

fn describe_provided(name: &str, linked: &LinkedCapability) -> Import {
    let definition = &linked.definition;
    Import {
        name: name.to_owned(),
        meaning: Cow::Owned(printable(definition.description()).into_owned()),
        power: Some(linked.built_in.map_or(Power::Capability, |built_in| built_in.power)),
        capability: linked.built_in.is_none().then(|| definition.name().to_owned()),
    }
}

/// Returns an import of a version of WASI that this host does not have, with the versions that it has.
pub(crate) fn find_foreign_version(imports: &[Import]) -> Option<(&Import, String)> {
    // Interfaces of a capability have the versions in its WIT.
    let of_wasi = imports.iter().filter(|import| import.capability.is_none());
    let mut split = of_wasi.filter_map(|import| Some((import, import.name.split_once('@')?)));
    split.find_map(|(import, (interface, version))| {
        let is_listed = KNOWN.iter().any(|(start, ..)| start.starts_with("wasi:") && interface.starts_with(start));
        let has_p3 = P3_INTERFACES.contains(&interface);
        let is_p3 = version.strip_prefix("0.3.").is_some_and(|patch| patch.bytes().all(|digit| digit.is_ascii_digit()));
        if !is_listed || version.starts_with("0.2.") || (is_p3 && has_p3) {
            return None;
        }
        Some((
            import,
            if has_p3 { format!("in the versions 0.2.x and {P3_VERSION}") } else { "in 0.2.x at most".to_owned() },
        ))
    })
}

/// Returns the version in the name of an interface of the contract: `fumehood:tool/log@0.1.0` → `0.1.0`. It is `none`
/// if the name has no version. Returns `None` for other interfaces.
pub(crate) fn contract_version(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("fumehood:tool/")?;
    Some(rest.split_once('@').map_or("none", |(_, version)| version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_import(name: &str, meaning: &str, power: Option<Power>) {
        let import = describe(name, false);
        assert!(import.meaning.contains(meaning), "{import:?}");
        assert_eq!(import.power, power, "{name}");
    }

    #[test]
    fn describes_imports_and_their_power() {
        check_import("wasi:filesystem/types@0.2.6", "files", Some(Power::Files));
        check_import("wasi:http/outgoing-handler@0.2.12", "HTTP requests", Some(Power::Http));
        check_import("wasi:sockets/tcp@0.2.0", "TCP connections", Some(Power::Tcp));
        check_import("wasi:sockets/ip-name-lookup@0.2.0", "look up", Some(Power::Tcp));
        check_import("wasi:sockets/udp-create-socket@0.2.0", "UDP", Some(Power::Sockets));
        check_import("wasi:cli/stdout@0.2.0", "captured", None);
        check_import("fumehood:tool/log@0.1.0", "log lines", None);
        check_import("fumehood:tool/key-value@0.1.0", "private store", Some(Power::KeyValue));
        check_import("fumehood:tool/secrets@0.1.0", "without seeing it", None);
        check_import("acme:db/sql@1.0.0", "unknown", None);
        assert!(describe("acme:db/sql@1.0.0", false).is_unknown());
        assert!(!describe("acme:db/types@1.0.0", true).is_unknown());
    }

    #[test]
    fn tells_versions_of_wasi_that_this_host_lacks() {
        let find = |name: &str| {
            let imports = [describe(name, false)];
            find_foreign_version(&imports).map(|(_, offered)| offered)
        };
        for known in
            ["wasi:cli/environment@0.2.9", "wasi:cli/environment@0.3.0", "wasi:http/client@0.3.1", "acme:a/b@9.0.0"]
        {
            assert_eq!(find(known), None, "{known}");
        }
        let both = Some("in the versions 0.2.x and 0.3.0".to_owned());
        assert_eq!(find("wasi:cli/environment@0.3.0-rc-2026-03-15"), both);
        assert_eq!(find("wasi:http/types@0.4.0"), both);
        assert_eq!(find("wasi:io/streams@0.3.0"), Some("in 0.2.x at most".to_owned()));
    }

    #[test]
    fn reads_the_contract_version_from_the_name() {
        assert_eq!(contract_version("fumehood:tool/log@0.1.0"), Some("0.1.0"));
        assert_eq!(contract_version("fumehood:tool/tools"), Some("none"));
        assert_eq!(contract_version("wasi:cli/exit@0.2.0"), None);
    }
}
