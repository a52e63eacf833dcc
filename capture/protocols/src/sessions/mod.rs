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
mod passed;
mod shared;
mod unanswered;
mod work;

pub use attributes::Attributes;
pub use conversation::{Conversation, Finished};
pub use exchange::{Encryption, Endpoint, Exchange};
pub use exchanges::{Exchanges, StreamOwner};
pub use message::{Alike, Answer, Failure, Manner, Request, Tag};
pub use passed::{COMPARED_BYTES, Identity, MAX_MESSAGES, Passage, PassedMessage, SEARCHED_BYTES};
pub use shared::Shared;
