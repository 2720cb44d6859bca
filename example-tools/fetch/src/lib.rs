//! Web pages as text, from granted hosts.

mod media;

use fumehood_guest::{ToolError, tool};
use fumehood_guest_http::{Body, Request, Response, StatusCode, header, send};
use schemars::JsonSchema;
use serde::Serialize;

use media::{Media, is_utf8_compatible};

/// Number of bytes of a response that are read for each requested character: tags make up most of a page.
const BYTES_PER_CHARACTER: usize = 8;
/// Maximum number of bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 2 << 20;
/// Maximum length of the excerpt of an error page, in characters.
const MAX_EXCERPT_CHARACTERS: usize = 500;

/// A fetched page.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fetched {
    /// The HTTP status: 200, or that of a redirect.
    pub status: u16,
    /// The content type that the server sent, such as text/html.
    pub content_type: String,
    /// The text, or the beginning of it.
    pub text: String,
    /// True if the text is complete.
    pub complete: bool,
    /// The target of a redirect. It was not followed: fetch it yourself if it is wanted.
    pub location: Option<String>,
}

/// Fetches a page by HTTP GET and returns its text. HTML is returned as readable text without its tags. Redirects are
/// told, not followed.
#[tool(title = "Fetch a page", read_only, idempotent, open_world)]
pub fn get(
    /// The absolute address, such as https://example.com/page.
    #[schemars(length(min = 8, max = 4096))]
    url: String,
    /// Maximum number of characters of text to return.
    #[default(20000)]
    #[schemars(range(min = 100, max = 200000))]
    max_characters: usize,
    /// True to return HTML unchanged, with its tags.
    #[default]
    raw: bool,
) -> Result<Fetched, ToolError> {
    let request = Request::get(&url)
        .header(header::ACCEPT, "text/html, text/*, application/json, application/xml;q=0.9")
        .header(header::USER_AGENT, "fumehood-fetch")
        .body(Vec::new())
        .map_err(|error| ToolError::invalid_arguments(format!("`{url}` is not an address: {error}")))?;
    let response = send(request, max_characters.saturating_mul(BYTES_PER_CHARACTER).min(MAX_RESPONSE_BYTES))?;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        return Err(status_error(status, &response));
    }
    if status.is_redirection() {
        return Ok(redirect_result(&response));
    }
    let (media, text) = decode(&response)?;
    let text = if media.is_html() && !raw { nanohtml2text::html2text(&text) } else { text };
    let (text, all) = truncate(text, max_characters);
    let complete = all && response.body().complete;
    Ok(Fetched { status: status.as_u16(), content_type: media.name, text, complete, location: None })
}

/// Returns the value of a header as text.
fn header_value(response: &Response<Body>, name: header::HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn redirect_result(response: &Response<Body>) -> Fetched {
    let media = Media::parse(&header_value(response, header::CONTENT_TYPE).unwrap_or_default());
    Fetched {
        status: response.status().as_u16(),
        content_type: media.name,
        text: String::new(),
        complete: true,
        location: header_value(response, header::LOCATION),
    }
}

/// Decodes a page, if it is text.
fn decode(response: &Response<Body>) -> Result<(Media, String), ToolError> {
    let media = Media::parse(&header_value(response, header::CONTENT_TYPE).unwrap_or_default());
    let bytes = &response.body().bytes;
    if !bytes.is_empty() && !media.is_text() {
        return Err(ToolError::failed(format!(
            "the page is `{}`, which is not text; this tool reads text only",
            media.name
        )));
    }
    if let Some(charset) = media.charset.as_deref().filter(|charset| !is_utf8_compatible(charset)) {
        let message = format!("the page is written in the character set `{charset}`; this tool reads UTF-8 only");
        return Err(ToolError::failed(message));
    }
    if bytes.contains(&0) {
        return Err(ToolError::failed(format!("the page says it is `{}`, but it is not text", media.name)));
    }
    Ok((media, String::from_utf8_lossy(bytes).into_owned()))
}

/// Converts an error of the server, with the beginning of its page.
fn status_error(status: StatusCode, response: &Response<Body>) -> ToolError {
    let said =
        decode(response).map(|(media, text)| if media.is_html() { nanohtml2text::html2text(&text) } else { text });
    let said = truncate(said.unwrap_or_default().trim().to_owned(), MAX_EXCERPT_CHARACTERS).0;
    let message = if said.is_empty() {
        format!("the server answered {status}")
    } else {
        format!("the server answered {status} and said: {said}")
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            ToolError::unavailable(message)
        }
        _ => ToolError::failed(message),
    }
}

/// Truncates a text, and returns whether it is complete.
fn truncate(text: String, characters: usize) -> (String, bool) {
    match text.char_indices().nth(characters) {
        Some((end, _)) => (text.get(..end).unwrap_or_default().to_owned(), false),
        None => (text, true),
    }
}

fumehood_guest::export!(get);

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;
    use fumehood_guest_http::{RequestError, testing::answering};

    use super::*;

    const PAGE: &str = "<html><head><title>T</title></head><body><h1>Hoods</h1><p>Glass &amp; air.</p></body></html>";

    fn fetch(status: u16, headers: &[(&str, &str)], body: &[u8], most: usize, raw: bool) -> Result<Fetched, ToolError> {
        let response = || {
            let builder = Response::builder().status(status);
            headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value)).body(body.to_vec())
        };
        let response = response().unwrap();
        answering(move |_| Ok(response.clone()), || get("https://a.example/page".to_owned(), most, raw))
    }

    fn html(raw: bool) -> Fetched {
        fetch(200, &[("content-type", "text/html; charset=UTF-8")], PAGE.as_bytes(), 1000, raw).unwrap()
    }

    #[test]
    fn converts_html_to_text() {
        let page = html(false);
        assert!(page.text.contains("Hoods") && page.text.contains("Glass & air."), "{page:?}");
        assert!(!page.text.contains('<'), "{page:?}");
        assert_eq!((page.status, page.content_type.as_str(), page.complete), (200, "text/html", true));
        assert_eq!(html(true).text, PAGE);
    }

    #[test]
    fn reports_a_truncated_page() {
        let long = "ä".repeat(300);
        let page = fetch(200, &[("content-type", "text/plain")], long.as_bytes(), 100, false).unwrap();
        assert_eq!((page.text.chars().count(), page.complete), (100, false));
        let page = fetch(200, &[("content-type", "text/plain")], long.as_bytes(), 300, false).unwrap();
        assert_eq!((page.text.chars().count(), page.complete), (300, true));
    }

    #[test]
    fn reports_a_redirect_without_following() {
        let page = fetch(302, &[("location", "https://b.example/")], b"", 100, false).unwrap();
        assert_eq!((page.status, page.location.as_deref()), (302, Some("https://b.example/")));
    }

    #[test]
    fn rejects_pages_that_are_not_text() {
        let message = |content_type: &str, body: &[u8]| {
            fetch(200, &[("content-type", content_type)], body, 100, false).unwrap_err().message().to_owned()
        };
        assert!(message("image/png", b"\x89PNG").contains("`image/png`, which is not text"));
        assert!(message("text/plain; charset=shift_jis", b"a").contains("`shift_jis`"));
        assert!(message("text/plain", b"a\0b").contains("not text"));
    }

    #[test]
    fn errors_include_the_servers_message() {
        let plain = &[("content-type", "text/plain")];
        let error = fetch(404, plain, b"no such page", 100, false).unwrap_err();
        assert_eq!(error.message(), "the server answered 404 Not Found and said: no such page");
        assert_eq!(error.kind(), FailureKind::Failed);
        assert_eq!(fetch(503, plain, b"", 100, false).unwrap_err().kind(), FailureKind::Unavailable);
        assert_eq!(
            fetch(500, &[], b"\0\0", 100, false).unwrap_err().message(),
            "the server answered 500 Internal Server Error"
        );
    }

    #[test]
    fn denies_requests_that_were_not_granted() {
        let denied = answering(|_| Err(RequestError::Denied), || get("https://a.example/".to_owned(), 100, false));
        assert_eq!(denied.unwrap_err().kind(), FailureKind::Denied);
        let none = get("not an address".to_owned(), 100, false).unwrap_err();
        assert_eq!(none.kind(), FailureKind::InvalidArguments);
    }
}
