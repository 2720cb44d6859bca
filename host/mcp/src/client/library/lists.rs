//! The lists of a server's resources, templates and prompts.

use std::collections::BTreeSet;

use rmcp::model::{ErrorCode, ServerCapabilities};
use rmcp::service::ServiceError;

use super::MAX_LISTED_ITEMS;
use super::definition::{Definition, ListKind, list_page};
use crate::apps;
use crate::client::connection::Connection;
use crate::client::pager::{NextPage, Pager};
use crate::client::remote_options::RemoteOptions;
use crate::client::tool_notice::{Notices, ToolNotice};

/// The lists that a server sent last.
#[derive(Default)]
pub(super) struct Lists {
    /// True once they were listed.
    pub(super) were_read: bool,
    pub(super) capabilities: ServerCapabilities,
    pub(super) resources: Vec<Definition>,
    pub(super) templates: Vec<Definition>,
    pub(super) prompts: Vec<Definition>,
    pub(super) notices: Vec<ToolNotice>,
}

impl Lists {
    /// Lists everything that is passed on. A list that cannot be read now stays as it was `before`, with a notice.
    pub(super) async fn read(connection: &Connection, options: &RemoteOptions, before: &Self) -> Self {
        let info = connection.peer().peer_info();
        let capabilities = info.map(|info| info.capabilities.clone()).unwrap_or_default();
        let has_resources = options.library.resources && capabilities.resources.is_some();
        let has_prompts = options.library.prompts && capabilities.prompts.is_some();
        let mut lists = Self { were_read: true, capabilities, ..Self::default() };
        let mut notices = Vec::new();
        if has_resources {
            let kind = ListKind::Resources;
            lists.resources = read_kind(connection, options, kind, &before.resources, &mut notices).await;
            let kind = ListKind::Templates;
            lists.templates = read_kind(connection, options, kind, &before.templates, &mut notices).await;
        }
        if has_prompts {
            let kind = ListKind::Prompts;
            lists.prompts = read_kind(connection, options, kind, &before.prompts, &mut notices).await;
        }
        lists.notices = notices;
        lists
    }

    /// Returns whether clients and operators see the same of both.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        self.were_read == other.were_read
            && self.capabilities == other.capabilities
            && have_same_digests(&self.resources, &other.resources)
            && have_same_digests(&self.templates, &other.templates)
            && have_same_digests(&self.prompts, &other.prompts)
            && self.notices == other.notices
    }
}

fn have_same_digests(one: &[Definition], other: &[Definition]) -> bool {
    one.iter().map(|it| it.digest).eq(other.iter().map(|it| it.digest))
}

/// Lists the definitions of one kind.
async fn read_kind(
    connection: &Connection,
    options: &RemoteOptions,
    kind: ListKind,
    before: &[Definition],
    notices: &mut Vec<ToolNotice>,
) -> Vec<Definition> {
    let mut listed = PartialList::new(kind, options);
    let mut pager = Pager::new(MAX_LISTED_ITEMS);
    let mut cursor = None;
    loop {
        let page = match list_page(connection, kind, cursor.take()).await {
            Ok(page) => page,
            // Many servers with resources have no templates.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
            Err(error) => {
                let mut why = format!("cannot list them: {error}");
                options.redactor.iter().for_each(|redactor| redactor.redact_text(&mut why));
                notices.push(ToolNotice::new(kind.member(), why));
                return before.to_vec();
            }
        };
        let next = pager.follow(page.next);
        let cut = match (listed.add(page.definitions), next) {
            (false, _) => format!("lists more than {MAX_LISTED_ITEMS} of them"),
            (true, NextPage::Cut(why)) => why,
            (true, NextPage::End) => break,
            (true, NextPage::At(next)) => {
                cursor = Some(next);
                continue;
            }
        };
        listed
            .notices
            .push_about_list(ToolNotice::new(kind.member(), format!("the server {cut}; the items before are used")));
        break;
    }
    notices.extend(listed.notices.into_vec());
    listed.definitions
}

/// The definitions of a list until now.
struct PartialList<'a> {
    kind: ListKind,
    options: &'a RemoteOptions,
    definitions: Vec<Definition>,
    keys: BTreeSet<String>,
    notices: Notices,
    count: usize,
}

impl<'a> PartialList<'a> {
    fn new(kind: ListKind, options: &'a RemoteOptions) -> Self {
        let (definitions, keys, notices) = Default::default();
        Self { kind, options, definitions, keys, notices, count: 0 }
    }

    /// Adds the definitions of a page. Returns false if the list has too many, those that are left out included.
    fn add(&mut self, page: Vec<serde_json::Value>) -> bool {
        for value in page {
            if self.count >= MAX_LISTED_ITEMS {
                return false;
            }
            self.count += 1;
            match Definition::read(self.kind, value, self.options) {
                Ok(it) if !self.options.client_requests.apps && apps::is_app_uri(&it.key) => {}
                Ok(it) if !self.keys.insert(it.key.clone()) => {
                    let why = "the server lists it twice; the first is used";
                    self.notices.push(ToolNotice::new(&it.key, why));
                }
                Ok(it) => self.definitions.push(it),
                Err(notice) => self.notices.push(notice),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn prompts(from: usize, to: usize) -> Vec<Value> {
        (from..to).map(|n| json!({"name": format!("p{n}")})).collect::<Vec<_>>()
    }

    #[test]
    fn a_page_is_cut_off_however_long_it_is() {
        let options = RemoteOptions::default();
        let mut listed = PartialList::new(ListKind::Prompts, &options);
        assert!(listed.add(prompts(0, MAX_LISTED_ITEMS)), "the maximum number of");
        assert!(!listed.add(prompts(MAX_LISTED_ITEMS, MAX_LISTED_ITEMS + 1)));
        assert_eq!(listed.definitions.len(), MAX_LISTED_ITEMS);
        let mut listed = PartialList::new(ListKind::Prompts, &options);
        assert!(!listed.add(vec![json!({}); MAX_LISTED_ITEMS + 1]), "those that are left out count");
        let notices = listed.notices.into_vec();
        assert_eq!(
            (notices.len(), notices[100].to_string().as_str()),
            (101, "900 more: more notices of this kind follow")
        );
    }
}
