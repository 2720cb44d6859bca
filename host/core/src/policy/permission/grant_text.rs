//! The table of everything that can be granted, and the texts of a grant that follow from it: lines of a policy, to show,
//! to compare and to pin, and phrases for models and people.

use std::path::Path;
use std::time::Duration;

use super::files::{Access, Folder, Quota};
use super::http::{HttpGrant, HttpLimits, IpNet};
use super::tcp::{TcpGrant, TcpLimits};
use super::{ClockStep, Grant, Injection, Power, Secret};
use crate::capability::CapabilityGrant;

/// Something that can be granted.
struct GrantRow {
    /// The kind of power; `None` for what needs no import.
    power: Option<Power>,
    is_granted: fn(&Grant) -> bool,
    /// Returns the lines of a grant that has it, below a base folder.
    lines: fn(&Grant, Option<&Path>) -> Vec<String>,
    /// Returns the phrases for models and people of a grant that has it.
    phrases: fn(&Grant) -> Vec<String>,
    /// An example of the line of a policy that grants it.
    example: Option<&'static str>,
    /// The reason why a tool with it returns private data.
    source: Option<&'static str>,
    /// The reason why arguments of a tool with it reach the public.
    sink: Option<&'static str>,
}

impl GrantRow {
    /// A grant that says nothing of itself.
    const SILENT: Self = Self {
        power: None,
        is_granted: |_| false,
        lines: |_, _| Vec::new(),
        phrases: |_| Vec::new(),
        example: None,
        source: None,
        sink: None,
    };
}

/// Everything that can be granted, in the order of the phrases.
static GRANT_ROWS: [GrantRow; 15] = [
    GrantRow {
        power: Some(Power::Files),
        is_granted: |grant| !grant.folders().is_empty(),
        lines: |grant, base| grant.folders().iter().map(|folder| folder_line(folder, base)).collect(),
        phrases: |grant| grant.folders().iter().map(folder_phrase).collect(),
        example: Some("read = [\"./FOLDER:/FOLDER\"]"),
        source: Some("it has granted folders"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Http),
        is_granted: |grant| grant.http().is_some(),
        lines: |grant, _| grant.http().map(http_lines).unwrap_or_default(),
        phrases: |grant| grant.http().map(http_phrase).into_iter().collect(),
        example: Some("http = [\"GET https://HOST/**\"]"),
        sink: Some("it may make HTTP requests"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Tcp),
        is_granted: |grant| grant.tcp().is_some(),
        lines: |grant, _| grant.tcp().map(|tcp| tcp_lines(tcp, grant.http())).unwrap_or_default(),
        phrases: |grant| grant.tcp().map(tcp_phrase).into_iter().collect(),
        example: Some("tcp = [\"HOST:PORT\"]"),
        sink: Some("it may open TCP connections"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Files),
        is_granted: |grant| grant.scratch().is_some(),
        lines: |grant, _| grant.scratch().map(|quota| format!("scratch = {}", quota_text(quota))).into_iter().collect(),
        phrases: |_| vec!["use temporary files".to_owned()],
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::KeyValue),
        is_granted: |grant| grant.key_value().is_some(),
        lines: |grant, _| grant.key_value().map(|quota| format!("key_value = {}", quota.bytes())).into_iter().collect(),
        phrases: |_| vec!["keep values between calls".to_owned()],
        example: Some("key_value = \"1MiB\""),
        source: Some("it has a store, which may hold private data of earlier calls"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::State),
        is_granted: Grant::state,
        lines: |_, _| vec!["state = true".to_owned()],
        phrases: |_| vec!["read the state of the agent".to_owned()],
        example: Some("state = true"),
        source: Some("it reads the agent's state"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Env),
        is_granted: |grant| !grant.environment().variables().is_empty(),
        lines: |grant, _| environment_lines(grant),
        phrases: |_| vec![OWN_SETTINGS.to_owned()],
        example: Some("env = { NAME = \"VALUE\" }"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Args),
        is_granted: |grant| !grant.command_line().arguments().is_empty(),
        lines: |grant, _| vec![arguments_line(grant)],
        phrases: |_| vec![OWN_SETTINGS.to_owned()],
        example: Some("args = [\"ARGUMENT\"]"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Secrets),
        is_granted: |grant| !grant.secrets().is_empty(),
        lines: |grant, _| grant.secrets().iter().map(secret_line).collect(),
        phrases: |_| vec!["use secrets without seeing them".to_owned()],
        example: Some("secrets = [{ name = \"NAME\", from = { env = \"VARIABLE\" }, for = \"https://HOST/**\" }]"),
        ..GrantRow::SILENT
    },
    GrantRow {
        is_granted: |grant| grant.page_origins().is_some(),
        lines: |_, _| vec!["apps = true".to_owned()],
        phrases: |_| vec!["show pages in your client".to_owned()],
        ..GrantRow::SILENT
    },
    GrantRow {
        is_granted: |grant| grant.page_origins().is_some_and(|origins| !origins.is_empty()),
        lines: |grant, _| origin_lines(grant),
        sink: Some("its pages may reach origins of the internet"),
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Clock),
        is_granted: |grant| grant.clock() != ClockStep::DEFAULT,
        lines: |grant, _| vec![format!("clock = \"{}ns\"", grant.clock().duration().as_nanos())],
        example: Some("clock = \"1us\""),
        ..GrantRow::SILENT
    },
    GrantRow {
        is_granted: |grant| grant.fixed_time().is_some(),
        lines: |grant, _| {
            grant.fixed_time().map(|time| format!("fixed_time = {}", time_text(time))).into_iter().collect()
        },
        ..GrantRow::SILENT
    },
    GrantRow {
        power: Some(Power::Random),
        is_granted: |grant| grant.seed().is_some(),
        lines: |grant, _| seed_line(grant).into_iter().collect(),
        example: Some("random_seed = 1"),
        ..GrantRow::SILENT
    },
    // Only a program that embeds the host grants one, so there is no line that a person could write.
    GrantRow {
        power: Some(Power::Capability),
        is_granted: |grant| !grant.capabilities().is_empty(),
        lines: |grant, _| grant.capabilities().iter().map(CapabilityGrant::line).collect(),
        phrases: |grant| grant.capabilities().iter().map(|granted| granted.description().to_owned()).collect(),
        ..GrantRow::SILENT
    },
];

/// The phrase of environment variables and of arguments. With both, it appears once.
const OWN_SETTINGS: &str = "read its own settings";

impl Grant {
    /// Returns one line for each granted power, as in a policy, sorted. One grant has one text. Values of secrets are
    /// left out.
    ///
    /// Folders below `base` are written relative to it, so that a policy has the same meaning wherever it is checked
    /// out.
    #[must_use]
    pub fn lines(&self, base: Option<&Path>) -> Vec<String> {
        let mut lines: Vec<String> = self.granted().flat_map(|granted| (granted.lines)(self, base)).collect();
        lines.sort();
        lines
    }

    /// Describes the granted powers to models and people, one phrase for each. Folders of the host and values are left
    /// out.
    #[must_use]
    pub fn phrases(&self) -> Vec<String> {
        let mut phrases: Vec<String> = self.granted().flat_map(|granted| (granted.phrases)(self)).collect();
        phrases.dedup_by(|phrase, before| phrase == before && phrase == OWN_SETTINGS);
        phrases
    }

    /// Returns whether a power is granted, beyond what every tool has.
    #[must_use]
    pub fn has(&self, power: Power) -> bool {
        self.granted().any(|granted| granted.power == Some(power))
    }

    /// Returns the reason why the tool returns private data; `None` if no power makes its data private. Capabilities
    /// are left out.
    pub(crate) fn source(&self) -> Option<&'static str> {
        self.granted().find_map(|granted| granted.source)
    }

    /// Returns the reason why its arguments reach the public; `None` if no power lets them. Capabilities are left out.
    pub(crate) fn sink(&self) -> Option<&'static str> {
        self.granted().find_map(|granted| granted.sink)
    }

    fn granted(&self) -> impl Iterator<Item = &'static GrantRow> {
        GRANT_ROWS.iter().filter(|row| (row.is_granted)(self))
    }
}

impl Power {
    /// Returns an example of the line of a policy that grants the power; `None` if it cannot be granted.
    #[must_use]
    pub fn example(self) -> Option<&'static str> {
        GRANT_ROWS.iter().filter(|row| row.power == Some(self)).find_map(|row| row.example)
    }
}

fn folder_phrase(folder: &Folder) -> String {
    let verb = if folder.access() == Access::Read { "read" } else { "read and change" };
    format!("{verb} files in {}", folder.guest())
}

fn http_lines(http: &HttpGrant) -> Vec<String> {
    let mut lines: Vec<String> = http.rules().iter().map(|rule| format!("http: {rule}")).collect();
    lines.extend(http.private().iter().map(private_line));
    if *http.limits() != HttpLimits::default() {
        let HttpLimits { requests, bytes_out, bytes_in, in_flight, connect, tls, first_byte, between_bytes } =
            *http.limits();
        let [connect, tls, first, between] = [connect, tls, first_byte, between_bytes].map(time_text);
        lines.push(format!(
            "http_limits: requests = {requests}, bytes_out = {bytes_out}, bytes_in = {bytes_in}, in_flight = \
             {in_flight}, connect = {connect}, tls = {tls}, first_byte = {first}, between_bytes = {between}"
        ));
    }
    lines
}

fn http_phrase(http: &HttpGrant) -> String {
    let rules: Vec<String> = http.rules().iter().map(ToString::to_string).collect();
    format!("make HTTP requests ({})", rules.join(", "))
}

/// Returns the lines of connections. Private addresses that requests may reach, too, have a line already.
fn tcp_lines(tcp: &TcpGrant, http: Option<&HttpGrant>) -> Vec<String> {
    let mut lines: Vec<String> = tcp.rules().iter().map(|rule| format!("tcp: {rule}")).collect();
    let written = http.map(HttpGrant::private).unwrap_or_default();
    lines.extend(tcp.private().iter().filter(|net| !written.contains(net)).map(private_line));
    if *tcp.limits() != TcpLimits::default() {
        let TcpLimits { connections, bytes_out, bytes_in, connect } = *tcp.limits();
        let connect = time_text(connect);
        lines.push(format!(
            "tcp_limits: connections = {connections}, bytes_out = {bytes_out}, bytes_in = {bytes_in}, connect = {connect}"
        ));
    }
    lines
}

fn tcp_phrase(tcp: &TcpGrant) -> String {
    let rules: Vec<String> = tcp.rules().iter().map(ToString::to_string).collect();
    format!("open TCP connections ({})", rules.join(", "))
}

fn private_line(net: &IpNet) -> String {
    format!("private_addresses: {net}")
}

fn environment_lines(grant: &Grant) -> Vec<String> {
    grant.environment().variables().iter().map(|(name, value)| format!("env: {name} = {}", quoted(value))).collect()
}

fn arguments_line(grant: &Grant) -> String {
    let arguments: Vec<String> = grant.command_line().arguments().iter().map(|text| quoted(text)).collect();
    format!("args = [{}]", arguments.join(", "))
}

fn origin_lines(grant: &Grant) -> Vec<String> {
    let origins = grant.page_origins().unwrap_or_default();
    origins.iter().map(|origin| format!("app_origins: {}", quoted(origin))).collect()
}

fn seed_line(grant: &Grant) -> Option<String> {
    let digits: String = grant.seed()?.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("random_seed = \"{digits}\""))
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
        let tcp = TcpGrant::new(
            vec!["db.example.com:5432".parse().unwrap(), "127.0.0.1:6379".parse().unwrap()],
            vec!["127.0.0.1/32".parse().unwrap()],
            TcpLimits { connections: 3, ..TcpLimits::default() },
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
            .with_tcp(tcp.unwrap())
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
            tcp: 127.0.0.1:6379
            tcp: db.example.com:5432
            tcp_limits: connections = 3, bytes_out = 1048576, bytes_in = 10485760, connect = 10000ms
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
            Power::Tcp,
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
