//! Access tokens as JWTs: their form (RFC 7515), and the claims that they have to make (RFC 7519, RFC 9068).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::TokenRefusal;
use crate::oauth::key_set::{Algorithm, KeySet, MAX_KEY_ID_BYTES};

/// Maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// Tolerated difference between the clocks of the issuer and this machine, in seconds.
const LEEWAY_SECONDS: f64 = 60.0;

/// The header of a token.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A token whose signature was not verified yet.
#[derive(Debug)]
pub(crate) struct UnverifiedToken<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    signed: &'a str,
    signature: Vec<u8>,
    payload: Vec<u8>,
}

/// The requirements on the claims of a token.
#[derive(Debug)]
pub(crate) struct Requirements {
    /// The issuer, exactly.
    pub(crate) issuer: String,
    /// A value that the audience must contain.
    pub(crate) audience: String,
    /// Scopes that it must all have.
    pub(crate) scopes: Vec<String>,
}

/// One value or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The claims of a token whose signature was verified.
#[derive(Deserialize)]
pub(crate) struct Claims {
    iss: String,
    exp: f64,
    nbf: Option<f64>,
    aud: OneOrMany,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses the compact form of a token, and checks what its header claims.
    ///
    /// # Errors
    /// If it is malformed, of another type, or signed by an algorithm that is not accepted.
    pub(crate) fn parse(token: &'a str) -> Result<Self, TokenRefusal> {
        let malformed = TokenRefusal::Invalid("the token is not a signed JWT");
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenRefusal::Invalid("the token is too long"));
        }
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed);
        let (signed, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(malformed)?;
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed)?;
        let algorithm = Algorithm::from_name(&header.alg)
            .ok_or(TokenRefusal::Invalid("the token is signed by an algorithm that is not accepted"))?;
        let is_access_token = |kind: &str| {
            let kind = kind.to_ascii_lowercase();
            ["at+jwt", "application/at+jwt", "jwt", "application/jwt"].contains(&kind.as_str())
        };
        if header.crit.is_some() || !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(TokenRefusal::Invalid("the token is a JWT, but not an access token"));
        }
        if header.kid.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID_BYTES) {
            return Err(malformed);
        }
        let signature = decode(signature)?;
        let payload = decode(payload)?;
        Ok(Self { algorithm, key_id: header.kid, signed, signature, payload })
    }

    /// Verifies the signature, and returns the claims.
    ///
    /// # Errors
    /// If no key made the signature, or the claims are malformed.
    pub(crate) fn verify(&self, keys: &KeySet) -> Result<Claims, TokenRefusal> {
        let id = self.key_id.as_deref();
        if !keys.has_candidate(self.algorithm, id) {
            return Err(TokenRefusal::Invalid("the token is signed with a key that its issuer does not publish"));
        }
        if !keys.verifies(self.algorithm, id, self.signed.as_bytes(), &self.signature) {
            return Err(TokenRefusal::Invalid("the signature of the token is invalid"));
        }
        serde_json::from_slice(&self.payload)
            .map_err(|_| TokenRefusal::Invalid("the token lacks one of the claims iss, exp and aud"))
    }
}

impl Claims {
    /// Checks issuer, audience, times and scopes. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// If one of them is not as required.
    pub(crate) fn check(&self, required: &Requirements, now: f64) -> Result<(), TokenRefusal> {
        if self.iss != required.issuer {
            return Err(TokenRefusal::Invalid("the token was issued by another issuer"));
        }
        let is_for_this = match &self.aud {
            OneOrMany::One(audience) => *audience == required.audience,
            OneOrMany::Many(audiences) => audiences.contains(&required.audience),
        };
        if !is_for_this {
            return Err(TokenRefusal::Invalid("the token is for another resource; request one with this `resource`"));
        }
        // Numbers of JSON are finite.
        if now >= self.exp + LEEWAY_SECONDS {
            return Err(TokenRefusal::Invalid("the token has expired"));
        }
        if self.nbf.is_some_and(|begin| now + LEEWAY_SECONDS < begin) {
            return Err(TokenRefusal::Invalid("the token is not valid yet"));
        }
        let granted = self.scopes();
        if required.scopes.iter().all(|scope| granted.contains(scope)) {
            Ok(())
        } else {
            Err(TokenRefusal::InsufficientScope)
        }
    }

    /// Returns the values of a claim: a text, a number, or several texts. Scopes are separated by spaces.
    pub(crate) fn values(&self, claim: &str) -> Vec<String> {
        if claim == "scope" {
            return self.scopes();
        }
        match self.others.get(claim) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Number(number)) => vec![number.to_string()],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the scopes: those of `scope` (RFC 8693), or else those of `scp`, as some issuers call it.
    fn scopes(&self) -> Vec<String> {
        match self.others.get("scope").or_else(|| self.others.get("scp")) {
            Some(Value::String(text)) => split_words(text),
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).flat_map(split_words).collect(),
            _ => Vec::new(),
        }
    }
}

fn split_words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: f64 = 1_800_000_000.0;

    fn required(scopes: &[&str]) -> Requirements {
        Requirements {
            issuer: "https://auth.example.com".to_owned(),
            audience: "https://tools.example.com".to_owned(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        }
    }

    fn check(change: &Value, scopes: &[&str]) -> Result<(), TokenRefusal> {
        let mut claims = json!({
            "iss": "https://auth.example.com", "aud": "https://tools.example.com", "exp": NOW + 300.0,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let claims: Claims = serde_json::from_value(claims).map_err(|_| TokenRefusal::Invalid("form"))?;
        claims.check(&required(scopes), NOW)
    }

    #[test]
    fn accepts_tokens_for_this_resource() {
        for change in [
            json!({}),
            json!({ "aud": ["https://other.example.com", "https://tools.example.com"] }),
            json!({ "exp": NOW - 59.0 }),
            json!({ "nbf": NOW + 59.0 }),
            json!({ "nbf": null }),
        ] {
            assert_eq!(check(&change, &[]), Ok(()), "{change}");
        }
    }

    #[test]
    fn refuses_claims_that_are_not_as_required() {
        for (change, part) in [
            (json!({ "iss": "https://auth.example.com/" }), "another issuer"),
            (json!({ "iss": ["https://auth.example.com"] }), "form"),
            (json!({ "aud": "https://tools.example.com.evil.example" }), "another resource"),
            (json!({ "aud": "https://tools.example.com/" }), "another resource"),
            (json!({ "aud": [] }), "another resource"),
            (json!({ "aud": null }), "form"),
            (json!({ "exp": NOW - 61.0 }), "expired"),
            (json!({ "exp": "never" }), "form"),
            (json!({ "exp": null }), "form"),
            (json!({ "nbf": NOW + 61.0 }), "not valid yet"),
            (json!({ "nbf": "soon" }), "form"),
        ] {
            let Err(TokenRefusal::Invalid(why)) = check(&change, &[]) else { panic!("{change} is accepted") };
            assert!(why.contains(part), "{change}: {why}");
        }
    }

    #[test]
    fn requires_every_scope() {
        for (scope, expected) in [
            (json!({ "scope": "read call" }), Ok(())),
            (json!({ "scp": ["call", "read"] }), Ok(())),
            (json!({ "scope": "read" }), Err(TokenRefusal::InsufficientScope)),
            (json!({ "scope": "read callback" }), Err(TokenRefusal::InsufficientScope)),
            (json!({}), Err(TokenRefusal::InsufficientScope)),
        ] {
            assert_eq!(check(&scope, &["read", "call"]), expected, "{scope}");
        }
    }

    #[test]
    fn refuses_headers_that_are_not_of_a_signed_access_token() {
        assert_eq!(parse_algorithm(&json!({ "alg": "ES256", "typ": "at+JWT" })), Ok(Algorithm::Es256));
        for header in [
            json!({ "alg": "none" }),
            json!({ "alg": "None" }),
            json!({ "alg": "HS256" }),
            json!({ "alg": "RS512" }),
            json!({ "alg": ["ES256"] }),
            json!({ "typ": "JWT" }),
            json!({ "alg": "ES256", "typ": "dpop+jwt" }),
            json!({ "alg": "ES256", "crit": ["b64"] }),
            json!({ "alg": "ES256", "kid": "x".repeat(257) }),
        ] {
            parse_algorithm(&header).unwrap_err();
        }
        let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256"}"#);
        for token in [
            "",
            ".",
            "..",
            "a.b.c",
            &format!("{header}.e30"),
            &format!("{header}.e30.AA=="),
            &format!("{header}.e30.AAAA.AAAA"),
        ] {
            UnverifiedToken::parse(token).unwrap_err();
        }
        UnverifiedToken::parse(&"a".repeat(MAX_TOKEN_BYTES + 1)).unwrap_err();
    }

    fn parse_algorithm(header: &Value) -> Result<Algorithm, TokenRefusal> {
        let token = format!("{}.e30.AAAA", BASE64_URL_SAFE_NO_PAD.encode(header.to_string()));
        UnverifiedToken::parse(&token).map(|token| token.algorithm)
    }
}
