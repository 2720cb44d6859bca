//! A function's parameters as the properties of one JSON object.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, Ident, Lit, Meta, Pat, PatType, Result, Token, Type};

use crate::signature::joined;

/// How a tool takes its arguments.
pub(crate) enum Parameters {
    /// One parameter called `args` takes the whole object.
    Whole(Box<Type>),
    /// Each parameter is one property.
    Properties(Vec<Property>),
}

/// One parameter that is one property.
pub(crate) struct Property {
    name: Ident,
    of: Type,
    /// What the property says to serde and schemars, doc comments included.
    attributes: Vec<Attribute>,
    default: Option<Absent>,
}

/// What an absent property means.
enum Absent {
    /// The type's own default.
    TypeDefault,
    Value(Box<Expr>),
}

impl Parameters {
    pub(crate) fn parse(inputs: &Punctuated<FnArg, Token![,]>) -> Result<Self> {
        let typed: Vec<&PatType> = inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(typed),
                FnArg::Receiver(_) => None,
            })
            .collect();
        if let [only] = typed.as_slice()
            && is_whole(only)
        {
            return whole(only);
        }
        let mut properties = Vec::new();
        let mut problem: Option<Error> = None;
        for parameter in typed {
            match Property::parse(parameter) {
                Ok(property) => properties.push(property),
                Err(error) => {
                    problem = Some(match problem {
                        Some(first) => joined(first, error),
                        None => error,
                    });
                }
            }
        }
        problem.map_or(Ok(Self::Properties(properties)), Err)
    }

    /// The type that the arguments are read into; what has to be declared for it; and the values to call with, taken
    /// from a variable `arguments` of that type.
    pub(crate) fn expand(&self) -> (TokenStream, TokenStream, TokenStream) {
        match self {
            Self::Whole(of) => (quote!(#of), TokenStream::new(), quote!(arguments)),
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

fn is_whole(parameter: &PatType) -> bool {
    matches!(&*parameter.pat, Pat::Ident(pattern) if pattern.ident == "args" || pattern.ident == "_args")
}

fn whole(parameter: &PatType) -> Result<Parameters> {
    match parameter.attrs.iter().find(|attribute| is_helper(attribute)) {
        Some(attribute) => Err(Error::new_spanned(
            attribute,
            "`args` takes the whole object, so this belongs on the fields of its type",
        )),
        None => Ok(Parameters::Whole(parameter.ty.clone())),
    }
}

impl Property {
    fn parse(parameter: &PatType) -> Result<Self> {
        let name = match &*parameter.pat {
            Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => pattern.ident.clone(),
            other => {
                return Err(Error::new_spanned(
                    other,
                    "a tool's parameter needs a plain name, which becomes the property's name",
                ));
            }
        };
        if let Type::Reference(reference) = &*parameter.ty {
            return Err(Error::new_spanned(
                reference,
                "a tool owns its arguments: take `String` rather than `&str`, `Vec<T>` rather than `&[T]`",
            ));
        }
        if let Type::ImplTrait(_) = &*parameter.ty {
            return Err(Error::new_spanned(&parameter.ty, "a tool's parameter needs a schema; name its type"));
        }
        let mut default = None;
        let mut attributes = Vec::new();
        for attribute in &parameter.attrs {
            if attribute.path().is_ident("default") {
                if default.replace(Absent::parse(attribute)?).is_some() {
                    return Err(Error::new_spanned(attribute, "a parameter has one default; keep one of them"));
                }
            } else if is_helper(attribute) {
                attributes.push(attribute.clone());
            }
        }
        Ok(Self { name, of: (*parameter.ty).clone(), attributes, default })
    }

    fn field(&self) -> TokenStream {
        let Self { name, of, attributes, default } = self;
        let default = default.as_ref().map(|absent| match absent {
            Absent::TypeDefault => quote!(#[serde(default)]),
            Absent::Value(_) => {
                let function = self.default_name().to_string();
                quote!(#[serde(default = #function)])
            }
        });
        quote!(#(#attributes)* #default #name: #of)
    }

    fn default_name(&self) -> Ident {
        format_ident!("__default_{}", self.name)
    }

    fn default_function(&self) -> Option<TokenStream> {
        let Some(Absent::Value(value)) = &self.default else {
            return None;
        };
        let (function, of) = (self.default_name(), &self.of);
        // So that a `String` can have a literal as its default.
        let value = match &**value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => quote!(::core::convert::From::from(#text)),
            other => quote!(#other),
        };
        Some(quote!(fn #function() -> #of { #value }))
    }
}

impl Absent {
    fn parse(attribute: &Attribute) -> Result<Self> {
        match &attribute.meta {
            Meta::Path(_) => Ok(Self::TypeDefault),
            Meta::List(list) => Ok(Self::Value(list.parse_args()?)),
            Meta::NameValue(_) => Err(Error::new_spanned(attribute, "write `#[default(…)]` or `#[default]`")),
        }
    }
}

/// Whether an attribute of a parameter is for this macro, not for the compiler.
pub(crate) fn is_helper(attribute: &Attribute) -> bool {
    ["doc", "default", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{ItemFn, parse_quote};

    use super::Parameters;

    fn parse(function: &ItemFn) -> syn::Result<Parameters> {
        Parameters::parse(&function.sig.inputs)
    }

    fn refusal(function: &ItemFn) -> String {
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
    fn a_parameter_becomes_a_field() {
        let function: ItemFn = parse_quote!(
            fn f(
                #[doc = " How often"]
                #[default(1)]
                #[allow(unused)]
                times: u32,
                #[default("x")] with: String,
            ) {
            }
        );
        let (of, declared, values) = parse(&function).unwrap().expand();
        assert_eq!(of.to_string(), "__Arguments");
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
    fn what_cannot_be_a_property_is_refused() {
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
