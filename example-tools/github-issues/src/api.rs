//! One request to GitHub's REST API, and what its answer means.

use std::env;
use std::time::Duration;

use fumehood_guest::ToolError;
use fumehood_guest_http::{Body, Method, Request, Response, StatusCode, header, send};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where the API is, unless the operator says otherwise.
const USUAL: &str = "https://api.github.com";
/// Where the operator says so: an environment variable, which has to be granted like anything else. Servers of companies
/// have other addresses.
const ELSEWHERE: &str = "GITHUB_API_URL";
/// The most that is read of an answer, in bytes.
const MOST_BYTES: usize = 2 << 20;
/// What may stand in a query as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where the API is.
#[derive(Debug)]
pub(crate) struct Api {
    base: String,
}

/// An answer, and which page comes after it.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) next_page: Option<u32>,
}

/// `owner/name`.
#[derive(Debug)]
pub(crate) struct Repository<'a> {
    owner: &'a str,
    name: &'a str,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

impl<'a> Repository<'a> {
    /// Takes only what cannot change the meaning of an address.
    pub(crate) fn parse(text: &'a str) -> Result<Self, ToolError> {
        let is_plain = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !matches!(part, "" | "." | "..") && part.bytes().all(plain)
        };
        match text.split_once('/') {
            Some((owner, name)) if is_plain(owner) && is_plain(name) => Ok(Self { owner, name }),
            _ => Err(ToolError::invalid_arguments(format!("`{text}` is no repository; write `owner/name`"))),
        }
    }

    /// The path of something in it.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/repos/{}/{}/{rest}", self.owner, self.name)
    }
}

impl Api {
    /// The usual one, or that of the environment.
    pub(crate) fn of_environment() -> Self {
        let base = env::var(ELSEWHERE).ok().filter(|base| !base.is_empty()).unwrap_or_else(|| USUAL.to_owned());
        Self { base: base.trim_end_matches('/').to_owned() }
    }

    /// Asks, and reads the answer.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer<T>, ToolError> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, PLAIN))).collect();
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
        read(&send(request, MOST_BYTES)?)
    }
}

fn read<T: DeserializeOwned>(response: &Response<Body>) -> Result<Answer<T>, ToolError> {
    if !response.status().is_success() {
        return Err(refused(response));
    }
    if !response.body().complete {
        return Err(ToolError::failed("the answer is too long; ask for fewer issues or comments at once"));
    }
    let value = serde_json::from_slice(&response.body().bytes)
        .map_err(|error| ToolError::failed(format!("the answer is not what the API promises: {error}")))?;
    Ok(Answer { value, next_page: next_page(response) })
}

/// From `link: <https://…?page=3>; rel="next"`.
fn next_page(response: &Response<Body>) -> Option<u32> {
    let next = text(response, "link")?.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (address, _) = next.split_once('<')?.1.split_once('>')?;
    let (_, query) = address.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix("page=")?.parse().ok())
}

fn text<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// What the model should know of an answer that is none.
fn refused(response: &Response<Body>) -> ToolError {
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
