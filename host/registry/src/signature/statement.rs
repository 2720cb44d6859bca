//! The statement that is signed: an in-toto statement about a component, with its provenance.

use fumehood_core::digest::Digest;
use fumehood_core::text::untrusted::PrintableText;
use serde::{Deserialize, Serialize};

use crate::reference::OciReference;

/// Type of every statement (in-toto attestation framework 1.0, "Statement").
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// Type of the predicate (SLSA 1.0, "Provenance").
pub(crate) const PROVENANCE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// Type of the build that the predicate describes.
const BUILD_TYPE: &str = "urn:fumehood:component-build:v1";
/// Builder of components whose provenance names none.
const UNKNOWN_BUILDER: &str = "urn:fumehood:builder:unspecified";
/// Suffix of the name of the second subject, the component's own bytes.
const COMPONENT_SUFFIX: &str = "#component";
/// Media type of the payload of an envelope (in-toto attestation framework 1.0, "Envelope").
pub(super) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Maximum length of each text of a provenance, in bytes.
pub const MAX_PROVENANCE_BYTES: usize = 1024;

/// The origin of a component, as its signer states it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The address of the source repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PrintableText>,
    /// The revision of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<PrintableText>,
    /// The URI of the builder, such as that of a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<PrintableText>,
    /// The time of the signature, in RFC 3339. A cooling time (`min_age`) counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<PrintableText>,
}

/// The claim that a signature makes: this name stands for this manifest and these bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Host and repository, as [`OciReference::name`] returns them.
    pub name: String,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The tag that the component was published under.
    pub tag: Option<PrintableText>,
    /// The origin.
    pub provenance: Provenance,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Statement<P> {
    #[serde(rename = "_type")]
    kind: String,
    pub(super) subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    pub(super) predicate_type: String,
    pub(super) predicate: P,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) name: String,
    digest: Sha256,
}

#[derive(Serialize, Deserialize)]
struct Sha256 {
    sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    build_definition: BuildDefinition,
    run_details: RunDetails,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition {
    build_type: String,
    external_parameters: Parameters,
}

#[derive(Serialize, Deserialize)]
struct Parameters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct RunDetails {
    builder: Builder,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Serialize, Deserialize)]
struct Builder {
    id: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_on: Option<String>,
}

impl Subject {
    pub(super) fn new(name: String, digest: &Digest) -> Self {
        Self { name, digest: Sha256 { sha256: digest.hex() } }
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        format!("sha256:{}", self.digest.sha256).parse().ok()
    }
}

impl<P> Statement<P> {
    pub(super) fn new(subject: Vec<Subject>, predicate_type: &str, predicate: P) -> Self {
        Self { kind: STATEMENT_TYPE.to_owned(), subject, predicate_type: predicate_type.to_owned(), predicate }
    }

    pub(super) fn is_known_version(&self) -> bool {
        self.kind == STATEMENT_TYPE
    }
}

/// Returns a text of the provenance, unless it is longer than a statement takes.
fn within_limit(text: Option<&PrintableText>) -> Option<String> {
    text.filter(|text| text.len() <= MAX_PROVENANCE_BYTES).map(ToString::to_string)
}

impl Claim {
    /// Creates the claim about a component that is published under `reference`.
    #[must_use]
    pub fn new(reference: &OciReference, manifest: Digest, component: Digest, provenance: Provenance) -> Self {
        Self { name: reference.name(), manifest, component, tag: reference.tag().map(PrintableText::from), provenance }
    }

    /// Returns the statement, as it is signed.
    pub(crate) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let provenance = &self.provenance;
        let subject = vec![
            Subject::new(self.name.clone(), &self.manifest),
            Subject::new(format!("{}{COMPONENT_SUFFIX}", self.name), &self.component),
        ];
        let predicate = Predicate {
            build_definition: BuildDefinition {
                build_type: BUILD_TYPE.to_owned(),
                external_parameters: Parameters {
                    revision: within_limit(provenance.revision.as_ref()),
                    source: within_limit(provenance.source.as_ref()),
                    tag: within_limit(self.tag.as_ref()),
                },
            },
            run_details: RunDetails {
                builder: Builder {
                    id: within_limit(provenance.builder.as_ref()).unwrap_or_else(|| UNKNOWN_BUILDER.to_owned()),
                },
                metadata: Metadata { finished_on: within_limit(provenance.signed_at.as_ref()) },
            },
        };
        serde_json::to_vec(&Statement::new(subject, PROVENANCE_TYPE, predicate))
    }

    /// Parses the payload of an envelope. Returns the reason if it is not such a statement.
    pub(super) fn from_json(payload: &[u8]) -> Result<Self, String> {
        let statement: Statement<Predicate> = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        if !statement.is_known_version() || statement.predicate_type != PROVENANCE_TYPE {
            return Err("it is not a provenance statement of a component".to_owned());
        }
        let [named, bytes] = statement.subject.as_slice() else {
            return Err("it does not have one manifest and one component as subjects".to_owned());
        };
        if bytes.name != format!("{}{COMPONENT_SUFFIX}", named.name) {
            return Err("its two subjects have different names".to_owned());
        }
        let (Some(manifest), Some(component)) = (named.digest(), bytes.digest()) else {
            return Err("a digest in it is malformed".to_owned());
        };
        let Predicate { build_definition, run_details } = statement.predicate;
        let Parameters { revision, source, tag } = build_definition.external_parameters;
        let builder = Some(run_details.builder.id).filter(|id| id != UNKNOWN_BUILDER);
        let signed_at = run_details.metadata.finished_on;
        let texts = [&revision, &source, &tag, &builder, &signed_at];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_PROVENANCE_BYTES) {
            return Err(format!("it contains a string longer than {MAX_PROVENANCE_BYTES} bytes"));
        }
        let [revision, source, tag, builder, signed_at] =
            [revision, source, tag, builder, signed_at].map(|text| text.map(PrintableText::from));
        let provenance = Provenance { source, revision, builder, signed_at };
        Ok(Self { name: named.name.clone(), manifest, component, tag, provenance })
    }
}
