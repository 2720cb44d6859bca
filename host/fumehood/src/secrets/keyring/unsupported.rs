//! Systems whose keyrings are not read yet.

use keyring_core::Error;

pub(super) fn read(_: &str, _: &str) -> Result<Option<String>, Error> {
    Err(Error::NotSupportedByStore("the keyring of this system is not supported".to_owned()))
}
