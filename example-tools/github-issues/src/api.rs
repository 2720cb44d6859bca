//! Requests to GitHub's REST API.

use std::env;
use std::time::Duration;

use fumehood_guest::ToolError;
use fumehood_guest_http::{Body, Method, Request, Response, StatusCode, header, send};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The default base URL of the API.
const DEFAULT_URL: &str = "https://api.github.com";
/// The environment variable with another base URL, for GitHub Enterprise servers. It must be granted.
const URL_VARIABLE: &str = "GITHUB_API_URL";
/// Maximum number of bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 2 << 20;
/// Characters that are percent-encoded in a query: all but the unreserved ones (RFC 3986, section 2.3).
const ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A client of the API.
#[derive(Debug)]
pub(crate) struct Api {
    base: String,
}

/// A response with the number of the next page.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) next_page: Option<u32>,
}

/// A repository, as `owner/name`.
#[derive(Debug)]
pub(crate) struct Repository<'a> {
    owner: &'a str,
    name: &'a str,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

/// Returns whether a part of a path cannot change the meaning of a URL.
fn is_plain(part: &str) -> bool {
    let mut bytes = part.bytes();
    !matches!(part, "" | "." | "..") && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

impl<'a> Repository<'a> {
    /// Parses `owner/name`. Accepts only characters that cannot change the meaning of a URL.
    pub(crate) fn parse(text: &'a str) -> Result<Self, ToolError> {
        match text.split_once('/') {
            Some((owner, name)) if is_plain(owner) && is_plain(name) => Ok(Self { owner, name }),
            _ => Err(ToolError::invalid_arguments(format!("`{text}` is not a repository; write `owner/name`"))),
        }
    }

    /// Returns the path of a resource of the repository.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/repos/{}/{}/{rest}", self.owner, self.name)
    }
}

impl Api {
    /// Creates a client with the base URL from the environment, or the default.
    pub(crate) fn from_environment() -> Self {
        let base =
            env::var(URL_VARIABLE).ok().filter(|base| !base.is_empty()).unwrap_or_else(|| DEFAULT_URL.to_owned());
        Self { base: base.trim_end_matches('/').to_owned() }
    }

    /// Sends a request, and parses the response.
    pub(crate) fn request<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer<T>, ToolError> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ENCODE_SET))).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}{mark}{}", self.base, query.join("&")))
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28")
            .header(header::USER_AGENT, "fumehood-github-issues");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(|value| value.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(ToolError::failed)?;
        read(&send(request, MAX_RESPONSE_BYTES)?)
    }
}

fn read<T: DeserializeOwned>(response: &Response<Body>) -> Result<Answer<T>, ToolError> {
    if !response.status().is_success() {
        return Err(response_error(response));
    }
    if !response.body().complete {
        return Err(ToolError::failed("the answer is too long; ask for fewer issues or comments at once"));
    }
    let value = serde_json::from_slice(&response.body().bytes)
        .map_err(|error| ToolError::failed(format!("the answer is not what the API promises: {error}")))?;
    Ok(Answer { value, next_page: next_page(response) })
}

/// Returns the next page from a header such as `link: <https://…?page=3>; rel="next"` (RFC 8288).
fn next_page(response: &Response<Body>) -> Option<u32> {
    let next = text(response, "link")?.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (address, _) = next.split_once('<')?.1.split_once('>')?;
    let (_, query) = address.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix("page=")?.parse().ok())
}

fn text<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Converts an error response to a message for the model.
fn response_error(response: &Response<Body>) -> ToolError {
    let status = response.status();
    let problem = serde_json::from_slice::<Problem>(&response.body().bytes).map(|problem| problem.message);
    let said = format!("GitHub answered {status}: {}", problem.as_deref().unwrap_or("without a reason"));
    let wait = text(response, "retry-after").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let is_limit = text(response, "x-ratelimit-remaining") == Some("0") || wait.is_some();
    match status {
        StatusCode::UNAUTHORIZED => ToolError::denied(format!(
            "{said}; the token is missing or wrong. Whoever runs this tool can grant it one as a secret"
        )),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN
            if is_limit || status == StatusCode::TOO_MANY_REQUESTS =>
        {
            let error = ToolError::unavailable(format!("{said}; there were too many requests, so try again later"));
            wait.map_or(error.clone(), |wait| error.retry_after(wait))
        }
        StatusCode::FORBIDDEN => ToolError::denied(format!("{said}; the token that was granted may not do this")),
        StatusCode::NOT_FOUND => ToolError::invalid_arguments(format!(
            "{said}; there is no such repository or issue, or it is private and the token may not see it"
        )),
        status if status.is_redirection() => {
            ToolError::invalid_arguments(format!("{said}; it was moved or renamed, so ask by its new name"))
        }
        status if status.is_server_error() => ToolError::unavailable(said),
        _ => ToolError::invalid_arguments(said),
    }
}
