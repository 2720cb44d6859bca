//! Text forms of a grant: lines of a policy, to show, to compare and to pin, and phrases for models and people.

use std::path::Path;
use std::time::Duration;

use super::files::{Access, Folder, Quota};
use super::http::HttpLimits;
use super::{ClockStep, Grant, Injection, Power, Secret};
use crate::capability::CapabilityGrant;

impl Grant {
    /// Returns one line for each granted power, as in a policy, sorted. One grant has one text. Values of secrets are
    /// left out.
    ///
    /// Folders below `base` are written relative to it, so that a policy has the same meaning wherever it is checked
    /// out.
    #[must_use]
    pub fn lines(&self, base: Option<&Path>) -> Vec<String> {
        let mut lines: Vec<String> = self.folders().iter().map(|folder| folder_line(folder, base)).collect();
        if self.state() {
            lines.push("state = true".to_owned());
        }
        lines.extend(self.scratch().map(|quota| format!("scratch = {}", quota_text(quota))));
        self.push_http_lines(&mut lines);
        lines.extend(self.secrets().iter().map(secret_line));
        let variables = self.environment().variables().iter();
        lines.extend(variables.map(|(name, value)| format!("env: {name} = {}", quoted(value))));
        if self.has(Power::Args) {
            let arguments: Vec<String> = self.command_line().arguments().iter().map(|text| quoted(text)).collect();
            lines.push(format!("args = [{}]", arguments.join(", ")));
        }
        if self.clock() != ClockStep::DEFAULT {
            lines.push(format!("clock = \"{}ns\"", self.clock().duration().as_nanos()));
        }
        lines.extend(self.fixed_time().map(|time| format!("fixed_time = {}", time_text(time))));
        if let Some(seed) = self.seed() {
            let digits: String = seed.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            lines.push(format!("random_seed = \"{digits}\""));
        }
        lines.extend(self.key_value().map(|quota| format!("key_value = {}", quota.bytes())));
        if let Some(origins) = self.page_origins() {
            lines.push("apps = true".to_owned());
            lines.extend(origins.iter().map(|origin| format!("app_origins: {}", quoted(origin))));
        }
        lines.extend(self.capabilities().iter().map(CapabilityGrant::line));
        lines.sort();
        lines
    }

    fn push_http_lines(&self, lines: &mut Vec<String>) {
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

    /// Describes the granted powers to models and people, one phrase for each. Folders of the host and values are left
    /// out.
    #[must_use]
    pub fn phrases(&self) -> Vec<String> {
        let mut phrases: Vec<String> = Vec::new();
        for folder in self.folders() {
            let verb = if folder.access() == Access::Read { "read" } else { "read and change" };
            phrases.push(format!("{verb} files in {}", folder.guest()));
        }
        if let Some(http) = self.http() {
            let rules: Vec<String> = http.rules().iter().map(ToString::to_string).collect();
            phrases.push(format!("make HTTP requests ({})", rules.join(", ")));
        }
        let others = [
            (self.scratch().is_some(), "use temporary files"),
            (self.has(Power::KeyValue), "keep values between calls"),
            (self.has(Power::State), "read the state of the agent"),
            (self.has(Power::Env) || self.has(Power::Args), "read its own settings"),
            (self.has(Power::Secrets), "use secrets without seeing them"),
            (self.page_origins().is_some(), "show pages in your client"),
        ];
        phrases.extend(others.into_iter().filter(|(has, _)| *has).map(|(_, phrase)| phrase.to_owned()));
        phrases.extend(self.capabilities().iter().map(|granted| granted.description().to_owned()));
        phrases
    }

    /// Returns whether a power is granted, beyond what every tool has.
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
            Power::Capability => !self.capabilities().is_empty(),
            Power::Sockets => false,
        }
    }
}

/// Formats a duration. Different durations have different texts.
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
        Access::Write(quota) => format!("write: {place}, {}", quota_text(quota)),
    }
}

/// Formats a path. Different paths have different texts, even if they are not UTF-8.
fn path_text(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect(),
    }
}

fn quota_text(quota: Quota) -> String {
    format!("bytes = {}, entries = {}", quota.bytes(), quota.entries())
}

fn secret_line(secret: &Secret) -> String {
    let sent = match secret.injection() {
        Injection::Header { name, template } => format!("header {} = {}", quoted(name), quoted(&template.to_string())),
        Injection::Query { name } => format!("query {}", quoted(name)),
    };
    format!("secret {}: for {}, {sent}", quoted(secret.name()), secret.target())
}

/// Writes a text in quotes, so that it cannot end its line and begin another.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Power {
    /// Returns an example of the line of a policy that grants the power; `None` if it cannot be granted.
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
            // Only a program that embeds the host grants one.
            Self::Capability | Self::Sockets => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::permission::http::HttpGrant;
    use crate::policy::permission::{CommandLine, Environment, KeyValueQuota, SecretValue, Seed};
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
            .with_fixed_time(Duration::from_secs(7))
            .with_seed(Seed::from(1))
            .with_key_value(KeyValueQuota::new(1024).unwrap())
            .with_pages(vec!["https://a.example".to_owned()])
            .unwrap()
    }

    #[test]
    fn lines_cover_every_power_and_no_secret_value() {
        let lines = everything("s3cret-value").lines(Some(Path::new("/cfg")));
        expect![[r#"
            app_origins: "https://a.example"
            apps = true
            args = ["x", "--y"]
            clock = "1000ns"
            env: A = "1\nhttp: *"
            fixed_time = 7000ms
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
    fn empty_grant_has_no_lines_and_no_powers() {
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

    #[test]
    fn phrases_contain_no_host_folder_and_no_value() {
        assert!(Grant::none().phrases().is_empty());
        let environment = Environment::default().with("KEY", "value").unwrap();
        let folder = Folder::read("/home/someone/docs:/docs").unwrap();
        let grant = Grant::none().with_environment(environment).with_folder(folder).unwrap();
        assert_eq!(grant.phrases(), ["read files in /docs", "read its own settings"]);
    }
}
