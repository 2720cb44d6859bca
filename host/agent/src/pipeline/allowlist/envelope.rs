//! The context of a channel as a signed text, which can be passed on by programs that are not trusted.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fumehood_core::time::Timestamp;
use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Minimum length of a key, in bytes.
const MIN_KEY_BYTES: usize = 32;

/// Maximum length of an envelope, in bytes: far more than any allowlist needs.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;

/// An error for a key that is too short, with its length in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key for envelopes has {0} bytes; expected at least {MIN_KEY_BYTES} random bytes")]
pub struct EnvelopeKeyError(usize);

/// The secret key that envelopes are signed with.
#[derive(Clone)]
pub struct EnvelopeKey(Vec<u8>);

impl EnvelopeKey {
    /// Creates a key from these bytes.
    ///
    /// # Errors
    /// If there are fewer than 32 bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, EnvelopeKeyError> {
        let bytes = bytes.into();
        if bytes.len() < MIN_KEY_BYTES { Err(EnvelopeKeyError(bytes.len())) } else { Ok(Self(bytes)) }
    }

    /// Generates a random key, for envelopes that do not outlive the process.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = vec![0; MIN_KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the HMAC of a payload. Never `None`, because HMAC accepts keys of every length (RFC 2104, section 3).
    fn mac(&self, payload: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        // Domain separation: an HMAC with the same key for another purpose must not be valid here.
        mac.update(b"fumehood envelope 1\n");
        mac.update(payload);
        Some(mac)
    }
}

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvelopeKey(…)")
    }
}

/// Errors of an envelope that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// A text that is not an envelope.
    #[error("the signed allowlist is damaged; request a new one from the program that created it")]
    Form,
    /// A signature that does not match.
    #[error("the signature of the allowlist does not match; it was changed, or signed with another key")]
    Signature,
    /// An expired envelope.
    #[error("the signed allowlist has expired; request a new one from the program that created it")]
    Expired,
    /// An envelope for another actor than the one on whose behalf the calls are made.
    #[error("the signed allowlist is for a different actor than the session's")]
    OtherActor,
    /// An envelope for another skill than the one in use.
    #[error("the signed allowlist is for a different skill than the active one")]
    OtherSkill,
    /// No key to verify the envelope with.
    #[error("no key to verify the signed allowlist; give the pipeline the key")]
    NoKey,
}

/// The payload of an envelope: the context of a channel. All of it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    /// The channel.
    pub(crate) channel: String,
    /// The only skill that it is valid for; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) skill: Option<String>,
    /// The only actor that it is valid for; `None` for everybody, guests included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// The full names of the tools that may be called. Sorted, so that one allowlist has one text.
    pub(crate) tools: BTreeSet<String>,
    /// The maximum age of calls that are replayed to the model, in milliseconds; `None` for that of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replay_freshness_ms: Option<u64>,
    /// The time from which on it is expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Timestamp>,
}

impl Envelope {
    /// Signs the context. The text is the payload and its HMAC-SHA256, both as URL-safe base64 without padding (RFC
    /// 4648, section 5), separated by a dot.
    ///
    /// # Errors
    /// [`EnvelopeError::Form`] if the envelope cannot be written as JSON.
    pub(crate) fn seal(&self, key: &EnvelopeKey) -> Result<String, EnvelopeError> {
        let payload = serde_json::to_vec(self).map_err(|_| EnvelopeError::Form)?;
        let tag = key.mac(&payload).ok_or(EnvelopeError::Form)?.finalize().into_bytes();
        Ok(format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(payload), BASE64_URL_SAFE_NO_PAD.encode(tag)))
    }

    /// Verifies the signature in constant time, and then parses the payload.
    ///
    /// # Errors
    /// If the text is not an envelope, was not signed with this key, or is expired at `now`.
    pub(crate) fn open(text: &str, key: &EnvelopeKey, now: Timestamp) -> Result<Self, EnvelopeError> {
        if text.len() > MAX_ENVELOPE_BYTES {
            return Err(EnvelopeError::Form);
        }
        let (payload, tag) = text.split_once('.').ok_or(EnvelopeError::Form)?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).map_err(|_| EnvelopeError::Form)?;
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| EnvelopeError::Form)?;
        key.mac(&payload).ok_or(EnvelopeError::Form)?.verify_slice(&tag).map_err(|_| EnvelopeError::Signature)?;
        let envelope: Self = serde_json::from_slice(&payload).map_err(|_| EnvelopeError::Form)?;
        match envelope.expires {
            Some(expires) if expires <= now => Err(EnvelopeError::Expired),
            _ => Ok(envelope),
        }
    }

    /// Opens an envelope, and checks that it is valid for this skill and this actor.
    ///
    /// # Errors
    /// See [`Envelope::open`]; also if it is for another skill or another actor.
    pub(crate) fn open_for(
        text: &str,
        key: &EnvelopeKey,
        skill: Option<&str>,
        actor: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, EnvelopeError> {
        let envelope = Self::open(text, key, now)?;
        if envelope.actor.is_some() && envelope.actor.as_deref() != actor {
            return Err(EnvelopeError::OtherActor);
        }
        if envelope.skill.is_some() && envelope.skill.as_deref() != skill {
            return Err(EnvelopeError::OtherSkill);
        }
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        Envelope {
            channel: "support".to_owned(),
            skill: Some("refunds".to_owned()),
            actor: Some("ann".to_owned()),
            tools: ["b".to_owned(), "a".to_owned()].into(),
            replay_freshness_ms: Some(60_000),
            expires: Some(Timestamp(1000)),
        }
    }

    #[test]
    fn a_changed_envelope_does_not_verify() {
        let key = EnvelopeKey::new([7; 32]).unwrap();
        let text = envelope().seal(&key).unwrap();
        assert_eq!(Envelope::open(&text, &key, Timestamp(999)), Ok(envelope()));
        assert_eq!(Envelope::open(&text, &key, Timestamp(1000)), Err(EnvelopeError::Expired));
        let other = EnvelopeKey::new([8; 32]).unwrap();
        assert_eq!(Envelope::open(&text, &other, Timestamp(0)), Err(EnvelopeError::Signature));
        // Every change of a single character is detected.
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(changed == text || Envelope::open(&changed, &key, Timestamp(0)).is_err(), "{at}");
        }
        for text in ["", ".", "a.b", "no dot", &"a".repeat(MAX_ENVELOPE_BYTES + 1)] {
            assert!(Envelope::open(text, &key, Timestamp(0)).is_err());
        }
    }

    #[test]
    fn every_field_of_the_context_is_signed() {
        let key = EnvelopeKey::new([7; 32]).unwrap();
        let text = envelope().seal(&key).unwrap();
        let (_, tag) = text.split_once('.').unwrap();
        let fields: [(&str, Envelope); 9] = [
            ("channel", Envelope { channel: "sales".to_owned(), ..envelope() }),
            ("skill", Envelope { skill: Some("orders".to_owned()), ..envelope() }),
            ("skill left out", Envelope { skill: None, ..envelope() }),
            ("actor", Envelope { actor: Some("bob".to_owned()), ..envelope() }),
            ("actor left out", Envelope { actor: None, ..envelope() }),
            ("tools", Envelope { tools: ["a".to_owned(), "shell".to_owned()].into(), ..envelope() }),
            ("freshness", Envelope { replay_freshness_ms: Some(u64::MAX), ..envelope() }),
            ("expiry", Envelope { expires: Some(Timestamp(2000)), ..envelope() }),
            ("expiry left out", Envelope { expires: None, ..envelope() }),
        ];
        for (field, changed) in fields {
            let payload = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&changed).unwrap());
            let forged = format!("{payload}.{tag}");
            assert_eq!(Envelope::open(&forged, &key, Timestamp(0)), Err(EnvelopeError::Signature), "{field}");
        }
    }

    #[test]
    fn envelope_is_for_its_skill_and_its_actor_alone() {
        let key = EnvelopeKey::new([7; 32]).unwrap();
        let text = envelope().seal(&key).unwrap();
        let open = |text: &str, skill, actor| Envelope::open_for(text, &key, skill, actor, Timestamp(0)).map(drop);
        assert_eq!(open(&text, Some("refunds"), Some("ann")), Ok(()));
        for skill in [None, Some("orders")] {
            assert_eq!(open(&text, skill, Some("ann")), Err(EnvelopeError::OtherSkill));
        }
        for actor in [None, Some("bob"), Some("")] {
            assert_eq!(open(&text, Some("refunds"), actor), Err(EnvelopeError::OtherActor));
        }
        let open_to_all = Envelope { skill: None, actor: None, ..envelope() }.seal(&key).unwrap();
        for (skill, actor) in [(None, None), (Some("orders"), Some("bob"))] {
            assert_eq!(open(&open_to_all, skill, actor), Ok(()));
        }
    }

    #[test]
    fn key_has_a_minimum_length_and_is_not_printed() {
        assert_eq!(EnvelopeKey::new([0; 31]).unwrap_err(), EnvelopeKeyError(31));
        assert_eq!(format!("{:?}", EnvelopeKey::new([65; 32]).unwrap()), "EnvelopeKey(…)");
    }
}
