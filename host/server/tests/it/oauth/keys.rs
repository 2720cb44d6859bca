//! Keys of issuers, and tokens that are signed with them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

/// A key that exists for these tests alone: no part of the system can make one for RSA.
const RSA_KEY: &str = include_str!("rsa-key.txt");

/// A private key with its identifier.
pub(crate) struct SigningKey {
    id: String,
    pair: Pair,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    pub(crate) fn ed25519(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()) }
    }

    pub(crate) fn p256(id: &str) -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair: Pair::P256(Box::new(pair)) }
    }

    pub(crate) fn rsa(id: &str) -> Self {
        let document = BASE64_STANDARD.decode(RSA_KEY.replace('\n', "")).unwrap();
        Self { id: id.to_owned(), pair: Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(&document).unwrap())) }
    }

    /// Returns the public key as it is published.
    pub(crate) fn jwk(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Ed25519(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref()) }),
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Pair::Rsa(pair) => {
                let public = signature::RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encode(&public.n), "e": encode(&public.e) })
            }
        };
        key["kid"] = self.id.clone().into();
        key["use"] = "sig".into();
        key
    }

    fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed25519(_) => "EdDSA",
            Pair::P256(_) => "ES256",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// Signs claims as a token.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with_header(&json!({ "alg": self.algorithm(), "kid": self.id, "typ": "at+jwt" }), claims)
    }

    pub(crate) fn sign_with_header(&self, header: &Value, claims: &Value) -> String {
        let signed = signed_part(header, claims);
        let message = signed.as_bytes();
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::P256(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        };
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn signed_part(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode_json(header), encode_json(claims))
}

fn encode_json(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Returns a token without a signature.
pub(crate) fn unsigned(claims: &Value) -> String {
    format!("{}.", signed_part(&json!({ "alg": "none", "typ": "at+jwt" }), claims))
}

/// Returns a token that uses a text as a shared secret.
pub(crate) fn with_secret(id: &str, secret: &[u8], claims: &Value) -> String {
    let signed = signed_part(&json!({ "alg": "HS256", "kid": id, "typ": "at+jwt" }), claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

/// Returns the time in some seconds from now.
pub(crate) fn in_seconds(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    i64::try_from(now).unwrap() + seconds
}
