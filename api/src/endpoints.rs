//! The table of endpoints: from it the server makes its routes and checks parameters, and the
//! reference is generated.

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the methods of HTTP")]
pub enum Method {
    Get,
    Post,
    Delete,
}

/// A query parameter, or a part of a path.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it does, and what it takes.
    pub description: &'static str,
    /// A value that it takes.
    pub example: &'static str,
    /// Whether the endpoint needs it.
    pub required: bool,
    /// Whether it may be given several times.
    pub repeated: bool,
}

/// An endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    /// Its method.
    pub method: Method,
    /// Its path below [`BASE`]. Parts in braces are named in `path_parameters`.
    pub path: &'static str,
    /// What it answers, in a few words.
    pub summary: &'static str,
    /// The parts of the path that vary.
    pub path_parameters: &'static [Parameter],
    /// The query parameters; others are refused.
    pub parameters: &'static [Parameter],
    /// The type of the request's body.
    pub body: Option<&'static str>,
    /// The type of the answer.
    pub answer: &'static str,
    /// Whether requests need the header `Spanwise-Request`, which no web page sends unasked.
    pub needs_header: bool,
}

/// Where the endpoints are.
pub const BASE: &str = "/api/v1";

impl Endpoint {
    /// The path of this endpoint on a server. `parts` replace the parts in braces, in order.
    pub fn url_path(&self, parts: &[&str]) -> String {
        let mut path = format!("{BASE}{}", self.path);
        for (parameter, part) in self.path_parameters.iter().zip(parts) {
            path = path.replace(&format!("{{{}}}", parameter.name), part);
        }
        path
    }
}

const fn parameter(
    name: &'static str,
    description: &'static str,
    example: &'static str,
) -> Parameter {
    Parameter { name, description, example, required: false, repeated: false }
}

const fn required(parameter: Parameter) -> Parameter {
    Parameter { required: true, ..parameter }
}

const fn repeated(parameter: Parameter) -> Parameter {
    Parameter { repeated: true, ..parameter }
}

const fn get(
    path: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
    answer: &'static str,
) -> Endpoint {
    Endpoint {
        method: Method::Get,
        path,
        summary,
        path_parameters: &[],
        parameters,
        body: None,
        answer,
        needs_header: false,
    }
}

const START: Parameter = parameter(
    "start",
    "The start of the range of time: `now`, a time before now, a date and time (UTC without a \
     zone), a date, or nanoseconds since 1970. The default is an hour ago.",
    "-15m",
);
const END: Parameter =
    parameter("end", "The end of the range of time, as `start`. The default is now.", "now");
const SERVICE: Parameter = parameter("service", "The service of a span.", "cart");
const TRACE_ID: Parameter = required(parameter(
    "id",
    "The id of the trace or of one of its spans: 32 or 16 hexadecimal digits, or a \
     `traceparent`, `b3` or `uber-trace-id` header.",
    "4bf92f3577b34da6a3ce929d0e0e4736",
));
const PREFIX: Parameter =
    parameter("prefix", "How the text begins, in upper or lower case.", "http.");
const COMPLETION_LIMIT: Parameter =
    parameter("limit", "The most entries: 50 by default, at most 500.", "30");
const FORMAT: Parameter = parameter(
    "format",
    "`json`, `csv`, `arrow` or `table`. Without it, the `Accept` header decides.",
    "csv",
);

/// `GET /services`
pub const SERVICES: Endpoint = get("/services", "All services with stored spans", &[], "Services");

/// `GET /operations`
pub const OPERATIONS: Endpoint = get(
    "/operations",
    "Operations, of one service or of all",
    &[parameter("service", "Only the operations of this service.", "cart")],
    "Operations",
);

/// `GET /search`
pub const SEARCH: Endpoint = get(
    "/search",
    "Traces that have a span with these properties",
    &[
        SERVICE,
        parameter("operation", "The name of that span.", "GET /cart"),
        parameter(
            "min_duration",
            "The least duration: of that span, or of the trace where no service, operation or \
             attribute is given.",
            "10ms",
        ),
        parameter("max_duration", "The longest duration, as `min_duration`.", "1.5s"),
        parameter(
            "status",
            "`error`: that span failed. `ok`: no span of the trace failed.",
            "error",
        ),
        repeated(parameter(
            "attribute",
            "A condition on an attribute of that span or of its resource: `key=value`, \
             `key!=value`, `key>5` (`>=`, `<`, `<=`), `key~text` (contains), `key` (exists) or \
             `!key` (does not exist). At most 16; all must hold.",
            "http.request.method=POST",
        )),
        START,
        END,
        parameter("limit", "The most traces: 20 by default, at most 500.", "100"),
        parameter(
            "sort",
            "The order over all traces of the range: `newest` (default), `slowest`, `errors` or \
             `largest`.",
            "slowest",
        ),
    ],
    "SearchAnswer",
);

/// `GET /traces/{id}`
pub const TRACE: Endpoint = Endpoint {
    path_parameters: &[TRACE_ID],
    ..get(
        "/traces/{id}",
        "One trace, in pages",
        &[
            parameter(
                "limit",
                "The most spans of the page: 10,000 by default, at most 20,000.",
                "1000",
            ),
            parameter("after", "The `next_after` of the page before.", "10000"),
            parameter("snapshot", "The `snapshot` of the page before.", "0f3c5a7d9e1b2468"),
            parameter("around", "The page that has the span with this id.", "00f067aa0ba902b7"),
            parameter("download", "`1`: the whole trace as one document.", "1"),
        ],
        "TracePage",
    )
};

/// `GET /attributes`
pub const ATTRIBUTES: Endpoint = get(
    "/attributes",
    "Keys of attributes that the newest 10,000 spans have",
    &[SERVICE, START, END, PREFIX, COMPLETION_LIMIT],
    "AttributeKeys",
);

/// `GET /attributes/values`
pub const ATTRIBUTE_VALUES: Endpoint = get(
    "/attributes/values",
    "Values of an attribute that the newest 10,000 spans have",
    &[
        SERVICE,
        START,
        END,
        PREFIX,
        COMPLETION_LIMIT,
        required(parameter("key", "The attribute.", "http.request.method")),
    ],
    "AttributeValues",
);

/// `GET /graph`
pub const GRAPH: Endpoint = get("/graph", "The service graph", &[START, END], "Graph");

/// `GET /sql`
pub const SQL: Endpoint = Endpoint {
    needs_header: true,
    ..get(
        "/sql",
        "One read-only SQL statement over the table `spans`",
        &[
            required(parameter("query", "The statement.", "SELECT service FROM spans LIMIT 1")),
            FORMAT,
        ],
        "SqlAnswer",
    )
};

/// `POST /sql`
pub const POST_SQL: Endpoint =
    Endpoint { method: Method::Post, parameters: &[FORMAT], body: Some("SqlStatement"), ..SQL };

/// `GET /status`
pub const STATUS: Endpoint =
    get("/status", "How the server, its agents and its store are doing", &[], "Status");

/// `DELETE /traces/{id}`
pub const DELETE_TRACE: Endpoint = Endpoint {
    method: Method::Delete,
    summary: "Deletes the stored spans of a trace",
    parameters: &[],
    answer: "Deletion",
    needs_header: true,
    ..TRACE
};

/// `DELETE /services/{name}`
pub const DELETE_SERVICE: Endpoint = Endpoint {
    method: Method::Delete,
    path: "/services/{name}",
    summary: "Deletes the stored spans of a service",
    path_parameters: &[required(parameter("name", "The service.", "cart"))],
    parameters: &[],
    body: None,
    answer: "Deletion",
    needs_header: true,
};

/// `GET /openapi.json`
pub const OPENAPI: Endpoint =
    get("/openapi.json", "This API as an OpenAPI 3.1 document", &[], "OpenApi");

/// All of them.
pub const ALL: &[Endpoint] = &[
    SEARCH,
    TRACE,
    SERVICES,
    OPERATIONS,
    GRAPH,
    ATTRIBUTES,
    ATTRIBUTE_VALUES,
    SQL,
    POST_SQL,
    STATUS,
    DELETE_TRACE,
    DELETE_SERVICE,
    OPENAPI,
];

/// The API as an OpenAPI document.
pub const OPENAPI_DOCUMENT: &str = include_str!("../../docs/api/openapi.json");
