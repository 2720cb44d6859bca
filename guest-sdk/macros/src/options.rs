//! The options in `#[tool(…)]`.

use proc_macro2::TokenStream;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Error, LitBool, LitStr, Result, Token};

/// The options of one `#[tool]`. `None` for those that are absent.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

impl Options {
    pub(crate) fn parse(attribute: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.set(&meta)).parse2(attribute)?;
        Ok(options)
    }

    fn set(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(option) = meta.path.get_ident().map(ToString::to_string) else {
            return Err(unknown_option(meta));
        };
        match option.as_str() {
            "name" => set_text(&mut self.name, meta),
            "title" => set_text(&mut self.title, meta),
            "read_only" => set_flag(&mut self.read_only, meta),
            "destructive" => set_flag(&mut self.destructive, meta),
            "idempotent" => set_flag(&mut self.idempotent, meta),
            "open_world" => set_flag(&mut self.open_world, meta),
            _ => Err(unknown_option(meta)),
        }
    }
}

fn unknown_option(meta: &ParseNestedMeta<'_>) -> Error {
    Error::new_spanned(
        &meta.path,
        "`#[tool]` has no such option; it has name = \"…\", title = \"…\", read_only, destructive, idempotent and \
         open_world",
    )
}

fn set_text(slot: &mut Option<LitStr>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    set_once(slot, meta.value()?.parse()?, meta)
}

/// Sets a flag. `read_only` alone means `read_only = true`.
fn set_flag(slot: &mut Option<bool>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    let value = if meta.input.peek(Token![=]) { meta.value()?.parse::<LitBool>()?.value } else { true };
    set_once(slot, value, meta)
}

fn set_once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(Error::new_spanned(&meta.path, "this option is given twice; keep one of them"));
    }
    Ok(())
}

/// Returns `name` if it is a valid tool name in the contract.
pub(crate) fn validate_name(name: String, at: proc_macro2::Span) -> Result<String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(name);
    }
    Err(Error::new(
        at,
        format!(
            "`{name}` cannot be a tool's name: that takes 1 to 64 of a-z, 0-9, `_` and `-`. \
             Set one with `#[tool(name = \"…\")]`"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Span, TokenStream};
    use quote::quote;

    use super::{Options, validate_name};

    fn refusal(attribute: TokenStream) -> String {
        Options::parse(attribute).err().expect("an error").to_string()
    }

    #[test]
    fn parses_every_option() {
        let options =
            Options::parse(quote!(name = "add-up", title = "Add", read_only, destructive = false, idempotent = true))
                .unwrap();
        assert_eq!(options.name.unwrap().value(), "add-up");
        assert_eq!(options.title.unwrap().value(), "Add");
        assert_eq!(
            (options.read_only, options.destructive, options.idempotent, options.open_world),
            (Some(true), Some(false), Some(true), None)
        );
    }

    #[test]
    fn rejects_unknown_and_repeated_options() {
        assert!(refusal(quote!(readonly)).contains("no such option"));
        assert!(refusal(quote!(a::b)).contains("no such option"));
        assert!(refusal(quote!(read_only, read_only)).contains("given twice"));
        assert!(refusal(quote!(name = 3)).contains("string literal"));
        assert!(refusal(quote!(read_only = "yes")).contains("boolean"));
    }

    #[test]
    fn names_follow_the_contract() {
        let accepted = |name: &str| validate_name(name.to_owned(), Span::call_site()).is_ok();
        assert!(accepted("a") && accepted("add_2-up") && accepted(&"x".repeat(64)));
        assert!(
            !accepted("") && !accepted("Add") && !accepted("ädd") && !accepted("a.b") && !accepted(&"x".repeat(65))
        );
    }
}
