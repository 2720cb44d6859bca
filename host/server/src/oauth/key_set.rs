//! Public keys of an issuer (JWK Set, RFC 7517), and the signatures that they verify (RFC 7518, RFC 8037).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of keys that are taken from one set.
const MAX_KEYS: usize = 64;
/// Maximum length of the identifier of a key, in bytes.
pub(crate) const MAX_KEY_ID_BYTES: usize = 256;

/// The accepted signature algorithms. Neither `none` nor one with a shared secret can be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// Returns the algorithm of this name, if it is accepted.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            // RFC 9864 gives EdDSA over this curve a name of its own.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A key as it is published. Members that no accepted key has are ignored.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// A key for one algorithm.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Decodes a parameter of a JWK, which is base64url without padding (RFC 7518, section 2).
fn decode_parameter(part: Option<&str>) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(part?).ok()
}

impl Key {
    /// Returns the key; `None` if it is for something else, or malformed.
    fn from_jwk(jwk: Jwk) -> Option<Self> {
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let modulus = decode_parameter(jwk.n.as_deref())?;
                let exponent = decode_parameter(jwk.e.as_deref())?;
                Material::Rsa { modulus, exponent }
            }
            ("EC", Some("P-256")) => {
                let x = decode_parameter(jwk.x.as_deref())?;
                let y = decode_parameter(jwk.y.as_deref())?;
                Material::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(decode_parameter(jwk.x.as_deref())?),
            _ => return None,
        };
        let key = Self { id: jwk.kid, material };
        let is_same = |name: &str| Algorithm::from_name(name) == Some(key.algorithm());
        jwk.alg.as_deref().is_none_or(is_same).then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            // Keys of less than 2048 bits verify nothing.
            Material::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &signature::RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Material::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::Ed25519(key) => UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// The keys of an issuer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet(Vec<Key>);

impl KeySet {
    /// Parses a JWK Set. Keys for something else are left out, and so are those after the first 64.
    ///
    /// # Errors
    /// If it is none, or has no key for an accepted algorithm.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text).map_err(|_| "it is not a JWK Set")?;
        let keys = set.keys.into_iter().take(MAX_KEYS).filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<Key> = keys.filter_map(Key::from_jwk).collect();
        if keys.is_empty() { Err("it has no key for RS256, ES256 or EdDSA") } else { Ok(Self(keys)) }
    }

    /// Returns the keys that a signature by this algorithm can be of. Without an identifier these are all of them.
    fn candidates(&self, algorithm: Algorithm, id: Option<&str>) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| key.algorithm() == algorithm && (id.is_none() || key.id.as_deref() == id))
    }

    /// Returns whether there is a key that a signature can be of.
    pub(crate) fn has_candidate(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        self.candidates(algorithm, id).next().is_some()
    }

    /// Returns whether one of the keys made the signature.
    pub(crate) fn verifies(&self, algorithm: Algorithm, id: Option<&str>, message: &[u8], signature: &[u8]) -> bool {
        self.candidates(algorithm, id).any(|key| key.verifies(message, signature))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verifies(jwk: &Value, algorithm: Algorithm, signed: &str) -> bool {
        let set = KeySet::parse(json!({ "keys": [jwk] }).to_string().as_bytes()).unwrap();
        let (message, signature) = signed.rsplit_once('.').unwrap();
        set.verifies(algorithm, None, message.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap())
    }

    #[test]
    fn verifies_the_examples_of_the_specifications() {
        // RFC 8037, appendices A.2 and A.4; RFC 7515, appendix A.3.
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
        let signed = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        assert!(verifies(&ed, Algorithm::EdDsa, signed));
        assert!(!verifies(&ed, Algorithm::EdDsa, &signed.replace("RXhh", "RXhi")));
        let ec = json!({
            "kty": "EC", "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        });
        let signed = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        assert!(verifies(&ec, Algorithm::Es256, signed));
        assert!(!verifies(&ec, Algorithm::Rs256, signed));
    }

    #[test]
    fn takes_only_keys_for_accepted_algorithms() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let ok =
            json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": "a", "use": "sig", "alg": "EdDSA", "x5c": [1] });
        let with = |name: &str, value: &str| {
            let mut key = ok.clone();
            key[name] = value.into();
            KeySet::parse(json!({ "keys": [1, {}, key] }).to_string().as_bytes())
        };
        assert!(with("kid", "b").unwrap().has_candidate(Algorithm::EdDsa, Some("b")));
        assert!(!with("kid", "b").unwrap().has_candidate(Algorithm::EdDsa, Some("a")));
        assert!(!with("kid", "b").unwrap().has_candidate(Algorithm::Es256, None));
        for (name, value) in
            [("use", "enc"), ("alg", "RS256"), ("alg", "HS256"), ("crv", "Ed448"), ("kty", "oct"), ("x", "+/")]
        {
            with(name, value).unwrap_err();
        }
        for malformed in ["", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":{}}"#] {
            KeySet::parse(malformed.as_bytes()).unwrap_err();
        }
    }
}
