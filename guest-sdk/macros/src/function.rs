//! Functions as far as the macros read them. Patterns and bodies stay tokens, so that tools compile `syn` without its
//! parser of these.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Generics, Ident, LitStr, Result, ReturnType, Token, Type, Visibility, parenthesized};

/// A free function with a body.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) constness: Option<Token![const]>,
    pub(crate) asyncness: Option<Token![async]>,
    pub(crate) unsafety: Option<Token![unsafe]>,
    pub(crate) abi: Option<Abi>,
    pub(crate) name: Ident,
    pub(crate) generics: Generics,
    pub(crate) parameters: Punctuated<Parameter, Token![,]>,
    pub(crate) output: ReturnType,
    body: Group,
}

/// `extern`, with the name of the ABI or without.
pub(crate) struct Abi {
    token: Token![extern],
    name: Option<LitStr>,
}

/// One parameter.
pub(crate) struct Parameter {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) pattern: TokenStream,
    /// The type; `None` for `self` without one, and for `...`.
    pub(crate) ty: Option<Type>,
}

impl Parameter {
    /// Returns the name, if the pattern is one.
    pub(crate) fn name(&self) -> Option<Ident> {
        let plain = |input: ParseStream<'_>| {
            input.parse::<Option<Token![mut]>>()?;
            input.parse::<Ident>()
        };
        syn::parse::Parser::parse2(plain, self.pattern.clone()).ok()
    }

    /// Returns whether this is `self` in one of its forms.
    pub(crate) fn is_receiver(&self) -> bool {
        self.pattern.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(name) if name == "self"))
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let constness = input.parse()?;
        let asyncness = input.parse()?;
        let unsafety = input.parse()?;
        let abi = if input.peek(Token![extern]) { Some(input.parse()?) } else { None };
        input.parse::<Token![fn]>()?;
        let name = input.parse()?;
        let mut generics: Generics = input.parse()?;
        let parameters;
        parenthesized!(parameters in input);
        let parameters = parameters.parse_terminated(Parameter::parse, Token![,])?;
        let output = input.parse()?;
        generics.where_clause = input.parse()?;
        let expected = input.error("expected a body in curly braces");
        match input.parse() {
            Ok(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => Ok(Self {
                attributes,
                visibility,
                constness,
                asyncness,
                unsafety,
                abi,
                name,
                generics,
                parameters,
                output,
                body,
            }),
            _ => Err(expected),
        }
    }
}

impl Parse for Abi {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        Ok(Self { token: input.parse()?, name: input.parse()? })
    }
}

impl Parse for Parameter {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let mut pattern = TokenStream::new();
        // A path in a pattern has double colons.
        while !input.is_empty() && !input.peek(Token![,]) && (!input.peek(Token![:]) || input.peek(Token![::])) {
            if let Some(colons) = input.parse::<Option<Token![::]>>()? {
                colons.to_tokens(&mut pattern);
            } else {
                input.parse::<TokenTree>()?.to_tokens(&mut pattern);
            }
        }
        let ty = if input.parse::<Option<Token![:]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Self { attributes, pattern, ty })
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attributes, visibility, constness, asyncness, unsafety, abi, .. } = self;
        let Self { name, generics, parameters, output, body, .. } = self;
        let where_clause = &generics.where_clause;
        tokens.extend(quote! {
            #(#attributes)* #visibility #constness #asyncness #unsafety #abi
            fn #name #generics (#parameters) #output #where_clause #body
        });
    }
}

impl ToTokens for Abi {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.token.to_tokens(tokens);
        self.name.to_tokens(tokens);
    }
}

impl ToTokens for Parameter {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attributes, pattern, ty } = self;
        let ty = ty.iter();
        tokens.extend(quote!(#(#attributes)* #pattern #(: #ty)*));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(tokens: TokenStream) -> Result<Function> {
        syn::parse2(tokens)
    }

    #[test]
    fn functions_are_written_as_they_were() {
        let functions = [
            quote!(
                fn f() {}
            ),
            quote!(
                #[must_use]
                #[doc = " Adds."]
                pub(crate) const fn add(#[default(1)] a: u8, mut b: [u8; 2]) -> Result<Vec<u8>, Error> {
                    #![allow(unused)]
                    let c = |d| async { d };
                }
            ),
            quote!(
                async unsafe extern "C" fn f<'a, T: Clone>(a: &'a T, (b, c): (u8, u8), Some(a::B { d }): Option<B>, ...)
                where
                    T: Send,
                {
                }
            ),
            quote!(
                fn f(&self, self: Box<Self>, &'a mut self) -> impl Fn(u8) -> u8 {}
            ),
        ];
        for function in functions {
            assert_eq!(parse(function.clone()).unwrap().to_token_stream().to_string(), function.to_string());
        }
    }

    #[test]
    fn names_are_found_in_patterns() {
        let function = parse(quote!(
            fn f(a: u8, mut b: u8, ref c: u8, _: u8, (d, e): (u8, u8), f @ 1..=3: u8, &mut self) {}
        ));
        let function = function.unwrap();
        let names: Vec<_> = function.parameters.iter().map(|it| it.name().map(|name| name.to_string())).collect();
        assert_eq!(names, [Some("a".to_owned()), Some("b".to_owned()), None, None, None, None, None]);
        let receivers: Vec<_> = function.parameters.iter().map(Parameter::is_receiver).collect();
        assert_eq!(receivers, [false, false, false, false, false, false, true]);
    }

    #[test]
    fn rejects_other_items() {
        for item in [
            quote!(
                struct A {}
            ),
            quote!(
                fn f();
            ),
            quote!(fn f() (1)),
            quote!(
                fn f() {}
                fn g() {}
            ),
        ] {
            assert!(parse(item.clone()).is_err(), "{item}");
        }
    }
}
