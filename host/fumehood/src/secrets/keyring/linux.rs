//! The keyring in the kernel (`keyrings(7)`).

use keyring_core::Error;
use keyring_core::api::CredentialStoreApi as _;
use linux_keyutils_keyring_store::Store;

pub(super) fn read(service: &str, user: &str) -> Result<Option<String>, Error> {
    let read = Store::new().and_then(|store| store.build(service, user, None)).and_then(|entry| entry.get_password());
    match read {
        Err(Error::NoEntry | Error::Invalid(..)) => Ok(None),
        read => read.map(Some),
    }
}
