//! The calls of a worker. The first slice of each runs on the thread that receives, the rest on threads for guests.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use fumehood_core::call::CancellationToken;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;

use super::channel::Channel;
use super::relay::RelayObserver;
use super::setup::LoadedComponent;
use crate::call::input::Arguments;
use crate::call::outcome::Execution;
use crate::isolation::message::{CallMessage, FromWorker, Part, Parts, ToWorker};
use crate::wasi::Invocation;

/// Cancellation tokens of the running calls.
type Tokens = Arc<Mutex<HashMap<u64, CancellationToken>>>;

/// Serves calls until the host closes the socket.
///
/// # Errors
/// If the socket fails, or the host violates the protocol.
pub(super) fn serve(channel: &Channel, component: &LoadedComponent) -> io::Result<()> {
    let tokens = Tokens::default();
    while let Some(message) = channel.receive::<ToWorker>()? {
        match message.without_files().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            ToWorker::Call(message) => call(channel, component, &tokens, message),
            ToWorker::Protect(files) => component.shared.protected.replace(files),
            ToWorker::Cancel { call } => {
                let token = tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
                token.iter().for_each(CancellationToken::cancel);
            }
            ToWorker::Stored { step, answer } => component.store.deliver_answer(step, answer),
            ToWorker::Used { step, answer } => component.capabilities.deliver_answer(step, answer),
        }
    }
    Ok(())
}

fn call(channel: &Channel, component: &LoadedComponent, tokens: &Tokens, message: CallMessage) {
    let call = message.call;
    let cancelled = CancellationToken::new();
    let observer = Arc::new(RelayObserver::new(channel.clone(), call));
    let services = component.services_of(call);
    let runnable = component.runnable.clone();
    let invocation = Invocation { observer: Some(observer), cancelled: Some(cancelled.clone()), ..message.invocation };
    let invocation = Arc::new(invocation);
    let mut calling = Box::pin(async move {
        match runnable.admit(&invocation).await {
            Ok(place) => {
                let arguments = Arguments::Text(message.arguments);
                // The host compares clocks last.
                let (execution, _deadline) =
                    runnable.call(place, message.tool, arguments, invocation, Some(services)).await;
                execution
            }
            Err(refused) => refused,
        }
    });
    // Most calls are over after their first slice.
    match calling.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(execution) => send_end(channel, call, execution),
        Poll::Pending => {
            tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(call, cancelled);
            channel.send(&FromWorker::Began { call }, &[]);
            let channel = channel.clone();
            let tokens = Arc::clone(tokens);
            component.shared.runtime.spawn(async move {
                let execution = calling.await;
                tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
                send_end(&channel, call, execution);
            });
        }
    }
}

fn send_end(channel: &Channel, call: u64, execution: Execution) {
    let Execution { outcome, metadata } = execution;
    let parts = outcome.and_then(|parts| {
        let parts: Vec<Part> = parts.into_iter().map(Into::into).collect();
        Parts::try_from(parts).map_err(|error| CallError::new(ErrorKind::OutputTooLarge, error.to_string()))
    });
    let outcome = parts.map_err(Into::into);
    channel.send(&FromWorker::Ended { call, outcome, cost: metadata.into() }, &[]);
}
