//! A rule about tasks: one that runs a part of a call keeps the span of the call.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ItemMod};

use super::idioms::{is_for_tests, is_product};
use super::{fail_on, sources};

/// Folders of the code that a call goes through.
const FOLDERS: &[&str] = &[
    "host/agent",
    "host/cell",
    "host/core",
    "host/fumehood",
    "host/layers",
    "host/mcp",
    "host/model",
    "host/runtime",
    "host/server",
    "host/transport",
];

/// Reasons for tasks without a span, with the files and the number of such tasks.
const UNTRACED: &[(&str, &[(&str, usize)])] = &[
    (
        "the future has the span of its call already",
        &[
            ("host/cell/src/jobs/job_runner.rs", 1),
            ("host/cell/src/worker.rs", 1),
            ("host/mcp/src/server/held_calls.rs", 1),
            ("host/runtime/src/engine/guest_runtime.rs", 3),
            ("host/server/src/jobs/job_call.rs", 6),
            ("host/transport/src/task.rs", 1),
        ],
    ),
    (
        "it serves many calls",
        &[
            ("host/cell/src/gateway/cell_tools.rs", 1),
            ("host/cell/src/jobs/job_runner.rs", 1),
            ("host/fumehood/src/agents/mcp_tools.rs", 1),
            ("host/mcp/src/client/handshake.rs", 1),
            ("host/mcp/src/client/library/remote_library.rs", 1),
            ("host/mcp/src/client/library/subscriptions.rs", 3),
            ("host/mcp/src/client/oauth/login.rs", 1),
            ("host/mcp/src/client/remote.rs", 1),
            ("host/mcp/src/server/resource_subscriptions.rs", 1),
            ("host/runtime/src/isolation/link/mod.rs", 2),
            ("host/server/src/http_api/dashboard/containment.rs", 1),
            ("host/server/src/listener.rs", 1),
            ("host/server/src/oauth/key_source.rs", 1),
        ],
    ),
    (
        "it moves bytes, messages or time, and has no spans",
        &[
            ("host/cell/src/jetstream/key_value_store.rs", 1),
            ("host/cell/src/jobs/cell_jobs.rs", 1),
            ("host/mcp/src/client/connection.rs", 1),
            ("host/mcp/src/client/process.rs", 1),
            ("host/mcp/src/server/client_requests.rs", 1),
            ("host/mcp/src/transport/in_flight.rs", 1),
            ("host/runtime/src/engine/guest_runtime.rs", 1),
            ("host/runtime/src/isolation/body_stream.rs", 3),
            ("host/runtime/src/isolation/capability_calls.rs", 1),
            ("host/runtime/src/isolation/supervisor.rs", 1),
            ("host/runtime/src/network/proxy.rs", 3),
            ("host/runtime/src/wasi/http/exchange.rs", 1),
        ],
    ),
    ("a worker process collects no spans", &[("host/runtime/src/isolation/worker/calls.rs", 1)]),
    ("it starts a program", &[("host/mcp/src/client/process.rs", 1), ("host/runtime/src/isolation/launch.rs", 1)]),
];

#[test]
fn tasks_keep_the_span_of_their_call() {
    let mut allowed: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, count) in UNTRACED.iter().flat_map(|(_, files)| *files) {
        *allowed.entry(file).or_default() += count;
    }
    let mut broken = Vec::new();
    for (name, text) in FOLDERS.iter().flat_map(|folder| sources(folder)).filter(|(name, _)| is_product(name)) {
        let lines = untraced_tasks(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = allowed.remove(name.as_str()).unwrap_or_default();
        if lines.len() != expected {
            broken.push(format!("{name}: tasks without a span at lines {lines:?}; {expected} are listed"));
        }
    }
    broken.extend(allowed.keys().map(|name| format!("{name}: is listed, and there is no such file")));
    fail_on("spawn with `.in_current_span()` or `.instrument(…)`, or list the task in UNTRACED", &broken);
}

/// Returns the lines of a file in which a future is spawned without a span.
fn untraced_tasks(text: &str) -> syn::Result<Vec<usize>> {
    let mut tasks = Tasks::default();
    tasks.visit_file(&syn::parse_file(text)?);
    Ok(tasks.untraced)
}

#[derive(Default)]
struct Tasks {
    untraced: Vec<usize>,
}

impl<'ast> Visit<'ast> for Tasks {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(last) = function.path.segments.last()
            && is_spawn(&last.ident)
            && call.args.first().is_some_and(is_untraced)
        {
            self.untraced.push(last.ident.span().start().line);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if is_spawn(&call.method) && call.args.first().is_some_and(is_untraced) && !is_thread(&call.receiver) {
            self.untraced.push(call.method.span().start().line);
        }
        visit::visit_expr_method_call(self, call);
    }
}

fn is_spawn(name: &syn::Ident) -> bool {
    ["spawn", "spawn_local", "spawn_on"].iter().any(|spawn| name == spawn)
}

/// Returns whether the argument of a spawning function is a future without a span. Closures are work for threads.
fn is_untraced(argument: &Expr) -> bool {
    match argument {
        Expr::Closure(_) => false,
        Expr::MethodCall(call) => !["in_current_span", "instrument"].iter().any(|traced| call.method == traced),
        _ => true,
    }
}

/// Returns whether a chain of calls begins with a path of `std::thread`.
fn is_thread(mut receiver: &Expr) -> bool {
    while let Expr::MethodCall(call) = receiver {
        receiver = &call.receiver;
    }
    let Expr::Call(first) = receiver else { return false };
    matches!(&*first.func, Expr::Path(path) if path.path.segments.iter().any(|segment| segment.ident == "thread"))
}

#[test]
fn untraced_tasks_are_found() {
    let found = |body: &str| untraced_tasks(&format!("fn f() {{\n{body}\n}}")).unwrap();
    assert_eq!(found("let task = tokio::spawn(async move { g().await });"), [2]);
    assert_eq!(found("spawn(running);\nself.runtime().spawn(serve(a));"), [2, 3]);
    assert_eq!(found("tasks.spawn_on(async { tokio::spawn(g()).await }, &handle);"), [2, 2]);
    assert!(found("tokio::spawn(async { g().await }.in_current_span());").is_empty());
    assert!(found("runtime.spawn(running.instrument(span.clone()));").is_empty());
    assert!(
        found("std::thread::Builder::new().name(n).spawn(run);\nscope.spawn(|| g());\ncommand.spawn();").is_empty()
    );
    assert!(untraced_tasks("#[cfg(test)]\nmod tests { fn f() { tokio::spawn(g()); } }").unwrap().is_empty());
}
