//! The attributes `#[tool]` and `#[resource]` of `fumehood-guest`, which documents and re-exports them.

mod documentation;
mod expand;
mod function;
mod options;
mod parameters;
mod resource;
mod signature;

use proc_macro::TokenStream;

/// Turns a function into a tool. See the documentation of `fumehood_guest::tool`.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match expand::tool(attribute.into(), item.clone().into()) {
        Ok(tokens) => tokens.into(),
        // The function is kept, so that a mistake in the attribute does not cause further errors about a missing
        // function.
        Err(error) => {
            let mut tokens = TokenStream::from(error.into_compile_error());
            tokens.extend(expand::without_helpers(item));
            tokens
        }
    }
}

/// Turns a function into a resource. See the documentation of `fumehood_guest::resource`.
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match resource::resource(attribute.into(), item.clone().into()) {
        Ok(tokens) => tokens.into(),
        Err(error) => {
            let mut tokens = TokenStream::from(error.into_compile_error());
            tokens.extend(item);
            tokens
        }
    }
}
