//! Checks of the `[cell]` section.

use fumehood::cell::{NodePublicKey, is_node_name};
pub(crate) use fumehood_config::cell::{Accept, CellSection, SharedStore};

/// Maximum of `places`.
const MAX_PLACES: u32 = 4096;

/// Returns what is wrong with single keys, each with its path below the section.
pub(super) fn faults(cell: &CellSection) -> Vec<(Vec<&str>, String)> {
    let mut faults = Vec::new();
    let names = [("name", Some(&cell.name)), ("prefix", cell.prefix.as_ref())];
    for (key, name) in names.into_iter().filter_map(|(key, name)| Some((key, name?))) {
        if !is_node_name(name) {
            faults.push((vec![key], format!("invalid name `{name}` in a cell; {NAMES}")));
        }
    }
    for (key, nodes) in [("workers", &cell.workers), ("gateways", &cell.gateways)] {
        for (name, public) in nodes {
            if !is_node_name(name) {
                faults.push((vec![key, name], format!("invalid name `{name}` in a cell; {NAMES}")));
            }
            if let Err(error) = public.parse::<NodePublicKey>() {
                faults.push((vec![key, name], error.to_string()));
            }
        }
    }
    if let Err(message) = check_address(cell) {
        faults.push((vec!["nats"], message));
    }
    if cell.places.is_some_and(|places| places == 0 || places > MAX_PLACES) {
        faults.push((vec!["places"], format!("expected 1 to {MAX_PLACES} places")));
    }
    if cell.queue == Some(0) {
        faults.push((vec!["queue"], "no job could be queued; to turn off jobs, leave `jobs` out".to_owned()));
    }
    if cell.user.is_some() != cell.password.is_some() {
        faults.push((vec!["user"], "`user` and `password` belong together; add the other one".to_owned()));
    }
    if cell.certificate.is_some() != cell.certificate_key.is_some() {
        let message = "`certificate` and `certificate_key` belong together; add the other one";
        faults.push((vec!["certificate"], message.to_owned()));
    }
    faults
}

fn check_address(cell: &CellSection) -> Result<(), String> {
    let nats = &cell.nats;
    if nats.starts_with("tls://") {
        return Ok(());
    }
    let Some(rest) = nats.strip_prefix("nats://") else {
        return Err(format!("invalid NATS URL `{nats}`; expected \"tls://HOST:PORT\""));
    };
    let is_loopback = ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|host| rest.starts_with(host));
    if is_loopback || cell.unencrypted {
        return Ok(());
    }
    Err(format!(
        "arguments and results would be sent unencrypted to `{nats}`; use \"tls://…\", or set `unencrypted = true`"
    ))
}

/// The rule for names.
const NAMES: &str = "expected at most 64 letters, digits, `-` and `_`";

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> String {
        let section: CellSection = toml::from_str(text).unwrap();
        super::faults(&section)
            .iter()
            .map(|(path, message)| format!("{}: {message}", path.join(".")))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn section_at(nats: &str) -> String {
        format!("nats = \"{nats}\"\nname = \"a\"\nkey = \"k\"\n")
    }

    #[test]
    fn plain_connections_stay_on_this_machine() {
        for fine in ["tls://nats.example:4222", "nats://127.0.0.1:4222", "nats://localhost:1", "nats://[::1]:4222"] {
            assert_eq!(faults(&section_at(fine)), "");
        }
        for plain in ["nats://nats.example:4222", "nats://127.0.0.1.example:4222", "http://127.0.0.1:1"] {
            assert!(faults(&section_at(plain)).starts_with("nats: "), "{plain}");
        }
        assert_eq!(faults(&format!("{}unencrypted = true\n", section_at("nats://nats.example:4222"))), "");
    }

    #[test]
    fn names_and_keys_are_checked() {
        let text = "nats = \"tls://a\"\nname = \"a.b\"\nkey = \"k\"\nplaces = 0\nuser = \"u\"\nworkers = { w = \"ed25519:AA\" }\n";
        let found = faults(text);
        for part in ["name: invalid name `a.b`", "workers.w: `ed25519:AA` is not a public key", "places: ", "user: "] {
            assert!(found.contains(part), "{part}\n{found}");
        }
    }
}
