//! Issues of a repository on GitHub: list, read, comment. The host adds the token to the requests; the tool never has
//! it.

mod api;
mod issue;

use fumehood_guest::{ToolError, tool};
use fumehood_guest_http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use api::{Api, Repository};
pub use issue::{Comment, Issue, Summary};

/// A filter of issues by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Those that are open.
    #[default]
    Open,
    /// Those that are closed.
    Closed,
    /// Both.
    All,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::All => "all",
        }
    }
}

/// Some issues of a repository.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listed {
    /// The issues, the most recently changed first.
    pub issues: Vec<Summary>,
    /// The page with more of them; null if there are no more.
    pub next_page: Option<u32>,
}

/// Lists the issues of a repository, without pull requests, the most recently changed first.
#[tool(title = "List issues", read_only, idempotent, open_world)]
pub fn list(
    /// Owner and name, such as rust-lang/rust.
    #[schemars(length(max = 140), regex(pattern = "^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"))]
    repository: String,
    /// The issues to list: open, closed or all.
    #[default]
    state: State,
    /// Only those that have all of these labels.
    #[default]
    #[schemars(length(max = 10))]
    labels: Vec<String>,
    /// The number of the page, counted from 1.
    #[default(1)]
    #[schemars(range(min = 1, max = 10000))]
    page: u32,
    /// Maximum number of issues on a page. Pull requests are counted and left out.
    #[default(20)]
    #[schemars(range(min = 1, max = 100))]
    per_page: u32,
) -> Result<Listed, ToolError> {
    let page = page.to_string();
    let per_page = per_page.to_string();
    let labels = labels.join(",");
    let mut query = vec![("state", state.as_str()), ("sort", "updated"), ("page", &page), ("per_page", &per_page)];
    if !labels.is_empty() {
        query.push(("labels", &labels));
    }
    let path = Repository::parse(&repository)?.path("issues");
    let answer = Api::from_environment().request::<Vec<issue::RawIssue>>(&Method::GET, &path, &query, None)?;
    let issues = answer.value.into_iter().filter(|raw| !raw.is_pull_request()).map(Summary::from).collect();
    Ok(Listed { issues, next_page: answer.next_page })
}

/// Reads one issue with the comments on it, the oldest first.
#[tool(title = "Read an issue", read_only, idempotent, open_world)]
pub fn read(
    /// Owner and name, such as rust-lang/rust.
    #[schemars(length(max = 140), regex(pattern = "^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"))]
    repository: String,
    /// The number of the issue.
    #[schemars(range(min = 1, max = 4294967295_u32))]
    number: u32,
    /// Maximum number of comments to return. With 0 none are requested.
    #[default(20)]
    #[schemars(range(min = 0, max = 100))]
    comments: u32,
) -> Result<Issue, ToolError> {
    let api = Api::from_environment();
    let path = Repository::parse(&repository)?.path(&format!("issues/{number}"));
    let raw = api.request::<issue::RawIssue>(&Method::GET, &path, &[], None)?.value;
    let mut said = Vec::new();
    if comments > 0 && raw.has_comments() {
        let per_page = comments.to_string();
        let query = [("per_page", per_page.as_str())];
        said = api.request::<Vec<issue::RawComment>>(&Method::GET, &format!("{path}/comments"), &query, None)?.value;
    }
    Ok(Issue::new(raw, said))
}

/// Writes a comment on an issue, for everybody to read, in the name of whoever runs this tool.
#[tool(title = "Comment on an issue", destructive, idempotent = false, open_world)]
pub fn comment(
    /// Owner and name, such as rust-lang/rust.
    #[schemars(length(max = 140), regex(pattern = "^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"))]
    repository: String,
    /// The number of the issue.
    #[schemars(range(min = 1, max = 4294967295_u32))]
    number: u32,
    /// The text of the comment, in Markdown.
    #[schemars(length(min = 1))]
    body: String,
) -> Result<Comment, ToolError> {
    if body.trim().is_empty() {
        return Err(ToolError::invalid_arguments("a comment has to say something; give it a `body`"));
    }
    let path = Repository::parse(&repository)?.path(&format!("issues/{number}/comments"));
    let said = json!({ "body": body });
    let raw = Api::from_environment().request::<issue::RawComment>(&Method::POST, &path, &[], Some(&said))?.value;
    Ok(Comment::from(raw))
}

fumehood_guest::export!(list, read, comment);

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;
    use fumehood_guest_http::testing::answering;
    use fumehood_guest_http::{Request, RequestError, Response, header};
    use serde_json::Value;

    use super::*;

    fn issue(number: u32) -> Value {
        json!({
            "number": number, "title": "It leaks", "state": "open", "user": {"login": "ada"}, "body": "Look.",
            "labels": [{"name": "bug"}, "old"], "comments": 1, "updated_at": "2026-01-02T03:04:05Z",
            "created_at": "2026-01-01T00:00:00Z", "html_url": "https://github.com/a/b/issues/1",
        })
    }

    fn comments_json() -> Value {
        json!({"id": 7, "user": null, "body": "Me too.", "created_at": "2026-01-02T03:04:05Z", "html_url": "https://x.example/"})
    }

    fn answer(value: &Value) -> Result<Response<Vec<u8>>, RequestError> {
        Ok(Response::new(value.to_string().into_bytes()))
    }

    fn repository() -> String {
        "a/b".to_owned()
    }

    #[test]
    fn lists_issues_without_pull_requests() {
        let server = |request: &Request<Vec<u8>>| {
            let expected =
                "https://api.github.com/repos/a/b/issues?state=all&sort=updated&page=2&per_page=20&labels=a%20b%2Cc";
            assert_eq!(request.uri().to_string(), expected);
            assert_eq!(request.headers()["accept"], "application/vnd.github+json");
            assert!(!request.headers().contains_key("authorization"));
            let mut pull = issue(2);
            pull["pull_request"] = json!({});
            let mut response = answer(&json!([issue(1), pull]))?;
            let links =
                r#"<https://api.github.com/x?page=1>; rel="prev", <https://api.github.com/x?page=3&a=b>; rel="next""#;
            response.headers_mut().insert(header::LINK, links.parse().unwrap());
            Ok(response)
        };
        let labels = vec!["a b".to_owned(), "c".to_owned()];
        let listed = answering(server, || list(repository(), State::All, labels, 2, 20)).unwrap();
        assert_eq!((listed.issues.len(), listed.next_page), (1, Some(3)));
        let first = &listed.issues[0];
        assert_eq!(
            (first.number, first.author.as_str(), &first.labels[..]),
            (1, "ada", &["bug".to_owned(), "old".to_owned()][..])
        );
    }

    #[test]
    fn reads_an_issue_with_its_comments() {
        let server = |request: &Request<Vec<u8>>| match request.uri().path() {
            "/repos/a/b/issues/1" => answer(&issue(1)),
            "/repos/a/b/issues/1/comments" => answer(&json!([comments_json()])),
            other => panic!("{other}"),
        };
        let read = |comments| answering(server, || read(repository(), 1, comments)).unwrap();
        assert_eq!((read(20).body.as_str(), read(20).comments[0].body.as_str()), ("Look.", "Me too."));
        assert_eq!(read(20).comments[0].author, "ghost");
        assert!(read(0).comments.is_empty());
    }

    #[test]
    fn posts_a_comment_as_json() {
        let server = |request: &Request<Vec<u8>>| {
            assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/repos/a/b/issues/1/comments"));
            assert_eq!(request.body(), br#"{"body":"Hello \"there\""}"#);
            answer(&comments_json())
        };
        let comment = |body: &str| answering(server, || comment(repository(), 1, body.to_owned()));
        assert_eq!(comment("Hello \"there\"").unwrap().id, 7);
        assert_eq!(comment(" \n").unwrap_err().kind(), FailureKind::InvalidArguments);
    }

    #[test]
    fn errors_include_the_message_of_github() {
        fn check(status: u16, headers: &'static [(&str, &str)], kind: FailureKind, says: &str) {
            let server = move |_: &Request<Vec<u8>>| {
                let mut builder = Response::builder().status(status);
                for (name, value) in headers {
                    builder = builder.header(*name, *value);
                }
                Ok(builder.body(br#"{"message": "Nope"}"#.to_vec()).unwrap())
            };
            let error = answering(server, || read(repository(), 1, 0)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().contains("Nope") && error.message().contains(says), "{error}");
        }

        check(401, &[], FailureKind::Denied, "secret");
        check(403, &[], FailureKind::Denied, "may not");
        check(403, &[("x-ratelimit-remaining", "0")], FailureKind::Unavailable, "too many requests");
        check(429, &[("retry-after", "7")], FailureKind::Unavailable, "too many requests");
        check(404, &[], FailureKind::InvalidArguments, "private");
        check(410, &[], FailureKind::InvalidArguments, "410");
        check(422, &[], FailureKind::InvalidArguments, "422");
        check(301, &[("location", "https://api.github.com/repositories/1")], FailureKind::InvalidArguments, "moved");
        check(502, &[], FailureKind::Unavailable, "502");
    }

    #[test]
    fn rejects_repositories_that_change_the_url() {
        for name in ["a", "a/b/c", "a/..", "../b", "a/b?x", "a b/c", "/b", "a/", "a/%2e%2e"] {
            let error = list(name.to_owned(), State::Open, Vec::new(), 1, 20).unwrap_err();
            assert_eq!(error.kind(), FailureKind::InvalidArguments, "{name}");
        }
    }

    #[test]
    fn reports_an_invalid_response() {
        let error = answering(|_| Ok(Response::new(b"<html>".to_vec())), || read(repository(), 1, 0)).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Failed);
        assert!(error.message().contains("not what the API promises"), "{error}");
    }
}
