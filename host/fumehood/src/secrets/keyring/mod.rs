//! The keyring of this user.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod system;

/// Reads the secret of `user` of `service`; `None` if there is none.
///
/// # Errors
/// If the keyring cannot be used.
pub(crate) fn read(service: &str, user: &str) -> Result<Option<String>, keyring_core::Error> {
    system::read(service, user)
}
