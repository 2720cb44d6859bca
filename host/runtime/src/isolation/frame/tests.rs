//! Tests of frames, with messages of every kind that is cut and joined at any place.

use std::io::{Read as _, Seek as _, Write as _};
use std::time::Duration;

use fumehood_core::call::Usage;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::result::CallError;
use fumehood_core::key_value::Key;
use fumehood_core::policy::permission::files::{Folder, ProtectedFiles, Quota};
use fumehood_core::policy::permission::http::{HttpGrant, HttpLimits};
use fumehood_core::policy::permission::{
    ClockStep, Environment, Grant, Injection, KeyValueQuota, Secret, SecretValue, Seed,
};
use fumehood_core::tool::definition::{Annotations, RawDefinition};
use fumehood_core::tool::resource::{MAX_WIRE_ELEMENTS, RawPage};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::isolation::message::{
    CallMessage, Cost, Failure, FromWorker, Loaded, MAX_BACKTRACE_FRAMES, Part, RequestHead, StoreAnswer, StoreStep,
    ToWorker,
};
use crate::wasi::Invocation;

#[test]
fn messages_and_files_arrive_in_order() {
    let (ours, theirs) = Socket::pair().unwrap();
    let long = "x".repeat(1 << 20);
    let sender = std::thread::spawn(move || {
        let file = File::open("/dev/null").unwrap();
        send(&ours, &"first", &[&file]).unwrap();
        send(&ours, &long, &[]).unwrap();
    });
    let mut receiver = Receiver::new();
    let mut messages: Vec<(usize, usize)> = Vec::new();
    while receiver.receive(&theirs, Wait::Usual).unwrap() == Received::Some {
        while let Some(Message { body, files }) = receiver.next::<String>(MAX_MESSAGE_BYTES).unwrap() {
            messages.push((body.len(), files.len()));
        }
    }
    sender.join().unwrap();
    assert_eq!(messages, [(5, 1), (1 << 20, 0)]);
}

#[test]
fn a_claimed_length_allocates_no_memory() {
    let (ours, theirs) = Socket::pair().unwrap();
    send_all(&ours, &[0xff, 0xff, 0xff, 0x0f, 0], &[]).unwrap();
    let mut receiver = Receiver::new();
    receiver.receive(&theirs, Wait::Usual).unwrap();
    assert!(receiver.next::<String>(MAX_MESSAGE_BYTES).unwrap().is_none());
    assert_eq!(receiver.buffer.len(), BUFFER_BYTES);
    assert!(matches!(receiver.next::<String>(1 << 20), Err(FrameError::TooLong { .. })));
    send_all(&ours, &[0xff; 8], &[]).unwrap();
    drop(ours);
    let mut other = Receiver::new();
    other.receive(&theirs, Wait::Usual).unwrap();
    assert!(matches!(other.next::<String>(MAX_MESSAGE_BYTES), Err(FrameError::TooLong { .. })));
}

#[test]
fn distinguishes_no_data_from_a_closed_socket() {
    let (ours, theirs) = Socket::pair().unwrap();
    let mut receiver = Receiver::new();
    assert_eq!(receiver.receive(&theirs, Wait::Never).unwrap(), Received::Nothing);
    drop(ours);
    assert_eq!(receiver.receive(&theirs, Wait::Never).unwrap(), Received::Closed);
}

/// Encodes a message and sends the whole frame with its files.
fn send(socket: &Socket, message: &impl Serialize, files: &[&File]) -> io::Result<()> {
    send_all(socket, &encode(message, files.len())?, files)
}

/// Receives all that a sender wrote, and returns the error that ends it.
fn error_of(frames: &[(&[u8], usize)]) -> Option<FrameError> {
    let (ours, theirs) = Socket::pair().unwrap();
    let file = File::open("/dev/null").unwrap();
    for (bytes, files) in frames {
        send_all(&ours, bytes, &vec![&file; *files]).unwrap();
    }
    drop(ours);
    let mut receiver = Receiver::new();
    while receiver.receive(&theirs, Wait::Usual).unwrap() == Received::Some {
        loop {
            match receiver.next::<String>(MAX_MESSAGE_BYTES) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return Some(error),
            }
        }
    }
    None
}

#[test]
fn files_that_no_head_names_are_a_violation() {
    let [none, one] = [0, 1].map(|files| encode(&"text", files).unwrap());
    assert!(error_of(&[(&none, 0), (&one, 1)]).is_none());
    assert!(matches!(error_of(&[(&none, 1)]), Some(FrameError::UnexpectedDescriptor)));
    assert!(matches!(error_of(&[(&none[..7], 1)]), Some(FrameError::UnexpectedDescriptor)));
    assert!(matches!(error_of(&[(&one, 2)]), Some(FrameError::UnexpectedDescriptor)));
    assert!(matches!(error_of(&[(&one, 0)]), Some(FrameError::MissingDescriptor)));
}

/// Returns one message of every kind that a worker sends, with the number of its files.
fn from_worker() -> Vec<(FromWorker, usize)> {
    let parts = || vec![Part::Text("a".repeat(3_000)), Part::Json("1".to_owned())].try_into().unwrap();
    let error = CallError { backtrace: vec!["f".into()], ..CallError::new(ErrorKind::ToolFailed, "no") };
    let failure = Failure(error.with_retry_after(Duration::from_nanos(1_500_000_001)));
    let head = RequestHead {
        method: "GET".to_owned(),
        uri: "http://a.example/".to_owned(),
        headers: vec![("a".to_owned(), vec![1])].try_into().unwrap(),
        connect_timeout: None,
        first_byte_timeout: Some(Duration::from_secs(1)),
        between_bytes_timeout: None,
        body_bytes: Some(3),
    };
    let what = StoreStep::Set(Key::parse("k").unwrap(), vec![7; 300]);
    vec![
        (FromWorker::Log { call: 1, level: Level::Info, message: "working on it".to_owned() }, 0),
        (FromWorker::Request { call: 1, head }, 1),
        (FromWorker::Progress { call: 1, fraction: Some(0.5), message: None, partial: parts() }, 0),
        (FromWorker::Began { call: 1 }, 0),
        (FromWorker::Used { call: 1, usage: Usage { fuel: 9, peak_memory: 1 << 40 } }, 0),
        (FromWorker::Store { call: 1, step: 1, patience: Duration::from_secs(1), what }, 0),
        (FromWorker::Ended { call: 1, outcome: Ok(parts()), cost: Cost::default() }, 0),
        (FromWorker::Ended { call: 2, outcome: Err(failure), cost: Cost::default() }, 0),
    ]
}

/// Returns one message of every kind that a host sends to a loaded worker.
fn to_worker() -> Vec<(ToWorker, usize)> {
    let call = CallMessage {
        call: 1,
        tool: 0,
        arguments: "{}".repeat(2_000),
        invocation: Invocation { id: "id".to_owned(), state: Some("state".into()), ..Invocation::default() },
    };
    vec![
        (ToWorker::Call(call), 0),
        (ToWorker::Protect(ProtectedFiles::default()), 0),
        (ToWorker::Cancel { call: 1 }, 0),
        (ToWorker::Stored { step: 1, answer: Ok(StoreAnswer::Value(Some(vec![7; 300]))) }, 0),
    ]
}

/// Returns answers of a worker that is being loaded.
fn loaded() -> Vec<(Loaded, usize)> {
    let failed = Loaded::Failed { failure: crate::isolation::message::LoadFailure::Link, message: "no".to_owned() };
    vec![(failed.clone(), 0), (failed, 0)]
}

/// Sends every frame in pieces, cut at the next of `cuts`, and receives through a buffer that has room for `room` bytes, after
/// every piece or only after several. Returns the messages with the number and the identity of their files.
fn round_trip<M: Serialize + DeserializeOwned + std::fmt::Debug>(
    messages: &[(M, usize)],
    cuts: &[usize],
    reads: &[bool],
    room: usize,
) -> Vec<(String, Vec<String>)> {
    let (ours, theirs) = Socket::pair().unwrap();
    let mut receiver = Receiver { buffer: vec![0; room], ..Receiver::new() };
    let mut received = Vec::new();
    let mut read_all = |receiver: &mut Receiver| {
        while receiver.receive(&theirs, Wait::Never).unwrap() == Received::Some {
            while let Some(Message { body, files }) = receiver.next::<M>(MAX_MESSAGE_BYTES).unwrap() {
                let files = files.iter().map(content).collect();
                received.push((format!("{body:?}"), files));
            }
        }
    };
    let mut cuts = cuts.iter().cycle();
    let mut reads = reads.iter().cycle();
    for (number, (message, files)) in messages.iter().enumerate() {
        let files = files_of(number, *files);
        let mut files: Vec<&File> = files.iter().collect();
        let frame = encode(message, files.len()).unwrap();
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let piece = &rest[..(*cuts.next().unwrap()).min(rest.len())];
            let sent = match ours.send(piece, &files, Wait::Never) {
                Ok(sent) => sent,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    read_all(&mut receiver);
                    continue;
                }
            };
            files.clear();
            rest = &rest[sent..];
            if *reads.next().unwrap() {
                read_all(&mut receiver);
            }
        }
    }
    read_all(&mut receiver);
    received
}

/// Creates files whose content is the number of their message.
fn files_of(number: usize, count: usize) -> Vec<File> {
    let create = |_| {
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "{number}").unwrap();
        file
    };
    (0..count).map(create).collect()
}

fn content(mut file: &File) -> String {
    let mut content = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut content).unwrap();
    content
}

fn check<M: Serialize + DeserializeOwned + std::fmt::Debug>(
    messages: &[(M, usize)],
    cuts: &[usize],
    reads: &[bool],
    room: usize,
) {
    let received = round_trip(messages, cuts, reads, room);
    let expected = messages
        .iter()
        .enumerate()
        .map(|(number, (message, files))| (format!("{message:?}"), vec![number.to_string(); *files]));
    assert_eq!(received, expected.collect::<Vec<_>>());
}

#[test]
fn a_frame_may_be_cut_at_every_byte() {
    let messages = from_worker();
    let longest = messages.iter().map(|(message, files)| encode(message, *files).unwrap().len()).max().unwrap();
    for cut in (1..80).chain([longest / 2, longest - 1, longest]) {
        for reads in [[true, true], [true, false], [false, false]] {
            check(&messages, &[cut], &reads, BUFFER_BYTES);
        }
    }
}

#[test]
fn a_file_arrives_in_the_read_of_an_earlier_frame() {
    // The log line and the request are joined in one read, which has the file of the request.
    let [log, request] = [0, 1].map(|index| from_worker().swap_remove(index));
    check(&[log, request], &[usize::MAX], &[false], BUFFER_BYTES);
}

proptest! {
    #[test]
    fn frames_are_independent_of_where_reads_end(
        order in prop::collection::vec(0_usize..8, 1..20),
        cuts in prop::collection::vec(1_usize..4_000, 1..20),
        reads in prop::collection::vec(any::<bool>(), 1..20),
        room in 1_usize..8_000,
    ) {
        let pick = |kinds: usize| order.iter().map(move |index| index % kinds);
        let messages: Vec<_> = pick(8).map(|index| from_worker().swap_remove(index)).collect();
        check(&messages, &cuts, &reads, room);
        let messages: Vec<_> = pick(4).map(|index| to_worker().swap_remove(index)).collect();
        check(&messages, &cuts, &reads, room);
        let messages: Vec<_> = pick(2).map(|index| loaded().swap_remove(index)).collect();
        check(&messages, &cuts, &reads, room);
    }
}

#[test]
fn a_list_is_bounded_while_it_is_read() {
    #[derive(Debug, Deserialize)]
    struct UnboundedParts {
        #[expect(dead_code, reason = "only decoding it matters")]
        parts: Vec<Part>,
    }
    let parts = vec![Part::Text(String::new()); crate::isolation::message::MAX_PARTS + 1];
    let bytes = postcard::to_stdvec(&parts).unwrap();
    assert!(postcard::from_bytes::<UnboundedParts>(&bytes).is_ok());
    assert!(postcard::from_bytes::<crate::isolation::message::Parts>(&bytes).is_err());
}

#[test]
fn definitions_survive_a_message() {
    let annotations = Annotations { read_only: Some(true), open_world: Some(false), ..Annotations::default() };
    let definition = RawDefinition { name: "tool".to_owned(), annotations, ..RawDefinition::default() };
    let bytes = postcard::to_stdvec(&definition).unwrap();
    let received: RawDefinition = postcard::from_bytes(&bytes).unwrap();
    assert_eq!((received.name, received.annotations), (definition.name, annotations));
}

#[test]
fn lists_of_a_page_are_bounded_while_they_are_read() {
    let page = |origins: usize| RawPage { connect_domains: vec![String::new(); origins], ..RawPage::default() };
    let read = |page: &RawPage| postcard::from_bytes::<RawPage>(&postcard::to_stdvec(page).unwrap()).is_ok();
    assert!(read(&page(MAX_WIRE_ELEMENTS)) && page(MAX_WIRE_ELEMENTS).check_lists().is_ok());
    assert!(!read(&page(MAX_WIRE_ELEMENTS + 1)) && page(MAX_WIRE_ELEMENTS + 1).check_lists().is_err());
}

#[test]
fn a_quota_in_a_message_is_checked() {
    let bytes = postcard::to_stdvec(&Quota::new(7, 9).unwrap()).unwrap();
    assert_eq!(postcard::from_bytes::<Quota>(&bytes), Quota::new(7, 9).map_err(|_| postcard::Error::SerdeDeCustom));
    assert!(postcard::from_bytes::<Quota>(&postcard::to_stdvec(&[0_u64, 9]).unwrap()).is_err());
}

#[test]
fn errors_survive_a_message_with_a_bounded_backtrace() {
    let failure = |frames: usize| {
        let error = CallError::new(ErrorKind::Trap, "it\u{202e} crashed").with_hint("report it");
        Failure(CallError { backtrace: vec!["f".into(); frames], ..error })
    };
    let read = |failure: &Failure| postcard::from_bytes::<Failure>(&postcard::to_stdvec(failure).unwrap());
    assert_eq!(read(&failure(MAX_BACKTRACE_FRAMES)), Ok(failure(MAX_BACKTRACE_FRAMES)));
    assert!(read(&failure(MAX_BACKTRACE_FRAMES + 1)).is_err());
}

#[test]
fn a_worker_gets_no_secrets_rules_or_paths() {
    let bearer = Injection::header("authorization", "Bearer {secret}").unwrap();
    let token = SecretValue::new("0123456789abcdef").unwrap();
    let rules = vec!["GET https://api.example.com/v1/**".parse().unwrap()];
    let own = Grant::none().with_state().with_scratch(Quota::default()).unwrap().with_seed(Seed::from(7_u64));
    let own = own.with_environment(Environment::none().with("LANG", "en").unwrap());
    let own = own.with_key_value(KeyValueQuota::new(1 << 20).unwrap()).with_clock(ClockStep::MIN);
    let all = own.clone().with_http(HttpGrant::new(rules, Vec::new(), HttpLimits::default()).unwrap());
    let all = all.with_secret(Secret::new("api", token, "https://api.example.com/v1/**", bearer).unwrap()).unwrap();
    let all = all.with_folder(Folder::read("/srv/docs:/docs").unwrap()).unwrap();
    let message = postcard::to_stdvec(&all).unwrap();
    assert_eq!(message, postcard::to_stdvec(&own).unwrap());
    assert_eq!(postcard::from_bytes::<Grant>(&message), Ok(own));
}
