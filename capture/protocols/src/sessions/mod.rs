//! Sessions: pair requests with responses on each connection, either in order (first in, first out)
//! or by the stream id that both carry.

mod answering;
mod asking;
mod attributes;
mod conversation;
pub mod early;
mod exchange;
mod exchanges;
mod message;
mod shared;
mod unanswered;

pub use attributes::Attributes;
pub use conversation::{Conversation, Finished};
pub use exchange::{Encryption, Endpoint, Exchange};
pub use exchanges::{Exchanges, StreamOwner};
pub use message::{Alike, Answer, Failure, Manner, Request, Tag};
pub use shared::Shared;
