//! Expansion of a function to the function and its `Tool`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Result};

use crate::function::Function;
use crate::options::{Options, validate_name};
use crate::parameters::{Parameters, is_helper};
use crate::{documentation, signature};

/// Maximum size of a description in the contract, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Expands one `#[tool]`.
pub(crate) fn tool(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut function: Function = syn::parse2(item.clone()).map_err(|error| {
        Error::new(error.span(), format!("`#[tool]` belongs on a free function with a body: {error}"))
    })?;
    let options = Options::parse(attribute)?;
    signature::check(&function)?;
    let parameters = Parameters::parse(&function.parameters)?;
    let description = description(&function)?;
    let name = match &options.name {
        Some(name) => validate_name(name.value(), name.span())?,
        None => validate_name(function.name.unraw().to_string(), function.name.span())?,
    };
    strip_helpers(&mut function);
    let tool = expand_tool(&function, &parameters, &name, &description, &options);
    Ok(quote!(#function #tool))
}

/// Returns the item without the parameter attributes that only this macro understands. An item other than a function is
/// unchanged.
pub(crate) fn without_helpers(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    match syn::parse::<Function>(item.clone()) {
        Ok(mut function) => {
            strip_helpers(&mut function);
            quote!(#function).into()
        }
        Err(_) => item,
    }
}

fn strip_helpers(function: &mut Function) {
    for parameter in &mut function.parameters {
        parameter.attributes.retain(|attribute| !is_helper(attribute));
    }
}

fn description(function: &Function) -> Result<String> {
    let text = documentation::text(&function.attributes)?;
    if text.is_empty() {
        return Err(Error::new(
            function.name.span(),
            "a tool needs a doc comment: it is the description that a model chooses by. \
             Say what the tool does and when to use it",
        ));
    }
    if text.len() > MAX_DESCRIPTION_BYTES {
        return Err(Error::new(
            function.name.span(),
            format!("this description is {} bytes long; at most {MAX_DESCRIPTION_BYTES} are allowed", text.len()),
        ));
    }
    Ok(text)
}

/// Expands the `Tool` implementation, on a struct with the function's name. A braced struct is only in the type
/// namespace, so the names do not clash.
fn expand_tool(
    function: &Function,
    parameters: &Parameters,
    name: &str,
    description: &str,
    options: &Options,
) -> TokenStream {
    let vis = &function.visibility;
    let ident = &function.name;
    let (arguments, declared, values) = parameters.expand();
    let title = optional(options.title.as_ref().map(|title| quote!(::std::string::String::from(#title))));
    let [read_only, destructive, idempotent, open_world] =
        [options.read_only, options.destructive, options.idempotent, options.open_world]
            .map(|claim| optional(claim.map(|claim| quote!(#claim))));
    let returned = signature::return_type(function);
    // With the span of the type, so that the compiler marks a type that cannot be a result.
    let kind = quote_spanned! {returned.span()=>
        (&&&&&::fumehood_guest::__private::ReturnProbe::<#returned>::new()).kind()
    };
    let tool_trait = if function.asyncness.is_some() { quote!(AsyncTool) } else { quote!(Tool) };
    let call = expand_call(function, &arguments, &values, &returned, &kind);
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "it only carries the function's definition")]
        #vis struct #ident {}

        const _: () = {
            #declared

            impl ::fumehood_guest::#tool_trait for #ident {
                const NAME: &'static str = #name;

                fn definition() -> ::fumehood_guest::Definition {
                    #[allow(unused_imports, reason = "which one is used depends on the type")]
                    use ::fumehood_guest::__private::{ReturnKind as _, UnsupportedKind as _};
                    ::fumehood_guest::Definition {
                        name: ::std::string::String::from(#name),
                        title: #title,
                        description: ::std::string::String::from(#description),
                        input_schema: ::fumehood_guest::__private::input_schema::<#arguments>(),
                        output_schema: ::fumehood_guest::__private::Outcome::<#returned>::schema(&#kind),
                        annotations: ::fumehood_guest::Annotations {
                            read_only: #read_only,
                            destructive: #destructive,
                            idempotent: #idempotent,
                            open_world: #open_world,
                        },
                    }
                }

                #call
            }
        };
    }
}

/// Expands the function of the trait that calls the tool.
fn expand_call(
    function: &Function,
    arguments: &TokenStream,
    values: &TokenStream,
    returned: &TokenStream,
    kind: &TokenStream,
) -> TokenStream {
    let ident = &function.name;
    let imports = quote! {
        #[allow(unused_imports, reason = "which one is used depends on the type")]
        use ::fumehood_guest::__private::{ReturnKind as _, UnsupportedKind as _};
    };
    if function.asyncness.is_some() {
        return quote! {
            fn call(arguments: &str) -> ::fumehood_guest::ToolFuture {
                #imports
                let arguments = ::fumehood_guest::__private::parse_arguments(arguments);
                ::std::boxed::Box::pin(async move {
                    #[allow(unused_variables, reason = "a tool may take no arguments")]
                    let arguments: #arguments = arguments?;
                    #[allow(clippy::let_unit_value, reason = "a tool may return nothing")]
                    let returned: #returned = #ident(#values).await;
                    ::fumehood_guest::__private::Outcome::<#returned>::outcome(&#kind, returned)
                })
            }
        };
    }
    quote! {
        fn call(
            arguments: &str,
        ) -> ::core::result::Result<::std::vec::Vec<::fumehood_guest::Content>, ::fumehood_guest::ToolError> {
            #imports
            #[allow(unused_variables, reason = "a tool may take no arguments")]
            let arguments: #arguments = ::fumehood_guest::__private::parse_arguments(arguments)?;
            #[allow(clippy::let_unit_value, reason = "a tool may return nothing")]
            let returned: #returned = #ident(#values);
            ::fumehood_guest::__private::Outcome::<#returned>::outcome(&#kind, returned)
        }
    }
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

    use super::tool;

    fn refusal(item: TokenStream) -> String {
        tool(TokenStream::new(), item).expect_err("an error").to_string()
    }

    #[test]
    fn expands_to_the_function_and_a_type_of_its_name() {
        let expanded = tool(
            quote!(name = "add-up"),
            quote! {
                /// Adds.
                pub(crate) fn add(#[default(1)] a: u8) -> u8 { a }
            },
        )
        .unwrap()
        .to_string();
        for part in [
            quote!(
                pub(crate) fn add(a: u8) -> u8 {
                    a
                }
            ),
            quote!(
                pub(crate) struct add {}
            ),
            quote!("add-up"),
        ] {
            assert!(expanded.contains(&part.to_string()), "{expanded}\nlacks\n{part}");
        }
    }

    #[test]
    fn rejects_items_that_cannot_be_tools() {
        assert!(
            refusal(quote!(
                struct Add;
            ))
            .contains("free function")
        );
        assert!(
            refusal(quote!(
                fn add() {}
            ))
            .contains("doc comment")
        );
        assert!(
            refusal(quote!(
                #[doc = "x"]
                fn Add() {}
            ))
            .contains("`Add` cannot be a tool's name")
        );
        let long = "x".repeat(4097);
        assert!(refusal(quote!(#[doc = #long] fn add() {})).contains("4097 bytes"));
    }
}
