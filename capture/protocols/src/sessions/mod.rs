//! Sessions: requests paired with responses, for each connection: first in
//! first out, or by the stream that both name.

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
