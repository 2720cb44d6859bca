//! A body that holds something until it has been sent or given up.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use tokio_util::bytes::Bytes;

/// What is sent back.
pub(crate) type Answer = BoxBody<Bytes, Infallible>;

/// A body, and what it holds.
pub(crate) struct GuardedBody<T> {
    body: Answer,
    _held: T,
}

impl<T> GuardedBody<T> {
    pub(crate) fn new(body: Answer, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> Body for GuardedBody<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
