//! The `secrets` interface: the names of granted secrets. Their values never enter a guest; the host puts them into
//! requests.

use super::CallState;
use crate::bindings::fumehood::tool::secrets;

impl secrets::Host for CallState {
    /// Returns whether this tool was granted a secret of this name. A secret that only other tools were granted and one
    /// that does not exist give the same answer.
    fn exists(&mut self, name: String) -> bool {
        self.powers.secret_names.contains(&name)
    }
}
