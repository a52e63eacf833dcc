//! The types of the HTTP API under `/api/v1`: what each endpoint takes and answers.
//!
//! Each shape is written once, here. The server serialises these types and the command
//! line deserialises them. The TypeScript types of the UI (`web/src/api/types.ts`), the
//! OpenAPI document (`docs/api/openapi.json`) and the reference for people
//! (`docs/api/reference.md`) are generated from them; a test fails where one of these
//! files is out of date, and `UPDATE_API=1 cargo test -p spanwise-api` writes them.
//!
//! Fields are in the order in which they are written. Except for the trace page, which is
//! written in parts, that order is alphabetical.

mod attributes;
mod cause;
mod chains;
mod deletion;
pub mod endpoints;
pub mod exact;
#[cfg(test)]
mod generate;
mod graph;
mod journey;
mod load;
mod number;
mod operations;
mod problem;
mod search;
mod services;
mod span;
mod sql;
mod status;
mod time;
mod trace;
#[cfg(test)]
mod vocabulary;
mod watch;

pub use attributes::{
    AttributeKey, AttributeKeys, AttributePlace, AttributeValue, AttributeValues,
};
pub use cause::{
    CauseAttribute, CauseChange, CauseEvidence, CauseKind, CauseSuspect, CauseTrace, Causes,
};
pub use chains::{
    ChainCall, ChainList, ChainPage, ChainSummary, Dependencies, Dependency, DependencyEdge,
    DependencyVerdict, Entrance, Entrances, ObservedRuns, OperationName, Relation, SourceChain,
    Sources,
};
pub use deletion::Deletion;
pub use graph::{EdgeNetwork, Graph, GraphEdge, GraphNode, NetworkStep, NodeKind, ResentCall};
pub use journey::{
    Journey, JourneyEvidence, JourneyGap, JourneyHandOff, JourneyStep, JourneyTrace,
};
pub use load::{
    Bottlenecks, Capacity, FanOut, ForecastMethod, LoadPart, PredictedLoad, RateForecast,
    RepeatedCalls, RetriedCalls, ScaledEntrance, SequentialCalls, TimeShare,
};
pub use number::{Bytes, Count, Nano};
pub use operations::{Operation, Operations};
pub use problem::Problem;
pub use search::{
    ErrorSide, Outcome, RootSpan, SearchAnswer, SearchEnd, SearchLine, ServiceShare, Sort,
    TraceError, TraceSummary,
};
pub use services::{Service, Services};
pub use span::{Attribute, AttributeType, Span, SpanEvent, SpanLink, SpanStatus};
pub use sql::{SqlAnswer, SqlColumn, SqlEnd, SqlStatement};
pub use status::{
    Agent, AgentFacts, Assembly, Counter, CounterPart, HostClock, Ingest, Level, ObjectStorage,
    Plugin, Process, ReportingAgent, Server, ServiceUnknown, Status, Store,
};
pub use time::{CoveredRange, Range};
pub use trace::{ClockDifference, TraceHead, TracePage};
pub use watch::{Watch, WatchAlert, WatchRule, WatchState, Webhook};
