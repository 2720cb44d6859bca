//! The exports of version 0.2 of the contract, inside a component.

use std::cell::RefCell;
use std::collections::VecDeque;

use wit_bindgen::StreamReader;

use crate::Content;
use crate::async_bindings::exports::fumehood::tool0_2_0::tools;
use crate::async_bindings::wit_stream;
use crate::bindings::fumehood::tool::types;
use crate::component::{content, failure, log_panics};
use crate::registry::{self, AsyncEntry};

/// An item of the stream that `call` returns.
type Item = Result<types::Content, types::Failure>;

/// The items of the call that are not written yet. An instance has one call.
#[derive(Default)]
struct Outbox {
    items: VecDeque<Item>,
    /// Set if no task is writing.
    writer: Option<wit_bindgen::StreamWriter<Item>>,
    is_closed: bool,
}

thread_local! {
    static OUTBOX: RefCell<Outbox> = RefCell::default();
}

/// Returns the writer when it is dropped, so that a task whose `send` is dropped does not keep it.
struct Writing(Option<wit_bindgen::StreamWriter<Item>>);

impl Drop for Writing {
    fn drop(&mut self) {
        let writer = self.0.take();
        OUTBOX.with_borrow_mut(|outbox| outbox.writer = writer.filter(|_| !outbox.is_closed));
    }
}

/// Writes an item after those before it. If another task is writing, that task writes it, too.
async fn send(item: Item) {
    let writer = OUTBOX.with_borrow_mut(|outbox| {
        outbox.items.push_back(item);
        outbox.writer.take()
    });
    let Some(writer) = writer else { return };
    let mut writing = Writing(Some(writer));
    while let (Some(writer), Some(item)) = (&mut writing.0, OUTBOX.with_borrow_mut(|outbox| outbox.items.pop_front())) {
        writer.write_one(item).await;
    }
}

/// Sends a part of the result.
pub(crate) async fn send_part(part: Content) {
    send(Ok(content(part))).await;
}

/// Implements the export `call`.
pub fn call(tools: &'static [AsyncEntry], request: tools::ToolCall) -> StreamReader<Item> {
    log_panics();
    let (writer, reader) = wit_stream::new();
    OUTBOX.with_borrow_mut(|outbox| outbox.writer = Some(writer));
    let running = registry::start(tools, &request.tool, &request.arguments);
    wit_bindgen::spawn_local(async move {
        match running.await {
            Ok(parts) => {
                for part in parts {
                    send(Ok(content(part))).await;
                }
            }
            Err(error) => send(Err(failure(&error))).await,
        }
        OUTBOX.with_borrow_mut(|outbox| {
            outbox.is_closed = true;
            outbox.writer = None;
        });
    });
    reader
}

/// Defines the component's exports. Only for `export_async!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_async_component {
    ($tools:expr) => {
        struct Component;

        impl $crate::async_bindings::exports::fumehood::tool0_2_0::tools::Guest for Component {
            fn describe() -> ::std::vec::Vec<$crate::async_bindings::exports::fumehood::tool0_2_0::tools::ToolDefinition> {
                $crate::component::describe($tools)
            }

            async fn call(
                request: $crate::async_bindings::exports::fumehood::tool0_2_0::tools::ToolCall,
            ) -> $crate::__private::wit_bindgen::StreamReader<
                ::core::result::Result<
                    $crate::async_bindings::exports::fumehood::tool0_2_0::tools::Content,
                    $crate::async_bindings::exports::fumehood::tool0_2_0::tools::Failure,
                >,
            > {
                $crate::async_component::call($tools, request)
            }
        }

        $crate::async_bindings::export_async_tools!(Component with_types_in $crate::async_bindings);
    };
}
