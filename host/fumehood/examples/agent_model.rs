//! A model of your own: a closure, and a client that streams.
//!
//! `cargo run -p fumehood --example agent_model`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::{Arc, Mutex, PoisonError};

use fumehood::agent::agent::AgentEvent;
use fumehood::boxed::BoxFuture;
use fumehood::chat::{Delta, DeltaSink, Model, ModelError, ModelFailure, Request, Response, Role, ToolIntent};
use fumehood::{Host, Load};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

/// A model that streams its answer word by word, as a provider does.
struct SlowModel;

impl Model for SlowModel {
    fn chat<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            let Some(last) = request.messages.last() else {
                return Err(ModelError::new(ModelFailure::Refused, "there is nothing to answer; send a message"));
            };
            let text = format!("You said: {}", last.content);
            for word in text.split_inclusive(' ') {
                deltas.delta(Delta::Text(word.to_owned()));
            }
            Ok(Response::text(text))
        })
    }
}

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().build()?;
    host.load(Load::path(CALCULATOR)).await?;

    // A closure is enough if the model does not wait for anything.
    let closure = |request: &Request| -> Result<Response, ModelError> {
        Ok(match request.messages.iter().rfind(|message| message.role == Role::Tool) {
            Some(result) => Response::text(format!("It is {}.", result.content)),
            None => {
                let id = "c1".to_owned();
                let name = "calculator__add".to_owned();
                Response::calls(vec![ToolIntent { id, name, arguments: r#"{"a": 3, "b": 5}"#.to_owned() }])
            }
        })
    };
    let mut agent = host.agent(Arc::new(closure)).allow_everything().build()?;
    let outcome = agent.run("3 + 5?").await?;
    println!("{}", outcome.text());
    assert_eq!(outcome.text(), r#"It is {"result":8}."#);

    let mut agent = host.agent(Arc::new(SlowModel)).build()?;
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&pieces);
    agent.tap().wiretap(move |event| {
        if let AgentEvent::Delta { delta: Delta::Text(text), .. } = event {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(text.clone());
        }
    });
    agent.run("good morning").await?;
    let pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{pieces:?}");
    assert_eq!(*pieces, ["You ", "said: ", "good ", "morning"]);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
