//! HTTP methods that a rule may name.

use fumehood_core::policy::permission::http::HttpRule;

/// Methods of the IANA registry that act on a resource, and those of HTTPU and of caches that are in use besides.
const METHODS: [&str; 42] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "QUERY",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "M-SEARCH",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "NOTIFY",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "REBIND",
    "REPORT",
    "SEARCH",
    "SUBSCRIBE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UNSUBSCRIBE",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// Checks that every method of a rule is in use: a misspelt one would silently allow nothing.
///
/// # Errors
/// If a method is unknown, with a similar one.
pub(crate) fn check(rule: &HttpRule) -> Result<(), String> {
    let methods = rule.methods();
    let Some(unknown) = methods.split(',').find(|method| !METHODS.contains(method)) else { return Ok(()) };
    let near = METHODS.iter().map(|method| (strsim::damerau_levenshtein(unknown, method), *method)).min();
    let hint = match near {
        Some((distance @ 1..=2, method)) if distance < unknown.len() => format!("did you mean `{method}`?"),
        _ => "expected methods such as GET, POST, PUT, PATCH and DELETE".to_owned(),
    };
    Err(format!("unknown HTTP method `{unknown}` in `{rule}`; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_misspelt_methods() {
        let check = |rule: &str| check(&rule.parse().unwrap());
        assert_eq!(check("GET,POST https://a.example/**"), Ok(()));
        assert_eq!(check("https://a.example/**"), Ok(()));
        let message = check("POST,GETT https://a.example/**").unwrap_err();
        assert!(
            message.starts_with("unknown HTTP method `GETT` in `POST,GETT ")
                && message.ends_with("did you mean `GET`?"),
            "{message}"
        );
        assert!(check("FROBNICATE https://a.example/**").unwrap_err().contains("expected methods such as GET"));
    }
}
