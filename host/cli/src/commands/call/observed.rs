//! `fumehood call --observe`: the section of a configuration that would allow what a call was refused.

use std::path::Path;

use fumehood::permission::Refusal;
use fumehood::sanitize::printable;
use toml::{Table, Value};

use crate::flags;

/// Stands for the port in the rule of a host whose name was only looked up.
const UNKNOWN_PORT: &str = "PORT";

/// The keys that would allow something, each with what was tried.
#[derive(Debug, Default)]
struct Wanted {
    /// In the order of the attempts.
    keys: Vec<WantedKey>,
    /// What no key allows.
    never: Vec<String>,
}

#[derive(Debug)]
struct WantedKey {
    key: String,
    value: Value,
    attempts: Vec<String>,
}

/// Returns the section for a component; `None` if nothing was refused.
pub(super) fn section(name: &str, component: &Path, refused: &[Refusal]) -> Option<String> {
    if refused.is_empty() {
        return None;
    }
    let mut wanted = Wanted::default();
    for refusal in refused {
        wanted.add(refusal);
    }
    wanted.drop_unknown_ports();
    let place = Value::from(component.display().to_string());
    let mut lines = vec![
        "# What this call was refused. A tool may stop at its first refusal: grant what you accept, and observe again."
            .to_owned(),
        format!("[tools.{name}]"),
        format!("component = {place}"),
    ];
    for WantedKey { key, value, attempts } in &wanted.keys {
        lines.extend(attempts.iter().map(|tried| format!("# {tried}")));
        lines.push(format!("{key} = {value}"));
    }
    lines.extend(wanted.never.iter().map(|tried| format!("# {tried}; nothing allows that")));
    Some(lines.join("\n"))
}

impl Wanted {
    fn add(&mut self, refusal: &Refusal) {
        // A line break of a guest's text would end the comment.
        let tried = printable(&refusal.tried).replace('\n', " ");
        // A line that was shortened is none.
        let allow = refusal.allow.as_deref().and_then(|line| line.parse::<Table>().ok());
        let Some(allow) = allow.filter(|allow| !allow.is_empty()) else {
            self.never.push(tried);
            return;
        };
        for (key, value) in allow {
            let is_reaching = flags::REACHING_KEYS.contains(&key.as_str());
            let private: Vec<Value> =
                if is_reaching { flags::private_networks(&value).map(Value::from).collect() } else { Vec::new() };
            self.add_key(key, value, &tried);
            if !private.is_empty() {
                self.add_key("private_addresses".to_owned(), Value::Array(private), &tried);
            }
        }
    }

    /// Drops hosts of `tcp` without a port, if a connection to the host has shown the port.
    fn drop_unknown_ports(&mut self) {
        let Some(tcp) = self.keys.iter_mut().find(|wanted| wanted.key == "tcp") else { return };
        let Value::Array(rules) = &mut tcp.value else { return };
        let known: Vec<String> = rules.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        rules.retain(|rule| {
            let host = rule.as_str().and_then(|rule| rule.strip_suffix(UNKNOWN_PORT)?.strip_suffix(':'));
            host.is_none_or(|host| !known.iter().any(|rule| has_port(rule, host)))
        });
    }

    fn add_key(&mut self, key: String, value: Value, tried: &str) {
        match self.keys.iter_mut().find(|wanted| wanted.key == key) {
            Some(wanted) => wanted.merge(value, tried),
            None => self.keys.push(WantedKey { key, value, attempts: vec![tried.to_owned()] }),
        }
    }
}

/// Returns whether a rule of `tcp` names a port of a host.
fn has_port(rule: &str, host: &str) -> bool {
    rule.strip_prefix(host).and_then(|rest| rest.strip_prefix(':')).is_some_and(|port| port != UNKNOWN_PORT)
}

impl WantedKey {
    /// Adds the entries of a list. Of two values that are no lists, the first one stays.
    fn merge(&mut self, value: Value, tried: &str) {
        if let (Value::Array(entries), Value::Array(more)) = (&mut self.value, value) {
            for entry in more {
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        if !self.attempts.iter().any(|known| known == tried) {
            self.attempts.push(tried.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use fumehood::permission::Power;

    use super::*;

    fn refusal(power: Power, tried: &str, allow: Option<&str>) -> Refusal {
        Refusal {
            power,
            tried: tried.to_owned(),
            because: "it was not granted".to_owned(),
            allow: allow.map(str::to_owned),
        }
    }

    #[test]
    fn refusals_become_a_section() {
        let get = Some("http = [\"GET https://a.example/**\"]");
        let refused = [
            refusal(Power::Http, "GET https://a.example/1", get),
            refusal(Power::Http, "POST https://b.example/\n[tools.x]", Some("http = [\"POST https://b.example/**\"]")),
            refusal(Power::KeyValue, "using the store", Some("key_value = \"1MiB\"")),
            refusal(Power::Http, "GET https://a.example/2", get),
            refusal(Power::Sockets, "a UDP socket", None),
            refusal(Power::Tcp, "looking up the name db.example.com", Some("tcp = [\"db.example.com:PORT\"]")),
            refusal(Power::Tcp, "looking up the name a.example", Some("tcp = [\"a.example:PORT\"]")),
            refusal(Power::Tcp, "connecting to db.example.com:5432", Some("tcp = [\"db.example.com:5432\"]")),
            refusal(Power::Tcp, "connecting to 127.0.0.1:6379", Some("tcp = [\"127.0.0.1:6379\"]")),
            refusal(Power::Http, "GET https://c.example", Some("http = [\"GET ")),
        ];
        let text = section("api", Path::new("my \"api\".wasm"), &refused).unwrap();
        expect![[r#"
            # What this call was refused. A tool may stop at its first refusal: grant what you accept, and observe again.
            [tools.api]
            component = 'my "api".wasm'
            # GET https://a.example/1
            # POST https://b.example/ [tools.x]
            # GET https://a.example/2
            http = ["GET https://a.example/**", "POST https://b.example/**"]
            # using the store
            key_value = "1MiB"
            # looking up the name db.example.com
            # looking up the name a.example
            # connecting to db.example.com:5432
            # connecting to 127.0.0.1:6379
            tcp = ["a.example:PORT", "db.example.com:5432", "127.0.0.1:6379"]
            # connecting to 127.0.0.1:6379
            private_addresses = ["127.0.0.1/32"]
            # a UDP socket; nothing allows that
            # GET https://c.example; nothing allows that"#]]
        .assert_eq(&text);
        assert!(text.parse::<Table>().is_ok());
        assert_eq!(section("api", Path::new("api.wasm"), &[]), None);
    }
}
