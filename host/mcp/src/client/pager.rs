//! The pages of a list, which its server may make too long, or endless.

use std::collections::BTreeSet;

use fumehood_core::digest::Digest;

/// Maximum size of a cursor, in bytes.
const MAX_CURSOR_BYTES: usize = 4 << 10;

/// The pages of one list that were requested so far.
pub(super) struct Pager {
    max_pages: usize,
    /// The digests of the cursors until now.
    seen: BTreeSet<Digest>,
}

/// The continuation after a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextPage {
    /// The page at this cursor.
    At(String),
    /// Nothing: the list is complete.
    End,
    /// Nothing, for this reason, a clause about the server.
    Cut(String),
}

impl Pager {
    /// Creates a pager for a list of at most this many pages.
    pub(super) fn new(max_pages: usize) -> Self {
        Self { max_pages, seen: BTreeSet::new() }
    }

    /// Returns what follows a page with this cursor.
    pub(super) fn follow(&mut self, cursor: Option<String>) -> NextPage {
        // Some servers end with an empty cursor.
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else { return NextPage::End };
        if cursor.len() > MAX_CURSOR_BYTES {
            return NextPage::Cut(format!("has a cursor of more than {MAX_CURSOR_BYTES} bytes"));
        }
        if self.seen.len() + 1 >= self.max_pages {
            return NextPage::Cut(format!("lists more than {} pages", self.max_pages));
        }
        if !self.seen.insert(Digest::of(cursor.as_bytes())) {
            return NextPage::Cut("repeats a page".to_owned());
        }
        NextPage::At(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow_to(pager: &mut Pager, cursor: &str) -> NextPage {
        pager.follow(Some(cursor.to_owned()))
    }

    fn cut(why: &str) -> NextPage {
        NextPage::Cut(why.to_owned())
    }

    #[test]
    fn a_list_ends() {
        let mut pager = Pager::new(3);
        assert_eq!([pager.follow(None), follow_to(&mut pager, "")], [NextPage::End, NextPage::End]);
        assert_eq!(follow_to(&mut pager, &"x".repeat(4097)), cut("has a cursor of more than 4096 bytes"));
        let largest = "x".repeat(4096);
        assert_eq!(follow_to(&mut pager, &largest), NextPage::At(largest.clone()));
        assert_eq!(follow_to(&mut pager, &largest), cut("repeats a page"));
        assert_eq!(follow_to(&mut pager, "b"), NextPage::At("b".to_owned()));
        assert_eq!(follow_to(&mut pager, "c"), cut("lists more than 3 pages"));
    }
}
