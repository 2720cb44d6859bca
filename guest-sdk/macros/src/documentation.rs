//! Text of doc comments.

use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result};

/// Returns the text of the doc comments among `attributes`, without the space after `///`. Empty if there are none.
pub(crate) fn text(attributes: &[Attribute]) -> Result<String> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        // `#[doc(hidden)]` and similar attributes contain no text.
        let Meta::NameValue(pair) = &attribute.meta else {
            continue;
        };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &pair.value else {
            return Err(Error::new_spanned(
                &pair.value,
                "a tool's description must be a `///` comment or a string literal",
            ));
        };
        for line in line.value().split('\n') {
            lines.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
        }
    }
    Ok(lines.join("\n").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::text;

    #[test]
    fn lines_are_joined_and_trimmed() {
        let attributes = [
            parse_quote!(#[doc = " Adds two numbers."]),
            parse_quote!(#[doc = ""]),
            parse_quote!(#[must_use]),
            parse_quote!(#[doc = "   - indented"]),
            parse_quote!(#[doc(hidden)]),
        ];
        assert_eq!(text(&attributes).unwrap(), "Adds two numbers.\n\n  - indented");
    }

    #[test]
    fn rejects_a_description_from_another_file() {
        assert!(text(&[parse_quote!(#[doc = include_str!("x.md")])]).is_err());
    }
}
