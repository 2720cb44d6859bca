//! Expansion of a function to the function and its `Resource`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, LitBool, LitStr, Result, Token, parenthesized};

use crate::function::Function;
use crate::{documentation, signature};

/// The scheme of pages, with its colon.
const PAGE_SCHEME: &str = "ui:";

/// The options of one `#[resource]`. `None`, or empty, for those that are absent.
#[derive(Default)]
struct Options {
    uri: Option<LitStr>,
    name: Option<LitStr>,
    title: Option<LitStr>,
    mime_type: Option<LitStr>,
    page: PageOptions,
}

/// The options of pages.
#[derive(Default)]
struct PageOptions {
    tools: Vec<LitStr>,
    connect_domains: Vec<LitStr>,
    resource_domains: Vec<LitStr>,
    frame_domains: Vec<LitStr>,
    base_uri_domains: Vec<LitStr>,
    prefers_border: Option<bool>,
}

impl Options {
    fn parse(attribute: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.set(&meta)).parse2(attribute)?;
        Ok(options)
    }

    fn set(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let option = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let page = &mut self.page;
        match option.as_str() {
            "uri" => set_text(&mut self.uri, meta),
            "name" => set_text(&mut self.name, meta),
            "title" => set_text(&mut self.title, meta),
            "mime_type" => set_text(&mut self.mime_type, meta),
            "tools" => add_texts(&mut page.tools, meta),
            "connect_domains" => add_texts(&mut page.connect_domains, meta),
            "resource_domains" => add_texts(&mut page.resource_domains, meta),
            "frame_domains" => add_texts(&mut page.frame_domains, meta),
            "base_uri_domains" => add_texts(&mut page.base_uri_domains, meta),
            "prefers_border" => {
                let is_alone = !meta.input.peek(Token![=]);
                page.prefers_border = Some(is_alone || meta.value()?.parse::<LitBool>()?.value);
                Ok(())
            }
            _ => Err(Error::new_spanned(
                &meta.path,
                "`#[resource]` has no such option; it has uri = \"…\", name = \"…\", title = \"…\" and mime_type = \"…\", and for \
                 pages tools(\"…\"), connect_domains(\"…\"), resource_domains(\"…\"), frame_domains(\"…\"), \
                 base_uri_domains(\"…\") and prefers_border",
            )),
        }
    }
}

impl PageOptions {
    fn is_empty(&self) -> bool {
        let lists =
            [&self.tools, &self.connect_domains, &self.resource_domains, &self.frame_domains, &self.base_uri_domains];
        lists.into_iter().all(Vec::is_empty) && self.prefers_border.is_none()
    }

    fn expand(&self) -> TokenStream {
        let list = |texts: &[LitStr]| quote!(::std::vec![#(::std::string::String::from(#texts)),*]);
        let [tools, connect_domains, resource_domains, frame_domains, base_uri_domains] =
            [&self.tools, &self.connect_domains, &self.resource_domains, &self.frame_domains, &self.base_uri_domains]
                .map(|texts| list(texts));
        let prefers_border = optional(self.prefers_border.map(|prefers| quote!(#prefers)));
        quote! {
            ::fumehood_guest::Page {
                tools: #tools,
                connect_domains: #connect_domains,
                resource_domains: #resource_domains,
                frame_domains: #frame_domains,
                base_uri_domains: #base_uri_domains,
                prefers_border: #prefers_border,
            }
        }
    }
}

fn set_text(slot: &mut Option<LitStr>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.replace(meta.value()?.parse()?).is_some() {
        return Err(Error::new_spanned(&meta.path, "this option is given twice; keep one of them"));
    }
    Ok(())
}

fn add_texts(list: &mut Vec<LitStr>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    let content;
    parenthesized!(content in meta.input);
    list.extend(Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?);
    Ok(())
}

/// Expands one `#[resource]`.
pub(crate) fn resource(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let function: Function = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), format!("`#[resource]` belongs on a free function with a body: {error}"))
    })?;
    let options = Options::parse(attribute)?;
    signature::check(&function)?;
    if let Some(token) = &function.asyncness {
        return Err(Error::new_spanned(token, "a resource cannot be async: it is read as a whole"));
    }
    if let Some(parameter) = function.parameters.first() {
        let why = "a resource has no parameters: its URI is all that a client names";
        return Err(Error::new_spanned(parameter, why));
    }
    let Some(uri) = &options.uri else {
        let why =
            "a resource needs a URI: `#[resource(uri = \"notes://help\")]`, or one with the scheme `ui` for a page";
        return Err(Error::new(function.name.span(), why));
    };
    let is_page = uri.value().get(..PAGE_SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(PAGE_SCHEME));
    if !is_page && !options.page.is_empty() {
        return Err(Error::new(
            uri.span(),
            "this is not a page: the URI of a page has the scheme `ui`; remove the options of pages",
        ));
    }
    if let (true, Some(mime_type)) = (is_page, &options.mime_type) {
        return Err(Error::new(mime_type.span(), "a page has the MIME type of pages; leave this out"));
    }
    let implementation = expand_resource(&function, &options, uri, is_page)?;
    Ok(quote!(#function #implementation))
}

/// Expands the `Resource` implementation, on a struct with the function's name.
fn expand_resource(function: &Function, options: &Options, uri: &LitStr, is_page: bool) -> Result<TokenStream> {
    let ident = &function.name;
    let vis = &function.visibility;
    let text = |text: String| quote!(::std::string::String::from(#text));
    let description = documentation::text(&function.attributes)?;
    let description = optional((!description.is_empty()).then(|| text(description)));
    let name = text(options.name.as_ref().map_or_else(|| ident.unraw().to_string(), LitStr::value));
    let title = optional(options.title.as_ref().map(|title| text(title.value())));
    let mime_type = match &options.mime_type {
        _ if is_page => Some(quote!(::fumehood_guest::Page::mime_type())),
        mime_type => mime_type.as_ref().map(|mime_type| text(mime_type.value())),
    };
    let mime_type = optional(mime_type);
    let page = optional(is_page.then(|| options.page.expand()));
    Ok(quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "it only carries the function's definition")]
        #vis struct #ident {}

        impl ::fumehood_guest::Resource for #ident {
            const URI: &'static str = #uri;

            fn definition() -> ::fumehood_guest::ResourceDefinition {
                ::fumehood_guest::ResourceDefinition {
                    uri: ::std::string::String::from(#uri),
                    name: #name,
                    title: #title,
                    description: #description,
                    mime_type: #mime_type,
                    page: #page,
                }
            }

            fn read() -> ::core::result::Result<::fumehood_guest::Contents, ::fumehood_guest::ToolError> {
                ::fumehood_guest::IntoContents::into_contents(#ident())
            }
        }
    })
}

fn optional(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::resource;

    fn refusal(attribute: TokenStream, item: TokenStream) -> String {
        resource(attribute, item).expect_err("an error").to_string()
    }

    #[test]
    fn expands_to_the_function_and_a_type_of_its_name() {
        let attribute = quote!(uri = "ui://a/b", tools("draw"), prefers_border);
        let expanded = resource(
            attribute,
            quote!(
                pub fn view() -> &'static str {
                    ""
                }
            ),
        )
        .unwrap()
        .to_string();
        for part in ["pub struct view", "\"ui://a/b\"", "\"draw\"", "Page :: mime_type"] {
            assert!(expanded.contains(part), "{expanded}\nlacks\n{part}");
        }
    }

    #[test]
    fn rejects_what_is_no_resource() {
        let function = || {
            quote!(
                fn view() -> &'static str {
                    ""
                }
            )
        };
        assert!(refusal(quote!(), function()).contains("needs a URI"));
        assert!(refusal(quote!(url = "a:b"), function()).contains("no such option"));
        assert!(refusal(quote!(uri = "a:b", uri = "a:c"), function()).contains("twice"));
        assert!(refusal(quote!(uri = "a:b", tools("draw")), function()).contains("not a page"));
        assert!(refusal(quote!(uri = "ui://a", mime_type = "text/html"), function()).contains("leave this out"));
        assert!(
            refusal(
                quote!(uri = "a:b"),
                quote!(
                    fn view(id: u8) -> String {
                        String::new()
                    }
                )
            )
            .contains("parameters")
        );
        assert!(
            refusal(
                quote!(uri = "a:b"),
                quote!(
                    struct View;
                )
            )
            .contains("free function")
        );
    }
}
