//! Issues and comments, of the API and for the model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GitHub's name for a deleted account.
const GHOST_LOGIN: &str = "ghost";

/// An issue in a list.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// open or closed.
    pub state: String,
    /// The account that opened it.
    pub author: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The number of comments.
    pub comments: u64,
    /// The time of the last change.
    pub updated_at: String,
}

/// An issue with what was said about it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Issue {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// open or closed.
    pub state: String,
    /// The account that opened it.
    pub author: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The time at which it was opened.
    pub created_at: String,
    /// Its page, for people.
    pub page: String,
    /// The text, in Markdown.
    pub body: String,
    /// The comments, the oldest first.
    pub comments: Vec<Comment>,
    /// The total number of comments.
    pub comments_in_all: u64,
}

/// A comment.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comment {
    /// Its number among all comments.
    pub id: u64,
    /// The account that wrote it.
    pub author: String,
    /// The text, in Markdown.
    pub body: String,
    /// The time at which it was written.
    pub created_at: String,
    /// Its page, for people.
    pub page: String,
}

/// An issue of the API, with the fields that are used.
#[derive(Debug, Deserialize)]
pub(crate) struct RawIssue {
    number: u64,
    title: String,
    state: String,
    user: Option<Account>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    comments: u64,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    updated_at: String,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    pull_request: Option<serde_json::Value>,
}

/// A comment of the API.
#[derive(Debug, Deserialize)]
pub(crate) struct RawComment {
    id: u64,
    user: Option<Account>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    html_url: String,
}

#[derive(Debug, Deserialize)]
struct Account {
    login: String,
}

/// A label of the API, in either of its two forms.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Label {
    Name(String),
    Whole { name: Option<String> },
}

impl RawIssue {
    /// Returns whether it is a pull request: the API lists those among the issues.
    pub(crate) fn is_pull_request(&self) -> bool {
        self.pull_request.is_some()
    }

    pub(crate) fn has_comments(&self) -> bool {
        self.comments > 0
    }
}

fn login(account: Option<Account>) -> String {
    account.map_or_else(|| GHOST_LOGIN.to_owned(), |account| account.login)
}

fn names(labels: Vec<Label>) -> Vec<String> {
    let name = |label| match label {
        Label::Name(name) => Some(name),
        Label::Whole { name } => name,
    };
    labels.into_iter().filter_map(name).collect()
}

impl From<RawIssue> for Summary {
    fn from(raw: RawIssue) -> Self {
        Self {
            number: raw.number,
            title: raw.title,
            state: raw.state,
            author: login(raw.user),
            labels: names(raw.labels),
            comments: raw.comments,
            updated_at: raw.updated_at,
        }
    }
}

impl From<RawComment> for Comment {
    fn from(raw: RawComment) -> Self {
        Self {
            id: raw.id,
            author: login(raw.user),
            body: raw.body.unwrap_or_default(),
            created_at: raw.created_at,
            page: raw.html_url,
        }
    }
}

impl Issue {
    pub(crate) fn new(raw: RawIssue, comments: Vec<RawComment>) -> Self {
        Self {
            number: raw.number,
            title: raw.title,
            state: raw.state,
            author: login(raw.user),
            labels: names(raw.labels),
            created_at: raw.created_at,
            page: raw.html_url,
            body: raw.body.unwrap_or_default(),
            comments: comments.into_iter().map(Comment::from).collect(),
            comments_in_all: raw.comments,
        }
    }
}
