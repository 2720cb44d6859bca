//! Which secrets a tool has. The secrets themselves never come into a guest: they go into its requests.

use super::CallState;
use crate::bindings::fumehood::tool::secrets;

impl secrets::Host for CallState {
    /// One that others were granted and one that nobody was are alike: both are not in this grant.
    fn exists(&mut self, name: String) -> bool {
        self.powers.secret_names.contains(&name)
    }
}
