//! The cases of the self-test: the rows of docs/hostile-corpus.md that one process can try on itself within seconds.

use fumehood::{CallResult, ErrorKind};

use crate::hostile_env::Powers;

/// The tool that runs programs.
pub(super) const RUN_CODE: &str = fumehood::agent::code::RUN_CODE;

/// The expected outcome of every attempt of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    Error(ErrorKind),
    /// Any error but one of the host.
    Failed,
    /// A result that contains this text.
    Answer(&'static str),
    /// A number that is at least this.
    AtLeast(u64),
}

impl Expectation {
    /// Returns whether a result is as expected.
    pub(super) fn is_met_by(self, result: &CallResult) -> bool {
        match self {
            Self::Error(kind) => result.error().is_some_and(|error| error.kind == kind),
            Self::Failed => result.error().is_some_and(|error| error.kind != ErrorKind::Host),
            Self::Answer(text) => result.text().is_some_and(|answer| answer.contains(text)),
            Self::AtLeast(min) => result.text().and_then(|text| text.parse().ok()).is_some_and(|it: u64| it >= min),
        }
    }
}

/// An attack of a hostile tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Number of its row in docs/hostile-corpus.md.
    pub(super) row: u8,
    pub(super) what: &'static str,
    pub(super) tool: &'static str,
    /// The arguments of each attempt. `{server}` and `{listener}` stand for ports.
    pub(super) attempts: &'static [&'static str],
    pub(super) expected: Expectation,
    /// True if all attempts run at the same time.
    pub(super) at_once: bool,
    /// Fuel of a call, if not the default.
    pub(super) fuel: Option<u64>,
}

const fn case(
    row: u8,
    what: &'static str,
    tool: &'static str,
    attempts: &'static [&'static str],
    expected: Expectation,
) -> Case {
    Case { row, what, tool, attempts, expected, at_once: false, fuel: None }
}

/// Defines a case with one program.
const fn program(row: u8, what: &'static str, code: &'static [&'static str], expected: Expectation) -> Case {
    case(row, what, RUN_CODE, code, expected)
}

/// Defines a case that has to end at its deadline, with three attempts.
const fn endless(row: u8, what: &'static str, tool: &'static str) -> Case {
    case(row, what, tool, &["{}", "{}", "{}"], Error(Deadline))
}

/// Defines a case with one attempt, without arguments.
const fn once(row: u8, what: &'static str, tool: &'static str, expected: Expectation) -> Case {
    case(row, what, tool, &["{}"], expected)
}

macro_rules! program {
    ($name:literal, $program:literal, $powers:ident) => {
        ($name, include_str!(concat!("../../../../../tests/programs/", $program, ".wat")), Powers::$powers)
    };
    ($name:literal) => {
        program!($name, $name, None)
    };
}

/// Arguments of a request to the server on loopback.
macro_rules! request {
    ($method:literal, $path:literal, $headers:literal, $send:literal) => {
        concat!(
            r#"{"method":""#,
            $method,
            r#"","scheme":"http","authority":"127.0.0.1:{server}","path":""#,
            $path,
            r#"","headers":"#,
            $headers,
            r#","send":"#,
            $send,
            r#","keep":4096,"patience-ms":0}"#
        )
    };
}

/// Arguments of a request to this machine, by one of its spellings.
macro_rules! reach {
    ($host:literal) => {
        concat!(
            r#"{"method":"GET","scheme":"http","authority":""#,
            $host,
            r#":{listener}","path":"/","headers":[],"send":0,"keep":4096,"patience-ms":0}"#
        )
    };
}

/// Arguments of a connection to the listener, at an address that is written as a number.
macro_rules! connect {
    ($address:literal) => {
        concat!(r#"{"address":"#, $address, r#","port":{listener},"send":1,"want":1}"#)
    };
}

macro_rules! read {
    ($path:literal) => {
        concat!(r#"{"folder":0,"path":""#, $path, r#"","follow":1}"#)
    };
}

/// The components: name, text and powers.
pub(super) const COMPONENTS: &[(&str, &str, Powers)] = &[
    program!("spin"),
    program!("spin-start"),
    program!("spin-realloc"),
    program!("spin-post-return"),
    program!("count"),
    program!("bulk-fill"),
    program!("sleep"),
    program!("busy-poll"),
    program!("poll-duplicates"),
    program!("random-flood"),
    program!("memory-grow"),
    program!("memory-bomb"),
    program!("many-memories"),
    program!("table-grow"),
    program!("recurse"),
    program!("traps"),
    program!("handle-leak"),
    program!("keep-handles"),
    program!("stdout-flood"),
    program!("write-zeroes"),
    program!("huge-result"),
    program!("aliased-result"),
    program!("typed-lists"),
    program!("bad-text"),
    program!("exit"),
    program!("counter"),
    program!("env-dump"),
    program!("reach-out"),
    program!("connect"),
    program!("timer-res"),
    program!("files", "files", Folders),
    program!("ungranted", "files", None),
    program!("fetch", "fetch", Server),
    program!("stranger", "fetch", Strangers),
];

/// The components that always run in workers: name, text and powers.
pub(super) const ASYNCHRONOUS: &[(&str, &str, Powers)] = &[
    program!("tasks", "asynchronous/tasks", None),
    program!("callee", "asynchronous/callee", None),
    program!("streams", "asynchronous/streams", None),
    program!("parts", "asynchronous/parts", None),
    program!("async-files", "asynchronous/files", Folders),
];

use ErrorKind::{BadResult, Deadline, Denied, Fuel, Memory, OutputTooLarge, Quota, ToolFailed, Trap};
use Expectation::{Answer, AtLeast, Error, Failed};

/// Cases about time, memory and results.
const BOUNDS: &[Case] = &[
    endless(1, "loop for ever", "spin__run"),
    endless(2, "loop before being called", "spin-start__run"),
    case(3, "loop while arguments are copied in", "spin-realloc__run", &[r#"{"text":"hello"}"#; 3], Error(Deadline)),
    endless(4, "loop after returning", "spin-post-return__run"),
    Case {
        fuel: Some(1_000_000),
        ..case(6, "count to 2^50", "count__run", &[r#"{"to":"1125899906842624"}"#], Error(Fuel))
    },
    endless(7, "fill the whole memory again and again", "bulk-fill__run"),
    endless(8, "sleep in a host call", "sleep__run"),
    endless(9, "poll in a loop", "busy-poll__run"),
    once(10, "poll the same handle a million times", "poll-duplicates__run", Failed),
    endless(11, "ask for randomness in a loop", "random-flood__steady"),
    once(11, "ask for a tebibyte of randomness", "random-flood__huge", Error(Trap)),
    once(12, "grow memory until it is refused", "memory-grow__run", Answer("1024")),
    once(12, "write to all the memory there is", "memory-bomb__run", Error(Memory)),
    once(13, "have many memories", "many-memories__run", Error(Memory)),
    once(15, "grow a table by ten million", "table-grow__run", Answer("-1")),
    case(17, "recurse for ever", "recurse__run", &["{}"; 20], Error(Trap)),
    once(19, "abort", "traps__unreachable", Error(Trap)),
    once(19, "divide by zero", "traps__divide-by-zero", Error(Trap)),
    once(19, "read out of bounds", "traps__out-of-bounds", Error(Trap)),
    once(20, "open handles for ever", "handle-leak__run", Error(Quota)),
    case(
        20,
        "have the host keep requests with texts of 8 MiB",
        "keep-handles__run",
        &[r#"{"kinds":7,"size":8388608,"values":1}"#],
        Failed,
    ),
    endless(22, "flood stdout for ever", "stdout-flood__run"),
    once(23, "write a tebibyte of zeroes", "write-zeroes__run", Error(Trap)),
    once(24, "return 63 MiB", "huge-result__run", Error(OutputTooLarge)),
    once(25, "return one text 100,000 times", "aliased-result__run", Error(OutputTooLarge)),
    case(25, "return 120,000 values of 32 flags", "typed-lists__flags", &[r#"{"n":120000}"#], Error(OutputTooLarge)),
    case(
        25,
        "return 250,000 values of 600 cases",
        "typed-lists__variants",
        &[r#"{"n":250000}"#],
        Error(OutputTooLarge),
    ),
    once(26, "return invalid UTF-8", "bad-text__run", Error(BadResult)),
    case(27, "end the process", "exit__run", &[r#"{"fail":false}"#, r#"{"fail":true}"#], Error(Trap)),
    case(28, "count its calls", "counter__run", &["{}"; 20], Answer("101")),
    Case { at_once: true, ..case(64, "loop, six of them at once", "spin__run", &["{}"; 6], Error(Deadline)) },
    case(65, "time with a finer clock", "timer-res__monotonic", &[r#"{"steps":10}"#], AtLeast(1_000_000)),
];

/// Cases of asynchronous functions.
const TASKS: &[Case] = &[
    once(86, "wait for what never happens", "tasks__park", Error(Trap)),
    once(86, "block on what never happens", "tasks__block", Error(Trap)),
    endless(86, "wait 584 years for a subtask", "tasks__sleep"),
    endless(86, "yield for ever", "tasks__yield"),
    endless(86, "spin in a callback", "tasks__spin"),
    Case { fuel: Some(1_000_000), ..case(86, "spin until its fuel is used up", "tasks__spin", &["{}"], Error(Fuel)) },
    once(86, "begin subtasks without end", "tasks__subtasks", Error(Quota)),
    once(86, "make sets of events without end", "tasks__sets", Error(Quota)),
    once(86, "write to streams that nobody reads", "tasks__streams", Error(Quota)),
    once(86, "begin tasks of another component without end", "callee__tasks", Error(Quota)),
    once(86, "ignore cancellation", "callee__cancel", Error(Trap)),
    once(86, "hold every call back", "callee__held", Error(Trap)),
    once(86, "return an endless stream", "streams__endless", Error(OutputTooLarge)),
    endless(86, "return a stream and never write to it", "streams__unwritten"),
    once(86, "return parts without end", "parts__endless", Error(OutputTooLarge)),
    endless(86, "return a stream of parts and never write to it", "parts__unwritten"),
    once(86, "return one part of a mebibyte 60,000 times", "parts__aliased", Error(OutputTooLarge)),
    once(86, "crash after the end of its parts", "parts__trap", Error(Trap)),
    case(
        86,
        "read next to the granted folder, with WASI 0.3",
        "async-files__read",
        &[r#"{"folder":0,"path":"../canary"}"#, r#"{"folder":0,"path":"/etc/passwd"}"#],
        Error(Denied),
    ),
    case(
        86,
        "fill the disk, with WASI 0.3",
        "async-files__write",
        &[r#"{"folder":1,"path":"full","how":1,"offset":0,"size":65536,"times":1000}"#],
        Error(Quota),
    ),
    case(
        86,
        "hold 1,000 files open, with WASI 0.3",
        "async-files__hoard",
        &[r#"{"folder":0,"path":"file.txt"}"#],
        Error(Quota),
    ),
];

/// Cases about powers that were not granted.
const POWERS: &[Case] = &[
    once(30, "read the environment", "env-dump__variables", Answer("[]")),
    once(30, "read the command line", "env-dump__arguments", Answer("[]")),
    case(31, "read a folder without a grant", "ungranted__read", &[read!("file.txt")], Failed),
    case(
        31,
        "read next to the granted folder",
        "files__read",
        &[
            read!("../canary"),
            read!("sub/../../canary"),
            read!("./..//canary"),
            read!("/etc/passwd"),
            read!("../../../../../../proc/self/environ"),
            read!("/proc/self/environ"),
        ],
        Error(Denied),
    ),
    case(
        32,
        "follow links that lead out, or round",
        "files__read",
        &[read!("link-out"), read!("link-proc"), read!("link-loop")],
        Failed,
    ),
    case(
        32,
        "plant a link that leads out",
        "files__symlink",
        &[
            r#"{"folder":1,"target":"../canary","path":"planted"}"#,
            r#"{"folder":1,"target":"/etc/passwd","path":"planted"}"#,
        ],
        Error(Denied),
    ),
    case(
        34,
        "write in a read-only folder",
        "files__write",
        &[
            r#"{"folder":0,"path":"file.txt","how":0,"offset":0,"size":9,"times":1}"#,
            r#"{"folder":0,"path":"new","how":1,"offset":0,"size":9,"times":1}"#,
        ],
        Error(Denied),
    ),
    case(34, "remove in a read-only folder", "files__unlink", &[r#"{"folder":0,"path":"file.txt"}"#], Error(Denied)),
    case(
        35,
        "move a file between folders",
        "files__rename",
        &[
            r#"{"folder":0,"path":"file.txt","to":1,"new":"mine"}"#,
            r#"{"folder":1,"path":"file.txt","to":0,"new":"mine"}"#,
        ],
        Failed,
    ),
    case(
        21,
        "hold 1,000 files open",
        "files__open-many",
        &[r#"{"folder":0,"path":"file.txt","times":1000}"#],
        Error(Quota),
    ),
    case(
        37,
        "fill the disk",
        "files__write",
        &[r#"{"folder":1,"path":"full","how":1,"offset":0,"size":65536,"times":1000}"#],
        Error(Quota),
    ),
    case(
        38,
        "make a file of 8 EiB",
        "files__set-size",
        &[r#"{"folder":1,"path":"file.txt","size":"9223372036854775807","for":2}"#],
        Error(Quota),
    ),
    case(39, "make a million files", "files__flood", &[r#"{"folder":1,"folders":0,"count":1000000}"#], Error(Quota)),
    case(
        41,
        "open a pipe without a writer",
        "files__open",
        &[r#"{"folder":0,"path":"pipe","follow":1,"how":0,"for":1}"#; 20],
        Error(Denied),
    ),
    once(50, "open a UDP socket", "reach-out__udp", Answer("1")),
    case(90, "connect to this machine", "connect__talk", &[connect!("2130706433"), connect!("0")], Failed),
    case(90, "listen", "connect__serve", &[r#"{"bind":true,"port":0}"#, r#"{"bind":false,"port":0}"#], Error(Denied)),
    case(
        50,
        "look up a name",
        "connect__look-up",
        &[r#"{"name":"localhost"}"#, r#"{"name":"example.com"}"#],
        Error(Denied),
    ),
];

/// Cases about requests.
const REQUESTS: &[Case] = &[
    case(
        42,
        "reach this machine by other spellings",
        "stranger__fetch",
        &[
            reach!("127.0.0.1"),
            reach!("127.1"),
            reach!("0177.0.0.1"),
            reach!("0x7f.1"),
            reach!("2130706433"),
            reach!("0"),
            reach!("[::1]"),
            reach!("[::ffff:127.0.0.1]"),
            reach!("[64:ff9b::7f00:1]"),
            reach!("127.0.0.1."),
            reach!("localhost"),
            reach!("ok.example.com.127.0.0.1"),
        ],
        Error(Denied),
    ),
    case(
        42,
        "reach a cloud's metadata service",
        "stranger__fetch",
        &[
            reach!("169.254.169.254"),
            reach!("2852039166"),
            reach!("[::ffff:169.254.169.254]"),
            reach!("metadata.google.internal"),
        ],
        Error(Denied),
    ),
    case(43, "reach this machine by a granted name", "stranger__fetch", &[reach!("rebind.example.com")], Error(Denied)),
    case(
        44,
        "be redirected to a cloud's metadata service",
        "fetch__fetch",
        &[request!("GET", "/redirect", "[]", "0")],
        Answer("302"),
    ),
    case(
        45,
        "forge headers",
        "fetch__fetch",
        &[
            request!("GET", "/", r#"[["host","evil.example"]]"#, "0"),
            request!("GET", "/", r#"[["transfer-encoding","chunked"]]"#, "0"),
            request!("GET", "/", r#"[["x","a\r\nhost: evil.example"]]"#, "0"),
        ],
        Failed,
    ),
    case(
        46,
        "have a secret sent elsewhere",
        "fetch__fetch",
        &[
            request!("GET", "/public", "[]", "0"),
            request!("GET", "/secret/../public", "[]", "0"),
            request!("GET", "/public?key={secret}", r#"[["authorization","Bearer {secret}"]]"#, "0"),
        ],
        Answer("200"),
    ),
    case(
        47,
        "wait for an answer that never ends",
        "fetch__fetch",
        &[request!("GET", "/slow-body", "[]", "0"), request!("GET", "/slow-head", "[]", "0")],
        Error(Deadline),
    ),
    case(48, "receive without end", "fetch__fetch", &[request!("GET", "/endless", "[]", "0")], Error(Quota)),
    case(49, "send 8 MiB", "fetch__fetch", &[request!("POST", "/upload", "[]", "8388608")], Error(Quota)),
    case(
        49,
        "make 100 requests",
        "fetch__many",
        &[r#"{"authority":"127.0.0.1:{server}","path":"/","count":100}"#],
        Answer("32"),
    ),
    case(
        76,
        "say something right before each of ten requests",
        "fetch__log-and-ask",
        &[r#"{"authority":"127.0.0.1:{server}","path":"/","lines":3,"count":10}"#],
        Answer("10"),
    ),
    case(
        62,
        "return a secret that a server echoed",
        "fetch__fetch",
        &[request!("GET", "/secret/echo", "[]", "0")],
        Answer("[secret api]"),
    ),
];

/// Programs of a model: what they do in the interpreter, and with the tools that they call.
const PROGRAMS: &[Case] = &[
    program(77, "loop for ever in a program", &[r#"{"code":"while (true);"}"#; 3], Error(Deadline)),
    program(77, "wait for ever in a program", &[r#"{"code":"for (;;) await null"}"#], Error(Deadline)),
    program(77, "recurse in a program", &[r#"{"code":"const f = n => f(n + 1) + 1; f(0)"}"#], Error(ToolFailed)),
    program(
        77,
        "take all the memory in a program",
        &[r#"{"code":"let a = []; while (true) a.push('x'.repeat(1e6) + a.length)"}"#],
        Error(ToolFailed),
    ),
    program(
        77,
        "make a million calls in a program",
        &[r#"{"code":"for (let i = 0; i < 1e6; i++) tools.counter.run({}); while (true);"}"#],
        Error(Quota),
    ),
    program(
        77,
        "look for powers in a program",
        &[
            r#"{"code":"return [typeof fetch, typeof require, typeof process, typeof std, typeof os].every(it => it === 'undefined')"}"#,
        ],
        Answer("true"),
    ),
    program(
        78,
        "send the contents of a folder from a program",
        &[
            r#"{"code":"await tools.files.read({folder: 0, path: 'file.txt', follow: 1}).catch(e => e); try { await tools.fetch.fetch({method: 'POST', scheme: 'http', authority: '127.0.0.1:{server}', path: '/upload', headers: [], send: 1, keep: 4096, 'patience-ms': 0}) } catch (e) { return e.kind }"}"#,
        ],
        Answer("needs_approval"),
    ),
];

pub(super) fn all() -> impl Iterator<Item = &'static Case> {
    BOUNDS.iter().chain(TASKS).chain(POWERS).chain(REQUESTS).chain(PROGRAMS)
}
