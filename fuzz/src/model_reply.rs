//! Replies of models in the form of each provider: none hangs or panics, the pieces in which one arrives make no difference, and
//! text that arrived before something odd is not lost.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fumehood_core::chat::{Message, Model, NullDeltaSink, Request, StopReason};
use fumehood_model::{ModelSpec, Provider, ProviderConfig, Retries};
use tokio::runtime::Runtime;

use super::loopback;

/// Maximum time for one reply. A fuzzer's inputs are small.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The text that begins every reply.
const FIRST_TEXT: &str = "kept";

/// The providers, each with the path of its base URL, the media type of its replies, and the event that begins one.
const FORMS: [(&str, &str, &str, &str); 4] = [
    (
        "compatible:m",
        "v1/",
        "text/event-stream",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"kept\"},\"finish_reason\":null}]}\n\n",
    ),
    (
        "anthropic:m",
        "v1/",
        "text/event-stream",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[],\
         \"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\
         \"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: \
         content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\
         \"text\":\"kept\"}}\n\n",
    ),
    (
        "gemini:m",
        "v1beta/",
        "text/event-stream",
        "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"kept\"}]}}]}\n\n",
    ),
    (
        "ollama:m",
        "",
        "application/x-ndjson",
        "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"kept\"},\"done\":false}\n",
    ),
];

/// What a caller gets: the text, the names and arguments of the calls and the end; `None` for an error. Identifiers of calls
/// that had none are random, and which of two errors is seen first depends on the pieces.
type Outcome = Option<(String, Vec<(String, String)>, StopReason)>;

/// The reply to the next request.
#[derive(Default)]
struct Next {
    media_type: &'static str,
    body: Vec<u8>,
    piece: usize,
}

struct Fixture {
    providers: Vec<Provider>,
    runtime: Runtime,
}

static NEXT: Mutex<Next> = Mutex::new(Next { media_type: "", body: Vec::new(), piece: 1 });

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let address = loopback::serve(|_| {
            let next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
            let Next { media_type, body, piece } = &*next;
            loopback::Response { status: "200 OK", media_type, body: body.clone(), piece: *piece }
        });
        let provider = |(name, path, _, _): &(&str, &str, &str, &str)| {
            let config = ProviderConfig {
                base_url: Some(format!("http://{address}/{path}")),
                key: Some(fumehood_model::Key::new("key")),
                retries: Retries { max_retries: 0, ..Retries::default() },
                ..ProviderConfig::default()
            };
            Provider::new(&ModelSpec::parse(name).expect("a model"), config).expect("a provider")
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Fixture { providers: FORMS.iter().map(provider).collect(), runtime }
    })
}

/// Reads a reply that begins with a text and goes on with these bytes. The first byte selects the provider, the second is the
/// size of the pieces.
pub fn run(data: &[u8]) {
    let Some(([form, piece], rest)) = data.split_first_chunk() else { return };
    let form = usize::from(*form) % FORMS.len();
    let body = [FORMS[form].3.as_bytes(), rest].concat();
    let whole = ask(form, &body, body.len());
    let in_pieces = ask(form, &body, usize::from(*piece).max(1));
    assert_eq!(whole, in_pieces, "the pieces make a difference");
    if let Some((text, ..)) = whole {
        assert!(text.starts_with(FIRST_TEXT), "the first text was lost: {text:?}");
    }
}

fn ask(form: usize, body: &[u8], piece: usize) -> Outcome {
    let Fixture { providers, runtime } = fixture();
    let media_type = FORMS[form].2;
    *NEXT.lock().unwrap_or_else(PoisonError::into_inner) = Next { media_type, body: body.to_vec(), piece };
    let request = Request { messages: vec![Message::user("Hello.")], ..Request::default() };
    let asking = async { tokio::time::timeout(MAX_TIME, providers[form].chat(&request, &mut NullDeltaSink)).await };
    let response = runtime.block_on(asking).expect("the reply ends");
    response.ok().map(|response| {
        let calls = response.reply.calls().iter().map(|call| (call.name.clone(), call.arguments.clone()));
        (response.reply.text().to_owned(), calls.collect(), response.stop)
    })
}
