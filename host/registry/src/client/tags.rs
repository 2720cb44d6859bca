//! The tags of a repository.

use http::header::LINK;
use http::{Method, StatusCode};
use serde::Deserialize;

use super::{Place, RegistryClient, Right, excerpt};
use crate::error::RegistryError;
use crate::http::{Access, read_bounded};
use crate::reference::OciReference;

/// Maximum number of pages of a list of tags that are read.
const MAX_PAGES: usize = 20;
/// Maximum size of one page, in bytes.
const MAX_PAGE_BYTES: u64 = 1 << 20;

/// A page of tags (OCI distribution specification 1.1, "Listing Tags").
#[derive(Deserialize)]
struct TagPage {
    tags: Option<Vec<String>>,
}

impl RegistryClient {
    /// Lists the tags of a reference's repository, from a mirror if there is one. Of a list with very many pages, the rest is left out.
    ///
    /// # Errors
    /// If no place answers.
    pub async fn tags(&self, reference: &OciReference) -> Result<Vec<String>, RegistryError> {
        let mut last = None;
        for place in self.places(reference) {
            match self.tags_at(&place).await {
                Ok(tags) => return Ok(tags),
                Err(error) if error.is_of_the_place() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| RegistryError::Setup("no registry or mirror to ask".to_owned())))
    }

    async fn tags_at(&self, place: &Place) -> Result<Vec<String>, RegistryError> {
        let what = format!("the tags of {}/{}", place.host, place.repository);
        let mut request = self.request(place, Method::GET, "tags/list", what.clone())?;
        let mut tags = Vec::new();
        for _ in 0..MAX_PAGES {
            let response = self.send(place, Right::Pull, &request, Access::Direct).await?;
            if response.status() != StatusCode::OK {
                return Err(self.transport.refusal(&request, response).await);
            }
            let link = response.headers().get(LINK).and_then(|link| link.to_str().ok());
            let next = link.and_then(next_query);
            let bytes = read_bounded(response, &place.host, &what, MAX_PAGE_BYTES).await?;
            let page: TagPage = serde_json::from_slice(&bytes).map_err(|error| RegistryError::Malformed {
                host: place.host.clone(),
                what: what.clone(),
                reason: excerpt(&error.to_string()),
            })?;
            tags.extend(page.tags.unwrap_or_default());
            let Some(next) = next else { break };
            request.url.set_query(Some(&next));
        }
        Ok(tags)
    }
}

/// Returns the query of the next page. Its path is that of this page, whatever the registry writes: what it links to elsewhere is not
/// asked.
fn next_query(link: &str) -> Option<String> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = parameters.split(';').any(|part| matches!(part.trim(), "rel=\"next\"" | "rel=next"));
    let query = target.split_once('?')?.1;
    is_next.then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_query_of_the_next_page() {
        let cases = [
            ("</v2/a/tags/list?last=1.0&n=100>; rel=\"next\"", Some("last=1.0&n=100")),
            ("<https://other.example/x?next_page=abc>; rel=next", Some("next_page=abc")),
            ("</v2/a/tags/list?last=1.0>; rel=\"prev\"", None),
            ("</v2/a/tags/list>; rel=\"next\"", None),
            ("nothing", None),
        ];
        for (link, expected) in cases {
            assert_eq!(next_query(link).as_deref(), expected, "{link}");
        }
    }
}
