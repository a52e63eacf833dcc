//! The words of the language: scopes, intrinsics and values of enumerations.

use crate::ast::{Intrinsic, Kind, Scope, Status};

/// The scopes of intrinsics.
pub(crate) const INTRINSIC_SCOPES: [&str; 5] =
    ["trace", "span", "event", "link", "instrumentation"];

/// The scope with this name, if attributes may have it.
pub(crate) fn scope(word: &str) -> Option<Scope> {
    Some(match word {
        "span" => Scope::Span,
        "resource" => Scope::Resource,
        "event" => Scope::Event,
        "link" => Scope::Link,
        "instrumentation" => Scope::Instrumentation,
        _ => return None,
    })
}

/// The prefix of an attribute with this scope.
pub(crate) fn scope_text(scope: Scope) -> &'static str {
    match scope {
        Scope::Any => ".",
        Scope::Span => "span.",
        Scope::Resource => "resource.",
        Scope::Event => "event.",
        Scope::Link => "link.",
        Scope::Instrumentation => "instrumentation.",
    }
}

/// All intrinsics: the canonical form, which also labels series, and the alternative form with a
/// scope.
const INTRINSICS: [(Intrinsic, &str, &str); 21] = [
    (Intrinsic::Duration, "duration", "span:duration"),
    (Intrinsic::Name, "name", "span:name"),
    (Intrinsic::Status, "status", "span:status"),
    (Intrinsic::StatusMessage, "statusMessage", "span:statusMessage"),
    (Intrinsic::Kind, "kind", "span:kind"),
    (Intrinsic::TraceDuration, "traceDuration", "trace:duration"),
    (Intrinsic::RootName, "rootName", "trace:rootName"),
    (Intrinsic::RootService, "rootServiceName", "trace:rootService"),
    (Intrinsic::NestedSetLeft, "nestedSetLeft", ""),
    (Intrinsic::NestedSetRight, "nestedSetRight", ""),
    (Intrinsic::NestedSetParent, "nestedSetParent", ""),
    (Intrinsic::SpanId, "span:id", "span:id"),
    (Intrinsic::ParentId, "span:parentID", "span:parentID"),
    (Intrinsic::ChildCount, "span:childCount", "span:childCount"),
    (Intrinsic::TraceId, "trace:id", "trace:id"),
    (Intrinsic::EventName, "event:name", "event:name"),
    (Intrinsic::EventTimeSinceStart, "event:timeSinceStart", "event:timeSinceStart"),
    (Intrinsic::LinkTraceId, "link:traceID", "link:traceID"),
    (Intrinsic::LinkSpanId, "link:spanID", "link:spanID"),
    (Intrinsic::InstrumentationName, "instrumentation:name", "instrumentation:name"),
    (Intrinsic::InstrumentationVersion, "instrumentation:version", "instrumentation:version"),
];

/// The intrinsic with this name, without a scope.
pub(crate) fn intrinsic(word: &str) -> Option<Intrinsic> {
    INTRINSICS.iter().find(|(_, name, _)| *name == word).map(|(intrinsic, ..)| *intrinsic)
}

/// The intrinsic of `scope:name`.
pub(crate) fn scoped_intrinsic(text: &str) -> Option<Intrinsic> {
    INTRINSICS.iter().find(|(.., scoped)| *scoped == text).map(|(intrinsic, ..)| *intrinsic)
}

/// The intrinsics of a scope, for messages.
pub(crate) fn scoped_intrinsics_of(scope: &str) -> String {
    let names: Vec<String> = INTRINSICS
        .iter()
        .filter_map(|(.., scoped)| scoped.strip_prefix(scope)?.strip_prefix(':'))
        .map(|name| format!("`{name}`"))
        .collect();
    names.join(", ")
}

/// The canonical form of an intrinsic.
pub(crate) fn intrinsic_text(intrinsic: Intrinsic) -> &'static str {
    INTRINSICS.iter().find(|(one, ..)| *one == intrinsic).map_or("", |(_, name, _)| name)
}

/// The keyword of a status.
pub(crate) fn status_text(status: Status) -> &'static str {
    match status {
        Status::Unset => "unset",
        Status::Ok => "ok",
        Status::Error => "error",
    }
}

/// The keyword of a kind.
pub(crate) fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Unspecified => "unspecified",
        Kind::Internal => "internal",
        Kind::Server => "server",
        Kind::Client => "client",
        Kind::Producer => "producer",
        Kind::Consumer => "consumer",
    }
}

/// The status with this keyword.
pub(crate) fn status(word: &str) -> Option<Status> {
    [Status::Unset, Status::Ok, Status::Error]
        .into_iter()
        .find(|status| status_text(*status) == word)
}

/// The kind with this keyword.
pub(crate) fn kind(word: &str) -> Option<Kind> {
    [Kind::Unspecified, Kind::Internal, Kind::Server, Kind::Client, Kind::Producer, Kind::Consumer]
        .into_iter()
        .find(|kind| kind_text(*kind) == word)
}
