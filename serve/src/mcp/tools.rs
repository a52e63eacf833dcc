//! The table of tools.

use std::future::Future;
use std::pin::Pin;

use rmcp::model::ToolAnnotations;
use serde_json::{Map, Value};

use super::arguments::{self, Argument, Kind, optional, required};
use super::{cause, compare, lists, search, spans, sql, trace};
use crate::Shared;
use crate::native::Parameters;
use crate::problem::Problem;

/// What a tool answers in the end.
type Answer<'a> = Pin<Box<dyn Future<Output = Result<String, Problem>> + Send + 'a>>;

/// A tool.
pub(super) struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    arguments: &'static [Argument],
    run: for<'a> fn(&'a Shared, &'a Parameters) -> Answer<'a>,
}

impl Tool {
    /// Checks the arguments and runs the tool.
    pub(super) async fn call(
        &self,
        shared: &Shared,
        given: &Map<String, Value>,
    ) -> Result<String, Problem> {
        let parameters = arguments::parameters(self.arguments, given)?;
        (self.run)(shared, &parameters).await
    }
}

/// The tool of this name.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// All tools, as the protocol lists them.
pub(super) fn list() -> Vec<rmcp::model::Tool> {
    TOOLS.iter().map(listed).collect()
}

/// A tool, as the protocol lists it.
pub(super) fn listed(tool: &Tool) -> rmcp::model::Tool {
    // None of them changes anything, or asks anybody else.
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    rmcp::model::Tool::new(tool.name, tool.description, arguments::schema(tool.arguments))
        .with_title(tool.title)
        .with_annotations(annotations)
}

const START: Argument = optional(
    "start",
    Kind::Text,
    "The start of the time: -15m, -2h, 2026-11-26T09:30:00Z, or nanoseconds since 1970. The \
     default is an hour ago.",
);
const END: Argument =
    optional("end", Kind::Text, "The end of the time, as `start`. The default is now.");
const TRACE_ID: Argument =
    required("trace_id", Kind::Text, "The id of the trace, or of any of its spans.");
const ENTRIES: Argument = optional(
    "limit",
    Kind::Count { default: lists::DEFAULT_ENTRIES, most: lists::MOST_ENTRIES },
    "The most entries.",
);
const PREFIX: Argument =
    optional("prefix", Kind::Text, "How the text begins, in upper or lower case.");
const OF_SERVICE: Argument = optional("service", Kind::Text, "Only of spans of this service.");
const COMPLETIONS: Argument =
    optional("limit", Kind::Count { default: 50, most: 500 }, "The most entries.");

macro_rules! run {
    ($function:path) => {
        |shared, parameters| Box::pin($function(shared, parameters))
    };
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "list_services",
        title: "Services with rate, errors and durations",
        description: "Lists the services with the rate, errors and durations of the requests to \
                      them in a time, those with most requests first, and how many spans are \
                      stored of each.",
        arguments: &[START, END, PREFIX, ENTRIES],
        run: run!(lists::services),
    },
    Tool {
        name: "list_operations",
        title: "Operations",
        description: "Lists the operations of a service, or of all services, with their kinds and \
                      how many spans are stored of each.",
        arguments: &[OF_SERVICE, ENTRIES],
        run: run!(lists::operations),
    },
    Tool {
        name: "search_traces",
        title: "Search for traces",
        description: "Finds traces that contain a span with all these properties. `q` takes \
                      TraceQL instead, such as { resource.service.name = \"cart\" && status = \
                      error } >> { duration > 100ms }. Each line: trace id, start, root, duration, \
                      spans, services, the failure nearest to the cause.",
        arguments: &[
            optional(
                "q",
                Kind::Text,
                "A query in TraceQL. With it, service, operation, status=error and durations are \
                 about a span that it selects; attribute and sort are not taken.",
            ),
            optional("service", Kind::Text, "The service of the span."),
            optional("operation", Kind::Text, "The name of the span."),
            optional(
                "status",
                Kind::OneOf(&["error", "ok"]),
                "error: the span failed; ok: no span of the trace failed.",
            ),
            optional(
                "min_duration",
                Kind::Text,
                "The least duration of the span (of the trace where no span is named): 250us, \
                 10ms, 1.5s, 2m.",
            ),
            optional("max_duration", Kind::Text, "The longest duration, as min_duration."),
            optional(
                "attribute",
                Kind::Texts,
                "Conditions on attributes of the span or its resource: key=value, key!=value, \
                 key>5, key~text (contains), key (exists), !key. At most 16; all must hold.",
            ),
            START,
            END,
            optional(
                "sort",
                Kind::OneOf(&["newest", "slowest", "errors", "largest"]),
                "The order over all traces of the time. The default is newest.",
            ),
            optional("limit", Kind::Count { default: 20, most: 200 }, "The most traces."),
        ],
        run: run!(search::search),
    },
    Tool {
        name: "read_trace",
        title: "Read a trace",
        description: "Draws a trace as a tree. Siblings that are alike are folded into one line, \
                      and the tree is drawn as deep as the lines suffice, so that a trace of \
                      100,000 spans can be read; the answer says what is left out and how to ask \
                      for it. Failures nearest to their causes are listed below the tree. \
                      read_spans has the attributes.",
        arguments: &[
            TRACE_ID,
            optional("span_id", Kind::Text, "Draws only this span and what is below it."),
            optional(
                "depth",
                Kind::Count { default: 10, most: 1_000 },
                "How many levels are drawn. Without it, as many as the lines suffice for.",
            ),
            optional(
                "lines",
                Kind::Count { default: trace::DEFAULT_LINES, most: trace::MOST_LINES },
                "The most lines of the drawing.",
            ),
            optional(
                "after",
                Kind::Position,
                "Leaves out so many lines, which an answer before had.",
            ),
            optional("unfolded", Kind::Flag, "Draws every sibling on a line of its own."),
        ],
        run: run!(trace::read),
    },
    Tool {
        name: "read_spans",
        title: "Read single spans",
        description: "All that is known of single spans of a trace, as JSON: attributes, resource, \
                      events, links, addresses, and why each hangs below its parent (evidence, \
                      confidence; below 0.999 it is a guess).",
        arguments: &[
            TRACE_ID,
            required("span_ids", Kind::Texts, "The ids of the spans, at most 50."),
        ],
        run: run!(spans::read),
    },
    Tool {
        name: "compare_traces",
        title: "Compare two traces",
        description: "Says where two traces differ: spans that only one of them has, failures, and \
                      time, by services and operations from the root down. Compare a slow or \
                      failed trace with a good one of the same operation.",
        arguments: &[
            TRACE_ID,
            required("other_trace_id", Kind::Text, "The id of the other trace."),
            optional(
                "lines",
                Kind::Count { default: compare::DEFAULT_LINES, most: compare::MOST_LINES },
                "The most differences.",
            ),
        ],
        run: run!(compare::compare),
    },
    Tool {
        name: "service_graph",
        title: "Service graph",
        description: "Who calls whom, how often, how fast and with how many errors: databases, \
                      caches, brokers and external services too. With service, only what is within \
                      some hops of it, in either direction.",
        arguments: &[
            optional("service", Kind::Text, "The service, database or broker to look around."),
            optional(
                "hops",
                Kind::Count { default: 1, most: 10 },
                "How far from it; 1 is what it calls and what calls it.",
            ),
            START,
            END,
            ENTRIES,
        ],
        run: run!(lists::graph),
    },
    Tool {
        name: "find_cause",
        title: "Find the cause",
        description: "Who made a time slow or failing, compared with the time before it: suspects \
                      with evidence, place, beginning, example traces, and what changed. Without \
                      start and end it finds the latest unusual minutes itself. Ask this first \
                      when something is wrong; compare_traces then shows a bad and a usual trace.",
        arguments: &[
            optional(
                "service",
                Kind::Text,
                "Only requests that this service takes part in, and what is below it.",
            ),
            optional(
                "start",
                Kind::Text,
                "The start of the time to explain, such as -15m. Without it, it is found.",
            ),
            END,
        ],
        run: run!(cause::find),
    },
    Tool {
        name: "run_sql",
        title: "Run SQL",
        description: "Runs one read-only SQL statement (DataFusion) over the table spans, and \
                      answers in CSV. Columns, among others: start_unix_nano, duration_nano, \
                      service, operation, kind, status, status_code, error, protocol, capture, \
                      host, trace_id, span_id, assembled_trace_id, assembled_parent, evidence, \
                      confidence; DESCRIBE spans has all. attribute(attributes, 'http.route') is \
                      the text of an attribute, resource_attribute(resource, \
                      'deployment.environment') that of one of its resource, and \
                      encode(assembled_trace_id, 'hex') that of an id. Restrict start_unix_nano: \
                      it makes a statement fast.",
        arguments: &[
            required(
                "query",
                Kind::Text,
                "The statement, such as SELECT service, count(*) FROM spans GROUP BY service.",
            ),
            optional(
                "limit",
                Kind::Count { default: sql::DEFAULT_ROWS, most: sql::MOST_ROWS },
                "The most rows of the answer.",
            ),
        ],
        run: run!(sql::run),
    },
    Tool {
        name: "list_attributes",
        title: "Keys of attributes",
        description: "Lists the keys of attributes that the newest 10,000 spans have, the most \
                      frequent first, to search with.",
        arguments: &[OF_SERVICE, START, END, PREFIX, COMPLETIONS],
        run: run!(lists::attributes),
    },
    Tool {
        name: "list_attribute_values",
        title: "Values of an attribute",
        description: "Lists the values of an attribute that the newest 10,000 spans have, the most \
                      frequent first.",
        arguments: &[
            required("key", Kind::Text, "The attribute, such as http.request.method."),
            OF_SERVICE,
            START,
            END,
            PREFIX,
            COMPLETIONS,
        ],
        run: run!(lists::values),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_names_and_schemas() {
        let listed = serde_json::to_value(list()).expect("a list");
        for tool in listed.as_array().expect("a list") {
            let name = tool["name"].as_str().expect("a name");
            assert!(find(name).is_some());
            assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'));
            assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
            assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
            assert!(tool["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        }
        assert!(find("drop_everything").is_none());
        // The list itself is in every context.
        assert!(listed.to_string().len() < 16_000);
    }
}
