//! The base URL and key of a provider, from its settings and the environment.

use fumehood_transport::Url;

use crate::config::{Key, ProviderConfig};
use crate::spec::Service;

/// Errors returned by [`Provider::new`](crate::Provider::new).
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The model is a script, not a provider.
    #[error("`{0}` is a script, not a provider; open it as a scripted model")]
    NotAProvider(String),
    /// The key is missing.
    #[error("no API key for {service}; set {variable}, or `key` in the settings")]
    NoKey {
        /// The provider.
        service: Service,
        /// The environment variable that may hold the key.
        variable: &'static str,
    },
    /// The key contains characters that a header value cannot hold.
    #[error("the API key for {0} contains invalid characters; check the value")]
    BadKey(Service),
    /// The base URL is missing.
    #[error("no base URL for {service}; set {variable}, or `base_url` in the settings")]
    NoUrl {
        /// The provider.
        service: Service,
        /// The environment variable that may hold the URL.
        variable: &'static str,
    },
    /// The base URL is invalid. It is not repeated in the message, because it may hold a password.
    #[error("the base URL for {service} {problem}; expected http(s)://HOST[:PORT]/PATH")]
    BadUrl {
        /// The provider.
        service: Service,
        /// The problem with the URL.
        problem: &'static str,
    },
    /// The key would cross a network unencrypted.
    #[error("the API key for {0} would be sent unencrypted to another machine; use https, or allow it in the settings")]
    KeyInTheOpen(Service),
    /// The URL of the proxy is invalid.
    #[error("invalid proxy URL for {0}; expected http://HOST:PORT without user and password")]
    BadProxy(Service),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client; check that the system has root certificates")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The address of a provider and the key that is sent to it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The base URL; its path ends in a slash. `None`: the client library's default.
    pub(crate) url: Option<Url>,
    /// The key. `None`: no key is sent.
    pub(crate) key: Option<Key>,
}

/// Finds the endpoint of a provider. The settings take precedence over the environment.
pub(crate) fn resolve(
    service: Service,
    config: &ProviderConfig,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, SetupError> {
    let (url_variable, key_variable) = variables(service);
    let found = |variable: &str| environment(variable).filter(|value| !value.trim().is_empty());
    let url = match config.base_url.clone() {
        Some(url) => Some(parse(service, &url)?),
        None => match found(url_variable) {
            Some(host) if service == Service::Ollama => Some(parse(service, &ollama_url(host.trim()))?),
            Some(url) => Some(parse(service, url.trim())?),
            None if service == Service::Ollama => Some(parse(service, &ollama_url("localhost"))?),
            None if service == Service::Compatible => {
                return Err(SetupError::NoUrl { service, variable: url_variable });
            }
            None => None,
        },
    };
    // Ollama has no keys: one that was set for another provider must not reach it.
    let configured = config.key.clone().or_else(|| key_variable.and_then(found).map(Key::new));
    let key = if service == Service::Ollama { None } else { configured.filter(|key| !key.reveal().is_empty()) };
    match (&key, key_variable) {
        (None, Some(variable)) if service != Service::Compatible => {
            return Err(SetupError::NoKey { service, variable });
        }
        (Some(key), _) if !key.reveal().bytes().all(|byte| byte.is_ascii_graphic()) => {
            return Err(SetupError::BadKey(service));
        }
        _ => {}
    }
    let is_unencrypted = url.as_ref().is_some_and(|url| url.scheme() == "http" && !is_loopback(url));
    if key.is_some() && is_unencrypted && !config.key_over_plain_http {
        return Err(SetupError::KeyInTheOpen(service));
    }
    Ok(Endpoint { url, key })
}

/// Returns the names of the variables that hold a provider's base URL and key.
fn variables(service: Service) -> (&'static str, Option<&'static str>) {
    match service {
        Service::OpenAi => ("OPENAI_BASE_URL", Some("OPENAI_API_KEY")),
        Service::Anthropic => ("ANTHROPIC_BASE_URL", Some("ANTHROPIC_API_KEY")),
        Service::Gemini => ("GEMINI_BASE_URL", Some("GEMINI_API_KEY")),
        Service::Ollama => ("OLLAMA_HOST", None),
        Service::Compatible => ("OPENAI_COMPATIBLE_URL", Some("OPENAI_COMPATIBLE_KEY")),
    }
}

/// Converts the value of `OLLAMA_HOST` to a URL. The server listens on the same variable, so it may have no scheme, no
/// port, or mean every address.
fn ollama_url(host: &str) -> String {
    if host.contains("://") {
        return host.to_owned();
    }
    let host = match host.strip_prefix("0.0.0.0") {
        Some(port) => format!("127.0.0.1{port}"),
        None => host.to_owned(),
    };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) && !host.ends_with(']');
    if has_port { format!("http://{host}/") } else { format!("http://{host}:11434/") }
}

fn parse(service: Service, text: &str) -> Result<Url, SetupError> {
    let bad = |problem| SetupError::BadUrl { service, problem };
    let mut url = Url::parse(text).map_err(|_| bad("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("contains a user or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or a fragment"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Returns the URL of the proxy at `address`.
pub(crate) fn parse_proxy(service: Service, address: &str) -> Result<Url, SetupError> {
    parse(service, address).map_err(|_| SetupError::BadProxy(service))
}

/// Returns whether a request to the URL never leaves this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(service: Service, config: &ProviderConfig, environment: &[(&str, &str)], expected: &str) {
        let environment = |name: &str| {
            environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        };
        let found = match resolve(service, config, &environment) {
            Ok(Endpoint { url, key }) => {
                let url = url.map_or("its own".to_owned(), |url| url.to_string());
                format!("{url} {}", key.as_ref().map_or("-", Key::reveal))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn ollama_is_on_this_machine_unless_told_otherwise() {
        let none = ProviderConfig::default();
        assert_eq!(none.temperature, None);
        let check = |value: &str, expected| check(Service::Ollama, &none, &[("OLLAMA_HOST", value)], expected);
        check("", "http://localhost:11434/ -");
        check("box", "http://box:11434/ -");
        check("box:1234", "http://box:1234/ -");
        check("0.0.0.0", "http://127.0.0.1:11434/ -");
        check("0.0.0.0:99", "http://127.0.0.1:99/ -");
        check("[::1]", "http://[::1]:11434/ -");
        check("[::1]:99", "http://[::1]:99/ -");
        check("https://box.example/ollama", "https://box.example/ollama/ -");
    }

    #[test]
    fn settings_take_precedence_over_the_environment() {
        let given = ProviderConfig::default().base_url("https://a.example/v1").key(Key::new("mine"));
        let environment = [("OPENAI_API_KEY", "theirs"), ("OPENAI_BASE_URL", "https://b.example/v1/")];
        check(Service::OpenAi, &given, &environment, "https://a.example/v1/ mine");
        let none = ProviderConfig::default();
        check(Service::OpenAi, &none, &environment, "https://b.example/v1/ theirs");
        check(Service::OpenAi, &none, &[("OPENAI_API_KEY", " k ")], "its own k");
        check(Service::OpenAi, &none, &[], "no API key for openai; set OPENAI_API_KEY, or `key` in the settings");
        check(Service::Gemini, &none, &[], "no API key for gemini; set GEMINI_API_KEY, or `key` in the settings");
        check(
            Service::Anthropic,
            &none,
            &[("ANTHROPIC_API_KEY", "a\nb")],
            "the API key for anthropic contains invalid characters; check the value",
        );
    }

    #[test]
    fn compatible_server_never_gets_the_openai_key() {
        let config = ProviderConfig::default().base_url("http://localhost:8080/v1");
        check(Service::Compatible, &config, &[("OPENAI_API_KEY", "theirs")], "http://localhost:8080/v1/ -");
        check(Service::Compatible, &config, &[("OPENAI_COMPATIBLE_KEY", "k")], "http://localhost:8080/v1/ k");
        let none = ProviderConfig::default();
        let expected = "no base URL for compatible; set OPENAI_COMPATIBLE_URL, or `base_url` in the settings";
        check(Service::Compatible, &none, &[], expected);
    }

    #[test]
    fn rejects_invalid_proxy_without_repeating_its_password() {
        assert!(parse_proxy(Service::OpenAi, "http://box:3128").is_ok());
        for address in ["box", "socks5://box:1", "http://me:pw@box:3128", ""] {
            let error = parse_proxy(Service::OpenAi, address).unwrap_err().to_string();
            assert!(error.starts_with("invalid proxy URL for openai") && !error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn rejects_base_url_that_could_leak_a_secret() {
        fn check(url: &str, expected: &str) {
            let config = ProviderConfig::default().base_url(url).key(Key::new("k"));
            let found = resolve(Service::OpenAi, &config, &|_| None).map_err(|error| error.to_string());
            assert!(found.as_ref().is_err_and(|error| error.contains(expected)), "{url}: {found:?}");
        }

        check("box", "is not a URL");
        check("file:///etc", "is neither http nor https");
        check("https://me:pw@box/", "contains a user or a password");
        check("https://box/?k=1", "has a query");
        check("http://box.example/v1", "would be sent unencrypted");
        let mut open = ProviderConfig::default().base_url("http://box.example/v1").key(Key::new("k"));
        open.key_over_plain_http = true;
        assert!(resolve(Service::OpenAi, &open, &|_| None).is_ok());
    }
}
