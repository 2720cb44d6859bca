//! A hook that leaves e-mail addresses out of results.

mod address;
mod json;

use fumehood_guest_hooks::{AfterDecision, Content, Failure, Hook, Outcome, ToolCall};

use address::redact;
use json::redact_json;

/// Replaces e-mail addresses in results.
#[derive(Debug)]
pub struct RedactEmail;

impl Hook for RedactEmail {
    fn after(_: ToolCall, outcome: Outcome) -> AfterDecision {
        let redacted = match &outcome {
            Ok(parts) => parts.iter().map(redact_part).collect::<Result<Vec<_>, _>>().map(Ok),
            Err(failure) => {
                Ok(Err(Failure { kind: failure.kind.clone(), message: redact(&failure.message).into_owned() }))
            }
        };
        match redacted {
            Ok(redacted) if redacted == outcome => AfterDecision::Keep,
            Ok(redacted) => AfterDecision::Replace(redacted),
            Err(reason) => AfterDecision::Reject(reason.to_owned()),
        }
    }
}

fumehood_guest_hooks::export!(RedactEmail);

fn redact_part(part: &Content) -> Result<Content, &'static str> {
    let optional = |text: &Option<String>| text.as_deref().map(|text| redact(text).into_owned());
    Ok(match part {
        Content::Text(text) => Content::Text(redact(text).into_owned()),
        Content::Json(text) => Content::Json(redact_json(text).ok_or("its JSON cannot be searched for addresses")?),
        Content::Blob { mime_type, data } => {
            let redacted = match str::from_utf8(data) {
                Ok(text) => redact(text).into_owned().into_bytes(),
                Err(_) => data.clone(),
            };
            Content::Blob { mime_type: mime_type.clone(), data: redacted }
        }
        Content::Link { uri, title, mime_type } => {
            Content::Link { uri: redact(uri).into_owned(), title: optional(title), mime_type: mime_type.clone() }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcome: Outcome) -> AfterDecision {
        RedactEmail::after(ToolCall::default(), outcome)
    }

    #[test]
    fn replaces_addresses_in_every_kind_of_content() {
        let blob = |text: &str| Content::Blob { mime_type: "text/csv".to_owned(), data: text.as_bytes().to_vec() };
        let link = |uri: &str| Content::Link { uri: uri.to_owned(), title: Some(uri.to_owned()), mime_type: None };
        let found = after(Ok(vec![
            Content::Text("Ada <ada@example.com>".to_owned()),
            Content::Json(r#"{"to":"ada@example.com","n":1.50}"#.to_owned()),
            blob("Ada,ada@example.com"),
            link("mailto:ada@example.com"),
        ]));
        let expected = AfterDecision::Replace(Ok(vec![
            Content::Text("Ada <[e-mail address]>".to_owned()),
            Content::Json(r#"{"to":"[e-mail address]","n":1.50}"#.to_owned()),
            blob("Ada,[e-mail address]"),
            link("mailto:[e-mail address]"),
        ]));
        assert_eq!(found, expected);
    }

    #[test]
    fn replaces_addresses_in_failures() {
        let failure = |message: &str| Failure { kind: "tool_failed".to_owned(), message: message.to_owned() };
        let found = after(Err(failure("no mail for ada@example.com")));
        assert_eq!(found, AfterDecision::Replace(Err(failure("no mail for [e-mail address]"))));
    }

    #[test]
    fn keeps_what_has_no_address() {
        assert_eq!(after(Ok(vec![Content::Text("3 @ 4".to_owned())])), AfterDecision::Keep);
        let image = Content::Blob { mime_type: "image/png".to_owned(), data: vec![0xff, b'@', 0xfe] };
        assert_eq!(after(Ok(vec![image])), AfterDecision::Keep);
    }

    #[test]
    fn rejects_json_that_it_cannot_read() {
        assert!(matches!(after(Ok(vec![Content::Json("\"open".to_owned())])), AfterDecision::Reject(_)));
    }
}
