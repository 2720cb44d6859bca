//! Rules about the form of statements, checked on the syntax tree.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprCall, ExprClosure, ExprMethodCall, File, FnArg, ItemMod, Local, Pat, Signature, Stmt,
};

use super::{all_sources, fail_on, sources};

#[test]
fn statements_have_the_usual_form() {
    let mut broken = Vec::new();
    for (name, text) in all_sources().into_iter().chain(sources("fuzz")) {
        let findings = check(&text, is_product(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        broken.extend(findings.iter().map(|(line, rule)| format!("{name}:{line}: {rule}")));
    }
    fail_on("statements have the usual form", &broken);
}

/// Returns whether a file is part of a program or library that users run.
pub(super) fn is_product(name: &str) -> bool {
    let is_test = name.starts_with("tests/") || name.starts_with("fuzz/") || name.ends_with("/tests.rs");
    !is_test && !["/tests/", "/benches/"].iter().any(|folder| name.contains(folder))
}

const TUPLE_LET: &str = "a `let` binds several values; bind one at a time";
const TUPLE_PARAMETER: &str = "a parameter is a tuple; use separate parameters or a struct";
const BUILDER_FOLD: &str = "a builder is folded; use `if let` or a loop";
const CALLED_CLOSURE: &str = "a closure of several lines is called by its name; make it a function";

/// Checks the text of a file. Returns the lines of what breaks a rule.
fn check(text: &str, is_product: bool) -> syn::Result<Vec<(usize, &'static str)>> {
    let file: File = syn::parse_file(text)?;
    let mut idioms = Idioms { is_product, found: Vec::new() };
    idioms.visit_file(&file);
    Ok(idioms.found)
}

struct Idioms {
    /// Whether the code that is visited runs outside tests.
    is_product: bool,
    found: Vec<(usize, &'static str)>,
}

impl Idioms {
    fn report(&mut self, span: Span, rule: &'static str) {
        self.found.push((span.start().line, rule));
    }
}

impl<'ast> Visit<'ast> for Idioms {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let before = self.is_product;
        self.is_product &= !item.attrs.iter().any(is_for_tests);
        visit::visit_item_mod(self, item);
        self.is_product = before;
    }

    fn visit_local(&mut self, local: &'ast Local) {
        // With `else`, the pattern is a condition on several values at once.
        let value = local.init.as_ref().filter(|init| init.diverge.is_none()).map(|init| &*init.expr);
        if matches!(untyped(&local.pat), Pat::Tuple(_)) && matches!(value, Some(Expr::Tuple(_))) {
            self.report(local.span(), TUPLE_LET);
        }
        visit::visit_local(self, local);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        for input in &signature.inputs {
            if let FnArg::Typed(parameter) = input
                && matches!(*parameter.pat, Pat::Tuple(_))
            {
                self.report(parameter.span(), TUPLE_PARAMETER);
            }
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if self.is_product && call.method == "fold" && folds_a_builder(call) {
            self.report(call.method.span(), BUILDER_FOLD);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        if self.is_product {
            for (at, statement) in block.stmts.iter().enumerate() {
                let Some((name, span)) = bound_closure(statement) else { continue };
                let mut calls = Calls { name, found: false };
                block.stmts.iter().skip(at + 1).for_each(|later| calls.visit_stmt(later));
                if calls.found {
                    self.report(span, CALLED_CLOSURE);
                }
            }
        }
        visit::visit_block(self, block);
    }
}

/// Returns whether an attribute is `#[cfg(test)]`.
pub(super) fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
}

fn untyped(pattern: &Pat) -> &Pat {
    match pattern {
        Pat::Type(typed) => untyped(&typed.pat),
        other => other,
    }
}

/// Returns the name of a closure of several lines that a statement binds.
fn bound_closure(statement: &Stmt) -> Option<(String, Span)> {
    let Stmt::Local(local) = statement else { return None };
    let Pat::Ident(name) = untyped(&local.pat) else { return None };
    let Expr::Closure(closure) = &*local.init.as_ref()?.expr else { return None };
    let span = closure.span();
    (span.end().line > span.start().line).then(|| (name.ident.to_string(), local.span()))
}

/// Finds calls of a name. Arguments of macros are searched as far as they are expressions.
struct Calls {
    name: String,
    found: bool,
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.found |= matches!(&*call.func, Expr::Path(function) if function.path.is_ident(&self.name));
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let arguments = syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated;
        for argument in call.parse_body_with(arguments).into_iter().flatten() {
            self.visit_expr(&argument);
        }
    }
}

/// Returns whether a variable is folded by calls of its own methods, as builders are. Literals, new values and constants are not
/// variables.
fn folds_a_builder(call: &ExprMethodCall) -> bool {
    let mut arguments = call.args.iter();
    let (Some(Expr::Path(start)), Some(step)) = (arguments.next(), arguments.next()) else { return false };
    if start.path.get_ident().is_none_or(|start| start.to_string().starts_with(char::is_uppercase)) {
        return false;
    }
    match step {
        Expr::Path(_) => true,
        Expr::Closure(closure) => returns_method_of_first(closure),
        _ => false,
    }
}

fn returns_method_of_first(closure: &ExprClosure) -> bool {
    let Some(Pat::Ident(builder)) = closure.inputs.first() else { return false };
    let mut value = last_value(&closure.body);
    while let Expr::MethodCall(call) = value {
        if matches!(&*call.receiver, Expr::Path(receiver) if receiver.path.is_ident(&builder.ident)) {
            return true;
        }
        value = &call.receiver;
    }
    false
}

fn last_value(body: &Expr) -> &Expr {
    match body {
        Expr::Block(block) => match block.block.stmts.last() {
            Some(Stmt::Expr(value, None)) => value,
            _ => body,
        },
        _ => body,
    }
}

#[test]
fn broken_idioms_are_found() {
    assert_eq!(find_rules("let (a, b) = (1, 2);"), [TUPLE_LET]);
    assert_eq!(find_rules("let (a, b): (u8, u8) = (1, 2);"), [TUPLE_LET]);
    assert_eq!(find_rules("if x { loop { let (mut a, b) = (g(), 2); } }"), [TUPLE_LET]);
    assert!(find_rules("let (a, b) = pair(); let c = (1, 2); (a, b) = (b, a);").is_empty());
    assert!(find_rules("let (Some(a), Some(b)) = (g(), h()) else { return };").is_empty());

    assert_eq!(find_rules("fn g((a, b): (u8, u8), c: u8) {}"), [TUPLE_PARAMETER]);
    assert_eq!(find_rules("impl A { fn g(&self, (a, b): &(u8, u8)) {} }"), [TUPLE_PARAMETER]);
    assert_eq!(find_rules("trait A { fn g(&self, (a, b): (u8, u8)) {} }"), [TUPLE_PARAMETER]);
    assert!(find_rules("fn g(Point { x, y }: Point) {}\nlist.map(|(a, b)| a + b);").is_empty());

    assert_eq!(find_rules("let b = option.into_iter().fold(b, Builder::name);"), [BUILDER_FOLD]);
    assert_eq!(find_rules("list.iter().fold(b, |b, item| b.add(item).more());"), [BUILDER_FOLD]);
    assert_eq!(find_rules("list.iter().fold(b, |b, item| { let item = g(item); b.add(item) });"), [BUILDER_FOLD]);
    assert!(find_rules("list.iter().fold(0, |sum, item| sum + item);").is_empty());
    assert!(find_rules("bytes.fold(hash, |hash, byte| (hash ^ byte) * 3);").is_empty());
    assert!(find_rules("values.fold(MIN_RANGE, f64::max);").is_empty());

    let closure = "let g = |a: u8| {\nh(a);\nh(a)\n};";
    assert_eq!(find_rules(&format!("{closure} g(1);")), [CALLED_CLOSURE]);
    assert_eq!(find_rules(&format!("{closure} assert_eq!(g(1), 2);")), [CALLED_CLOSURE]);
    assert_eq!(find_rules(&format!("{closure} if x {{ list.map(|a| g(a)); }}")), [CALLED_CLOSURE]);
    assert_eq!(find_rules("let mut g = async move || {\nh()\n}; g();"), [CALLED_CLOSURE]);
    assert!(find_rules(&format!("{closure} list.map(g); a.g(1); a::g(1);")).is_empty());
    assert!(find_rules("let g = |a: u8| a + b; g(1);").is_empty());
}

fn find_rules(body: &str) -> Vec<&'static str> {
    let text = format!("fn f() {{\n{body}\n}}");
    check(&text, true).unwrap().into_iter().map(|(_, rule)| rule).collect()
}

#[test]
fn lines_are_told_and_tests_may_have_closures() {
    let closure = "let g = |a: u8| {\nh(a)\n};\ng(1);\nlet (a, b) = (1, 2);";
    let product = format!("//! A file.\n\nfn f() {{\n{closure}\n}}\n");
    assert_eq!(check(&product, true).unwrap(), [(4, CALLED_CLOSURE), (8, TUPLE_LET)]);
    assert_eq!(check(&product, false).unwrap(), [(8, TUPLE_LET)]);
    let tests = format!("#[cfg(test)]\nmod tests {{\nfn f() {{\n{closure}\n}}\n}}\n");
    assert_eq!(check(&tests, true).unwrap(), [(8, TUPLE_LET)]);
    let elsewhere = tests.replace("cfg(test)", "cfg(feature = \"test\")");
    assert_eq!(check(&elsewhere, true).unwrap(), [(4, CALLED_CLOSURE), (8, TUPLE_LET)]);
}
