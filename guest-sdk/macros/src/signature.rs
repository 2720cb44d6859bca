//! Validation of a function's signature.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result, ReturnType, Type};

use crate::function::Function;

/// Rejects a function that cannot be called with JSON arguments. All problems are reported at once.
pub(crate) fn check(function: &Function) -> Result<()> {
    let mut problems = Vec::new();
    if let Some(token) = &function.unsafety {
        problems.push(Error::new_spanned(token, "a tool cannot be unsafe: its arguments come from a model"));
    }
    if let Some(token) = &function.abi {
        problems.push(Error::new_spanned(token, "a tool is an ordinary Rust function; remove the ABI"));
    }
    if !function.generics.params.is_empty() {
        problems.push(Error::new_spanned(
            &function.generics,
            "a tool cannot be generic, because its schema must be known; name the types",
        ));
    }
    for parameter in &function.parameters {
        if parameter.is_receiver() {
            problems.push(Error::new_spanned(
                parameter,
                "a tool cannot take `self`: every call starts from nothing; make it a free function",
            ));
        } else if parameter.ty.is_none() {
            problems.push(Error::new_spanned(parameter, "a tool's parameters have to be named one by one"));
        }
    }
    if let ReturnType::Type(_, returned) = &function.output
        && let Type::ImplTrait(_) = &**returned
    {
        problems.push(Error::new_spanned(returned, "a tool's result needs a schema; name its type instead of `impl`"));
    }
    match problems.into_iter().reduce(combine) {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

/// Combines two errors into one.
pub(crate) fn combine(mut first: Error, second: Error) -> Error {
    first.combine(second);
    first
}

/// Returns the return type of the function, `()` included.
pub(crate) fn return_type(function: &Function) -> TokenStream {
    match &function.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, returned) => quote!(#returned),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::check;
    use crate::function::Function;

    fn refusal(function: &Function) -> String {
        let error = check(function).expect_err("an error");
        error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn accepts_ordinary_and_asynchronous_functions() {
        let function: Function = parse_quote!(
            fn add(args: Add) -> Result<Sum, ToolError> {}
        );
        assert!(check(&function).is_ok());
        let function: Function = parse_quote!(
            async fn add(args: Add) -> Result<Sum, ToolError> {}
        );
        assert!(check(&function).is_ok());
    }

    #[test]
    fn reports_every_problem() {
        assert!(
            refusal(&parse_quote!(
                unsafe fn f() {}
            ))
            .contains("unsafe")
        );
        assert!(
            refusal(&parse_quote!(
                extern "C" fn f() {}
            ))
            .contains("ABI")
        );
        assert!(
            refusal(&parse_quote!(
                fn f<T>(value: T) {}
            ))
            .contains("generic")
        );
        assert!(
            refusal(&parse_quote!(
                fn f(&self) {}
            ))
            .contains("`self`")
        );
        assert!(
            refusal(&parse_quote!(
                fn f() -> impl Display {}
            ))
            .contains("impl")
        );
        let both = refusal(&parse_quote!(
            unsafe fn f(self) {}
        ));
        assert!(both.contains("unsafe") && both.contains("`self`"), "{both}");
    }
}
