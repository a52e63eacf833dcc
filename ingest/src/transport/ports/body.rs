//! Request bodies with timeouts, and response bodies that report when they are finished.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::phase::Serving;

/// The body of a request.
pub(super) struct TimedBody {
    body: Incoming,
    end: Pin<Box<Sleep>>,
}

impl TimedBody {
    pub(super) fn new(body: Incoming, time: Duration) -> Self {
        Self { body, end: Box::pin(sleep(time)) }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => {
                let late = std::io::Error::other("the body did not arrive in time");
                Poll::Ready(Some(Err(axum::Error::new(late))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response.
pub(super) struct Served {
    body: Body,
    _serving: Serving,
}

impl Served {
    pub(super) const fn new(body: Body, serving: Serving) -> Self {
        Self { body, _serving: serving }
    }
}

impl http_body::Body for Served {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
