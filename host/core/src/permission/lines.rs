//! A grant as lines of a policy: to show, to compare and to pin. One grant has one text.

use std::path::Path;
use std::time::Duration;

use super::files::{Access, Folder, Quota};
use super::http::HttpLimits;
use super::{ClockStep, Grant, Injection, Power, Secret};

impl Grant {
    /// One line for each thing that is granted, as a policy would have it, sorted. Values of secrets are not in them.
    ///
    /// Folders below `base` are written relative to it, so that a policy means the same wherever it is checked out.
    #[must_use]
    pub fn lines(&self, base: Option<&Path>) -> Vec<String> {
        let mut lines: Vec<String> = self.folders().iter().map(|folder| folder_line(folder, base)).collect();
        if self.state() {
            lines.push("state = true".to_owned());
        }
        lines.extend(self.scratch().map(|quota| format!("scratch = {}", of_quota(quota))));
        self.add_http(&mut lines);
        lines.extend(self.secrets().iter().map(secret_line));
        let variable = |(name, value): &(String, String)| format!("env: {name} = {}", quoted(value));
        lines.extend(self.environment().variables().iter().map(variable));
        if self.has(Power::Args) {
            let arguments: Vec<String> = self.command_line().arguments().iter().map(|text| quoted(text)).collect();
            lines.push(format!("args = [{}]", arguments.join(", ")));
        }
        if self.clock() != ClockStep::DEFAULT {
            lines.push(format!("clock = \"{}ns\"", self.clock().duration().as_nanos()));
        }
        if let Some(seed) = self.seed() {
            let digits: String = seed.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            lines.push(format!("random_seed = \"{digits}\""));
        }
        lines.extend(self.key_value().map(|quota| format!("key_value = {}", quota.bytes())));
        lines.sort();
        lines
    }

    fn add_http(&self, lines: &mut Vec<String>) {
        let Some(http) = self.http() else { return };
        lines.extend(http.rules().iter().map(|rule| format!("http: {rule}")));
        lines.extend(http.private().iter().map(|net| format!("private_addresses: {net}")));
        if *http.limits() != HttpLimits::default() {
            let HttpLimits { requests, bytes_out, bytes_in, in_flight, connect, tls, first_byte, between_bytes } =
                *http.limits();
            let [connect, tls, first, between] = [connect, tls, first_byte, between_bytes].map(time_text);
            lines.push(format!(
                "http_limits: requests = {requests}, bytes_out = {bytes_out}, bytes_in = {bytes_in}, in_flight = \
                 {in_flight}, connect = {connect}, tls = {tls}, first_byte = {first}, between_bytes = {between}"
            ));
        }
    }

    /// Whether anything of that sort is granted, beyond what every tool has.
    #[must_use]
    pub fn has(&self, power: Power) -> bool {
        match power {
            Power::Files => !self.folders().is_empty() || self.scratch().is_some(),
            Power::Http => self.http().is_some(),
            Power::Env => !self.environment().variables().is_empty(),
            Power::Args => !self.command_line().arguments().is_empty(),
            Power::Secrets => !self.secrets().is_empty(),
            Power::Clock => self.clock() != ClockStep::DEFAULT,
            Power::Random => self.seed().is_some(),
            Power::KeyValue => self.key_value().is_some(),
            Power::State => self.state(),
            Power::Sockets => false,
        }
    }
}

/// No two times have one text.
fn time_text(time: Duration) -> String {
    match time.subsec_nanos() % 1_000_000 {
        0 => format!("{}ms", time.as_millis()),
        _ => format!("{}ns", time.as_nanos()),
    }
}

fn folder_line(folder: &Folder, base: Option<&Path>) -> String {
    let host = match base.and_then(|base| folder.host().strip_prefix(base).ok()) {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => format!("./{}", path_text(below)),
        None => path_text(folder.host()),
    };
    let place = quoted(&format!("{host}:{}", folder.guest()));
    match folder.access() {
        Access::Read => format!("read: {place}"),
        Access::Write(quota) => format!("write: {place}, {}", of_quota(quota)),
    }
}

/// Two paths never have one text, even if they are not text.
fn path_text(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect(),
    }
}

fn of_quota(quota: Quota) -> String {
    format!("bytes = {}, entries = {}", quota.bytes(), quota.entries())
}

fn secret_line(secret: &Secret) -> String {
    let sent = match secret.into() {
        Injection::Header { name, template } => format!("header {} = {}", quoted(name), quoted(&template.to_string())),
        Injection::Query { name } => format!("query {}", quoted(name)),
    };
    format!("secret {}: for {}, {sent}", quoted(secret.name()), secret.target())
}

/// In quotes, so that no text can look like the end of its line and the beginning of another.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Power {
    /// What a line of a policy that grants it looks like; `None` if nobody can be granted it.
    #[must_use]
    pub fn example(self) -> Option<&'static str> {
        match self {
            Self::Files => Some("read = [\"./FOLDER:/FOLDER\"]"),
            Self::Http => Some("http = [\"GET https://HOST/**\"]"),
            Self::Env => Some("env = { NAME = \"VALUE\" }"),
            Self::Args => Some("args = [\"ARGUMENT\"]"),
            Self::Secrets => {
                Some("secrets = [{ name = \"NAME\", from = { env = \"VARIABLE\" }, for = \"https://HOST/**\" }]")
            }
            Self::Clock => Some("clock = \"1us\""),
            Self::Random => Some("random_seed = 1"),
            Self::KeyValue => Some("key_value = \"1MiB\""),
            Self::State => Some("state = true"),
            Self::Sockets => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::http::HttpGrant;
    use crate::permission::{CommandLine, Environment, KeyValueQuota, SecretValue, Seed};
    use expect_test::expect;

    fn everything(secret: &str) -> Grant {
        let http = HttpGrant::new(
            vec!["GET https://api.example.com/v1/**".parse().unwrap(), "http://127.0.0.1/**".parse().unwrap()],
            vec!["127.0.0.1/32".parse().unwrap()],
            HttpLimits { requests: 3, ..HttpLimits::default() },
        );
        let value = SecretValue::new(secret).unwrap();
        let header = Injection::header("Authorization", "Bearer {secret}").unwrap();
        Grant::none()
            .with_state()
            .with_folder(Folder::write("/cfg/./out:/out").unwrap())
            .unwrap()
            .with_folder(Folder::read("/etc/x\ny:/docs").unwrap())
            .unwrap()
            .with_scratch(Quota::default())
            .unwrap()
            .with_http(http.unwrap())
            .with_secret(Secret::new("token", value, "https://api.example.com/**", header).unwrap())
            .unwrap()
            .with_environment(Environment::none().with("A", "1\nhttp: *").unwrap())
            .with_command_line(CommandLine::new(["x", "--y"]).unwrap())
            .with_clock(ClockStep::MIN)
            .with_seed(Seed::from(1))
            .with_key_value(KeyValueQuota::new(1024).unwrap())
    }

    #[test]
    fn every_power_has_its_line_and_no_secret_is_in_one() {
        let lines = everything("s3cret-value").lines(Some(Path::new("/cfg")));
        expect![[r#"
            args = ["x", "--y"]
            clock = "1000ns"
            env: A = "1\nhttp: *"
            http: GET https://api.example.com/v1/**
            http: GET,HEAD http://127.0.0.1/**
            http_limits: requests = 3, bytes_out = 1048576, bytes_in = 10485760, in_flight = 8, connect = 10000ms, tls = 10000ms, first_byte = 30000ms, between_bytes = 30000ms
            key_value = 1024
            private_addresses: 127.0.0.1/32
            random_seed = "0100000000000000000000000000000000000000000000000000000000000000"
            read: "/etc/x\ny:/docs"
            scratch = bytes = 67108864, entries = 1000
            secret "token": for https://api.example.com/**, header "authorization" = "Bearer {secret}"
            state = true
            write: "./out:/out", bytes = 67108864, entries = 1000"#]].assert_eq(&lines.join("\n"));
        assert_eq!(lines, everything("another-value").lines(Some(Path::new("/cfg"))));
        assert!(lines.iter().all(|line| !line.contains('\n')));
    }

    #[test]
    fn nothing_has_no_lines() {
        assert!(Grant::none().lines(None).is_empty());
        assert_eq!(Grant::none().with_state().lines(None), ["state = true"]);
        let every = [
            Power::Files,
            Power::Http,
            Power::Env,
            Power::Args,
            Power::Secrets,
            Power::Clock,
            Power::Random,
            Power::KeyValue,
            Power::State,
        ];
        let all = everything("s3cret-value");
        assert!(every.iter().all(|power| all.has(*power) && !Grant::none().has(*power)));
        assert!(!all.has(Power::Sockets));
    }
}
