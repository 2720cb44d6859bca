//! The subset of JSON Schema that each provider documents.

use crate::spec::Service;

/// A subset of JSON Schema.
///
/// All dialects have `type` with one name, `description`, `properties`, `required`, `items`, `enum` and, below the
/// root, `anyOf`. None has references, `allOf`, `oneOf`, `not`, `const` or `pattern`. The table in `docs/models.md`
/// names the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// Further keywords.
    pub(super) keywords: &'static [&'static str],
    /// Values of `format`, if that is a keyword. Empty: all.
    pub(super) formats: &'static [&'static str],
    /// The property names that are accepted.
    pub(super) names: NameRule,
    /// True if a type may be `null`.
    pub(super) has_null: bool,
    /// True if a schema may leave its type open.
    pub(super) has_untyped: bool,
    /// True if values of `enum` must be strings.
    pub(super) string_enums_only: bool,
}

/// A rule for property names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameRule {
    /// Any name.
    Any,
    /// 1 to 64 letters, digits, `_`, `.` and `-`.
    Anthropic,
    /// 1 to 64 letters, digits and `_`, not a digit first.
    Identifier,
}

const OPENAI: Dialect = Dialect {
    keywords: &[
        "additionalProperties",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    ],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
    names: NameRule::Any,
    has_null: true,
    has_untyped: true,
    string_enums_only: false,
};

const COMPATIBLE: Dialect = Dialect {
    keywords: &["additionalProperties", "minimum", "maximum", "minItems", "maxItems"],
    formats: &[],
    ..OPENAI
};

const ANTHROPIC: Dialect = Dialect {
    keywords: &[
        "additionalProperties",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
    ],
    formats: &[],
    names: NameRule::Anthropic,
    ..OPENAI
};

const GEMINI: Dialect = Dialect {
    keywords: &["format", "minimum", "maximum", "minItems", "maxItems"],
    formats: &["date-time"],
    names: NameRule::Identifier,
    has_null: true,
    has_untyped: false,
    string_enums_only: true,
};

const OLLAMA: Dialect = Dialect {
    keywords: &[],
    formats: &[],
    names: NameRule::Any,
    has_null: false,
    has_untyped: true,
    string_enums_only: false,
};

impl Dialect {
    /// Returns the dialect of a provider.
    pub(crate) fn of(service: Service) -> &'static Self {
        match service {
            Service::OpenAi => &OPENAI,
            Service::Compatible => &COMPATIBLE,
            Service::Anthropic => &ANTHROPIC,
            Service::Gemini => &GEMINI,
            Service::Ollama => &OLLAMA,
        }
    }

    /// Returns whether a keyword may be sent, apart from those of all dialects.
    pub(super) fn has_keyword(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }

    /// Returns whether a value of `format` may be sent.
    pub(super) fn has_format(&self, format: &str) -> bool {
        self.has_keyword("format") && (self.formats.is_empty() || self.formats.contains(&format))
    }
}
