//! Bodies of requests and responses: counted, and ended when no more data arrives in time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use super::exchange_error::ExchangeError;
use super::permit::RequestPermits;
use crate::wasi::account::{Account, Direction, ReportOnDrop};

/// Returns the bytes that a frame is charged for.
fn frame_size(frame: &Frame<Bytes>) -> usize {
    let data = frame.data_ref().map(Bytes::len);
    data.or_else(|| frame.trailers_ref().map(super::head::headers_size)).unwrap_or_default()
}

/// The body of a request, counted as it is sent.
pub(super) struct RequestBody {
    body: WasiBody,
    account: Account,
}

impl RequestBody {
    pub(super) fn new(body: WasiBody, account: Account) -> Self {
        Self { body, account }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(ended),
        };
        if self.account.count(Direction::Out, frame_size(&frame)).is_err() {
            self.account.record_failure(&ExchangeError::TooMuchOut.to_string());
            return Poll::Ready(Some(Err(ExchangeError::TooMuchOut.into_error())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. The request counts as running until this has ended or is dropped.
pub(super) struct ResponseBody {
    /// `None` once the body has ended or failed.
    running: Option<RunningBody>,
    between_bytes: Duration,
}

struct RunningBody {
    body: Incoming,
    report: ReportOnDrop,
    /// Created when a frame is first awaited.
    patience: Option<Pin<Box<Sleep>>>,
    _permits: RequestPermits,
}

impl ResponseBody {
    pub(super) fn new(body: Incoming, between_bytes: Duration, report: ReportOnDrop, permits: RequestPermits) -> Self {
        Self { running: Some(RunningBody { body, report, patience: None, _permits: permits }), between_bytes }
    }

    /// Ends the body, with an error if there is one.
    fn end(&mut self, reason: Option<ExchangeError>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let running = self.running.take();
        if let (Some(running), Some(reason)) = (&running, &reason) {
            running.report.0.record_failure(&reason.to_string());
        }
        Poll::Ready(reason.map(|reason| Err(reason.into_error())))
    }
}

impl RunningBody {
    /// Polls for the next frame, `None` at the end of the body.
    fn poll(
        &mut self,
        between_bytes: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.patience = None;
                let counted = self.report.0.count(Direction::In, frame_size(&frame));
                Poll::Ready(Some(counted.map(|()| frame).map_err(|_| ExchangeError::TooMuchIn)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(ExchangeError::from_hyper(&error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let patience =
                    self.patience.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + between_bytes)));
                ready!(patience.as_mut().poll(cx));
                Poll::Ready(Some(Err(ExchangeError::SlowBody)))
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let between_bytes = self.between_bytes;
        let Some(running) = &mut self.running else { return Poll::Ready(None) };
        match ready!(running.poll(between_bytes, cx)) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Err(reason)) => self.end(Some(reason)),
            None => self.end(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.running.as_ref().is_none_or(|running| running.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.running.as_ref().map_or_else(|| SizeHint::with_exact(0), |running| running.body.size_hint())
    }
}
