//! The Model Context Protocol at `/mcp`: what an assistant asks this server by.
//!
//! [`server`] gives the tools to the protocol's official SDK, without sessions: one message in, one
//! out. [`tools`] is the table of tools. The other modules are the tools, over the same questions as the native API. What a
//! tool answers is text with a bound ([`text`]): it says what is left out, and how to ask for it.

mod arguments;
mod cause;
mod compare;
mod folding;
mod lists;
mod search;
mod server;
mod spans;
mod sql;
mod text;
mod tools;
mod trace;

pub(crate) use server::router;
