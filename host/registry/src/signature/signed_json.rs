//! Signed JSON values of other kinds, such as an index: predicates of an in-toto statement.

use fumehood_core::digest::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bundle::{self, OpenError};
use super::key::{KeyId, PublicKey, SigningKey};
use super::statement::{Statement, Subject};

/// A reason why a signed value was refused.
pub(crate) enum OpenJsonError {
    Malformed(String),
    ForeignKey(String),
    Wrong(KeyId),
    OtherName(String),
}

/// Signs a value under a name. Returns the bundle as JSON.
pub(crate) fn sign_json<P: Serialize>(
    key: &SigningKey,
    name: &str,
    predicate_type: &str,
    value: &P,
) -> Result<String, String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    let subject = vec![Subject::new(name.to_owned(), &Digest::of(&json))];
    let statement = serde_json::to_vec(&Statement::new(subject, predicate_type, value));
    bundle::seal(key, &statement.map_err(|error| error.to_string())?)
}

/// Verifies a value that was signed under a name.
pub(crate) fn open_json<P: Serialize + DeserializeOwned>(
    bundle: &[u8],
    name: &str,
    predicate_type: &str,
    trusted: &[PublicKey],
    max_bytes: usize,
) -> Result<(KeyId, P), OpenJsonError> {
    let opened = bundle::open(bundle, trusted, max_bytes).map_err(|error| match error {
        OpenError::Malformed(reason) => OpenJsonError::Malformed(reason),
        OpenError::ForeignKey(hint) => OpenJsonError::ForeignKey(hint),
        OpenError::Wrong(key) => OpenJsonError::Wrong(key),
    })?;
    let statement: Statement<P> =
        serde_json::from_slice(&opened.payload).map_err(|error| OpenJsonError::Malformed(error.to_string()))?;
    if !statement.is_known_version() || statement.predicate_type != predicate_type {
        return Err(OpenJsonError::Malformed("it states something else".to_owned()));
    }
    match statement.subject.as_slice() {
        [subject] if subject.name == name => Ok((opened.key, statement.predicate)),
        [subject] => Err(OpenJsonError::OtherName(subject.name.clone())),
        _ => Err(OpenJsonError::Malformed("it is not about one thing".to_owned())),
    }
}
