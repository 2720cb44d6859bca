//! Conversion of a function's parameters to the properties of one JSON object.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, LitStr, Meta, Result, Token, Type};

use crate::function::Parameter;
use crate::signature::combine;

/// The parameters of a tool's function.
pub(crate) enum Parameters {
    /// One parameter called `args`, for the whole object.
    Whole(Box<Type>),
    /// One parameter for each property.
    Properties(Vec<Property>),
}

/// A parameter for one property.
pub(crate) struct Property {
    name: Ident,
    ty: Type,
    /// The attributes for serde and schemars, doc comments included.
    attributes: Vec<Attribute>,
    default: Option<DefaultValue>,
}

/// The value of an absent property.
enum DefaultValue {
    /// The type's own default.
    TypeDefault,
    /// This expression.
    Value(TokenStream),
}

impl Parameters {
    pub(crate) fn parse(parameters: &Punctuated<Parameter, Token![,]>) -> Result<Self> {
        if let (1, Some(only)) = (parameters.len(), parameters.first())
            && only.name().is_some_and(|name| name == "args" || name == "_args")
        {
            return parse_whole(only);
        }
        let mut properties = Vec::new();
        let mut problem: Option<Error> = None;
        for parameter in parameters {
            match Property::parse(parameter) {
                Ok(property) => properties.push(property),
                Err(error) => {
                    problem = Some(match problem {
                        Some(first) => combine(first, error),
                        None => error,
                    });
                }
            }
        }
        problem.map_or(Ok(Self::Properties(properties)), Err)
    }

    /// Returns the type that the arguments are parsed into, the declarations of that type, and the values to call the
    /// function with, taken from a variable `arguments` of that type.
    pub(crate) fn expand(&self) -> (TokenStream, TokenStream, TokenStream) {
        match self {
            Self::Whole(ty) => (quote!(#ty), TokenStream::new(), quote!(arguments)),
            Self::Properties(properties) => {
                let fields = properties.iter().map(Property::field);
                let defaults = properties.iter().filter_map(Property::default_function);
                let values = properties.iter().map(|property| {
                    let name = &property.name;
                    quote!(arguments.#name)
                });
                let declared = quote! {
                    #[derive(
                        ::fumehood_guest::__private::serde::Deserialize,
                        ::fumehood_guest::__private::schemars::JsonSchema,
                    )]
                    #[serde(crate = "::fumehood_guest::__private::serde", deny_unknown_fields)]
                    #[schemars(crate = "::fumehood_guest::__private::schemars")]
                    struct __Arguments { #(#fields),* }
                    #(#defaults)*
                };
                (quote!(__Arguments), declared, quote!(#(#values),*))
            }
        }
    }
}

fn parse_whole(parameter: &Parameter) -> Result<Parameters> {
    if let Some(attribute) = parameter.attributes.iter().find(|attribute| is_helper(attribute)) {
        let why = "`args` takes the whole object, so this belongs on the fields of its type";
        return Err(Error::new_spanned(attribute, why));
    }
    Ok(Parameters::Whole(Box::new(parameter_type(parameter)?.clone())))
}

fn parameter_type(parameter: &Parameter) -> Result<&Type> {
    parameter.ty.as_ref().ok_or_else(|| Error::new_spanned(parameter, "a tool's parameter needs a type"))
}

impl Property {
    fn parse(parameter: &Parameter) -> Result<Self> {
        let name = parameter.name().ok_or_else(|| {
            let why = "a tool's parameter needs a plain name, which becomes the property's name";
            Error::new_spanned(&parameter.pattern, why)
        })?;
        let ty = parameter_type(parameter)?;
        if let Type::Reference(reference) = ty {
            return Err(Error::new_spanned(
                reference,
                "a tool owns its arguments: take `String` rather than `&str`, `Vec<T>` rather than `&[T]`",
            ));
        }
        if let Type::ImplTrait(_) = ty {
            return Err(Error::new_spanned(ty, "a tool's parameter needs a schema; name its type"));
        }
        let mut default = None;
        let mut attributes = Vec::new();
        for attribute in &parameter.attributes {
            if attribute.path().is_ident("default") {
                if default.replace(DefaultValue::parse(attribute)?).is_some() {
                    return Err(Error::new_spanned(attribute, "a parameter has one default; keep one of them"));
                }
            } else if is_helper(attribute) {
                attributes.push(attribute.clone());
            }
        }
        Ok(Self { name, ty: ty.clone(), attributes, default })
    }

    fn field(&self) -> TokenStream {
        let Self { name, ty, attributes, default } = self;
        let default = default.as_ref().map(|default| match default {
            DefaultValue::TypeDefault => quote!(#[serde(default)]),
            DefaultValue::Value(_) => {
                let function = self.default_name().to_string();
                quote!(#[serde(default = #function)])
            }
        });
        quote!(#(#attributes)* #default #name: #ty)
    }

    fn default_name(&self) -> Ident {
        format_ident!("__default_{}", self.name)
    }

    fn default_function(&self) -> Option<TokenStream> {
        let Some(DefaultValue::Value(value)) = &self.default else {
            return None;
        };
        let function = self.default_name();
        let ty = &self.ty;
        // Converted, so that a `String` can have a literal as its default.
        let value = match syn::parse2::<LitStr>(value.clone()) {
            Ok(text) => quote!(::core::convert::From::from(#text)),
            Err(_) => value.clone(),
        };
        Some(quote!(fn #function() -> #ty { #value }))
    }
}

impl DefaultValue {
    fn parse(attribute: &Attribute) -> Result<Self> {
        match &attribute.meta {
            Meta::Path(_) => Ok(Self::TypeDefault),
            Meta::List(list) if !list.tokens.is_empty() => Ok(Self::Value(list.tokens.clone())),
            _ => Err(Error::new_spanned(attribute, "write `#[default(…)]` or `#[default]`")),
        }
    }
}

/// Returns whether an attribute of a parameter is for this macro, not for the compiler.
pub(crate) fn is_helper(attribute: &Attribute) -> bool {
    ["doc", "default", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse_quote;

    use super::Parameters;
    use crate::function::Function;

    fn parse(function: &Function) -> syn::Result<Parameters> {
        Parameters::parse(&function.parameters)
    }

    fn refusal(function: &Function) -> String {
        parse(function).err().expect("an error").to_string()
    }

    #[test]
    fn args_takes_the_whole_object() {
        assert!(matches!(
            parse(&parse_quote!(
                fn f(args: Add) {}
            )),
            Ok(Parameters::Whole(_))
        ));
        assert!(matches!(
            parse(&parse_quote!(
                fn f(_args: Add) {}
            )),
            Ok(Parameters::Whole(_))
        ));
        assert!(matches!(
            parse(&parse_quote!(
                fn f(args: Add, b: u8) {}
            )),
            Ok(Parameters::Properties(_))
        ));
        assert!(matches!(
            parse(&parse_quote!(
                fn f() {}
            )),
            Ok(Parameters::Properties(_))
        ));
    }

    #[test]
    fn parameters_become_fields() {
        let function: Function = parse_quote!(
            fn f(
                #[doc = " How often"]
                #[default(1)]
                #[allow(unused)]
                times: u32,
                #[default("x")] with: String,
            ) {
            }
        );
        let (ty, declared, values) = parse(&function).unwrap().expand();
        assert_eq!(ty.to_string(), "__Arguments");
        assert_eq!(values.to_string(), quote!(arguments.times, arguments.with).to_string());
        let declared = declared.to_string();
        for part in [
            quote!(#[doc = " How often"] #[serde(default = "__default_times")] times: u32),
            quote!(
                fn __default_times() -> u32 {
                    1
                }
            ),
            quote!(
                fn __default_with() -> String {
                    ::core::convert::From::from("x")
                }
            ),
        ] {
            assert!(declared.contains(&part.to_string()), "{declared}\nlacks\n{part}");
        }
    }

    #[test]
    fn rejects_parameters_that_cannot_be_properties() {
        assert!(
            refusal(&parse_quote!(
                fn f((a, b): (u8, u8)) {}
            ))
            .contains("plain name")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(_: u8) {}
            ))
            .contains("plain name")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(text: &str) {}
            ))
            .contains("String")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(text: impl Into<String>) {}
            ))
            .contains("name its type")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(#[default = 1] a: u8) {}
            ))
            .contains("#[default(…)]")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(
                    #[default]
                    #[default]
                    a: u8,
                ) {
                }
            ))
            .contains("one default")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(#[default] args: Add) {}
            ))
            .contains("fields of its type")
        );
        let both = parse(&parse_quote!(
            fn f((a, b): (u8, u8), text: &str) {}
        ))
        .err()
        .unwrap();
        assert_eq!(both.into_iter().count(), 2);
    }
}
