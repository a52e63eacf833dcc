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
    /// What values it takes.
    pub takes: Takes,
    /// Whether the endpoint needs it.
    pub required: bool,
    /// Whether it may be given several times.
    pub repeated: bool,
}

/// What values a parameter takes. An empty value is as good as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Any text.
    Text,
    /// A text with something in it that is no space.
    Filled,
    /// A duration.
    Duration,
    /// A whole number from 1 to this.
    Count(u32),
    /// A whole number.
    Position,
    /// Yes or no.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
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
    /// Other media types that it can be asked for, each with the type of its lines; empty where
    /// they are no JSON.
    pub formats: &'static [(&'static str, &'static str)],
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
    let takes = Takes::Text;
    Parameter { name, description, example, takes, required: false, repeated: false }
}

const fn taking(takes: Takes, parameter: Parameter) -> Parameter {
    Parameter { takes, ..parameter }
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
        formats: &[],
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
const CURSOR: Parameter = parameter("cursor", "The `next_cursor` of the page before.", "12:cart");
const PAGE_LIMIT: Parameter = taking(
    Takes::Count(10_000),
    parameter("limit", "The most entries of the page: 10,000 by default and at most.", "100"),
);
const SERVICE: Parameter = parameter("service", "The service of a span.", "cart");
const TRACE_ID: Parameter = required(parameter(
    "id",
    "The id of the trace or of one of its spans: 32 or 16 hexadecimal digits, or a \
         `traceparent`, `b3` or `uber-trace-id` header.",
    "4bf92f3577b34da6a3ce929d0e0e4736",
));
const PREFIX: Parameter =
    parameter("prefix", "How the text begins, in upper or lower case.", "http.");
const COMPLETION_LIMIT: Parameter = taking(
    Takes::Count(500),
    parameter("limit", "The most entries of the page: 50 by default, at most 500.", "30"),
);
const ROWS: Parameter = taking(
    Takes::Count(10_000),
    parameter("limit", "The most entries of a list: 100 by default, at most 10,000.", "20"),
);
const FORMAT: Parameter = taking(
    Takes::Word(&["json", "csv", "arrow", "table"]),
    parameter(
        "format",
        "`json`, `csv`, `arrow` or `table`. Without it, the `Accept` header decides.",
        "csv",
    ),
);

/// `GET /services`
pub const SERVICES: Endpoint =
    get("/services", "All services with stored spans", &[PAGE_LIMIT, CURSOR], "Services");

/// `GET /operations`
pub const OPERATIONS: Endpoint = get(
    "/operations",
    "Operations, of one service or of all",
    &[
        parameter("service", "Only the operations of this service.", "cart"),
        taking(
            Takes::Count(10_000),
            parameter("limit", "The most entries of the page: 1,000 by default.", "100"),
        ),
        CURSOR,
    ],
    "Operations",
);

/// `GET /search`
pub const SEARCH: Endpoint = Endpoint {
    formats: &[(LINES, "SearchLine")],
    ..get(
        "/search",
        "Traces that have a span with these properties",
        SEARCH_PARAMETERS,
        "SearchAnswer",
    )
};

/// The media type of answers in lines, each a JSON document, which are sent while they are found.
pub const LINES: &str = "application/x-ndjson";

const SEARCH_PARAMETERS: &[Parameter] = &[
    parameter(
        "q",
        "A query in TraceQL. With it, `service`, `operation`, `status=error` and durations are \
             about a span that it selects, `status=ok` is about the whole trace, and `attribute`, \
             `sort` and `cursor` are not taken.",
        "{ .http.request.method = \"POST\" } >> { status = error }",
    ),
    SERVICE,
    parameter("operation", "The name of that span.", "GET /cart"),
    taking(
        Takes::Duration,
        parameter(
            "min_duration",
            "The least duration: of that span, or of the trace where no service, operation or \
                 attribute is given.",
            "10ms",
        ),
    ),
    taking(
        Takes::Duration,
        parameter("max_duration", "The longest duration, as `min_duration`.", "1.5s"),
    ),
    taking(
        Takes::Word(&["error", "ok"]),
        parameter(
            "status",
            "`error`: that span failed. `ok`: no span of the trace failed.",
            "error",
        ),
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
    taking(
        Takes::Count(100_000),
        parameter(
            "limit",
            "The most traces: 20 by default, at most 500; 100,000 of an answer in lines.",
            "100",
        ),
    ),
    parameter(
        "cursor",
        "The `next_cursor` of the page before, with its other parameters. It takes the place \
             of `end`.",
        "1732613400000000000:",
    ),
    taking(
        Takes::Word(&["newest", "slowest", "errors", "largest"]),
        parameter(
            "sort",
            "The order over all traces of the range: `newest` (default), `slowest`, `errors` \
                 or `largest`.",
            "slowest",
        ),
    ),
];

/// `GET /traces/{id}`
pub const TRACE: Endpoint = Endpoint {
    path_parameters: &[TRACE_ID],
    ..get(
        "/traces/{id}",
        "One trace, in pages",
        &[
            taking(
                Takes::Count(20_000),
                parameter(
                    "limit",
                    "The most spans of the page: 10,000 by default, at most 20,000.",
                    "1000",
                ),
            ),
            taking(
                Takes::Position,
                parameter("after", "The `next_after` of the page before.", "10000"),
            ),
            parameter("snapshot", "The `snapshot` of the page before.", "0f3c5a7d9e1b2468"),
            parameter("around", "The page that has the span with this id.", "00f067aa0ba902b7"),
            taking(
                Takes::Flag,
                parameter("download", "`1`: the whole trace as one document.", "1"),
            ),
        ],
        "TracePage",
    )
};

/// `GET /attributes`
pub const ATTRIBUTES: Endpoint = get(
    "/attributes",
    "Keys of attributes that the newest 10,000 spans have",
    &[SERVICE, START, END, PREFIX, COMPLETION_LIMIT, CURSOR],
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
        CURSOR,
        taking(Takes::Filled, required(parameter("key", "The attribute.", "http.request.method"))),
    ],
    "AttributeValues",
);

/// `GET /graph`
pub const GRAPH: Endpoint = get(
    "/graph",
    "The service graph",
    &[
        parameter("service", "Only this service, and who calls it or is called by it.", "cart"),
        taking(
            Takes::Count(1000),
            parameter(
                "steps",
                "With `service`: divides the range into so many steps, and says of each what \
                 kernels saw of the network.",
                "60",
            ),
        ),
        START,
        END,
    ],
    "Graph",
);

/// `GET /chains`
pub const CHAINS: Endpoint = get(
    "/chains",
    "Chains: runs of one entrance with nearly the same calls",
    &[
        parameter("service", "Only chains that call this service.", "cart"),
        parameter("entrance", "Only chains that begin in this service.", "frontend"),
        START,
        END,
        ROWS,
    ],
    "ChainList",
);

/// `GET /chains/{id}`
pub const CHAIN: Endpoint = Endpoint {
    path_parameters: &[required(parameter(
        "id",
        "The id of the chain, or of one of its shapes: 16 hexadecimal digits.",
        "8d1f0c5b7a3e9246",
    ))],
    ..get("/chains/{id}", "One chain, with LR, DR and CR of its calls", &[START, END], "ChainPage")
};

/// `GET /depends`
pub const DEPENDS: Endpoint = get(
    "/depends",
    "Which calls are strong and weak dependencies, over all chains",
    &[
        parameter("service", "Only what this service calls, or who calls it.", "cart"),
        START,
        END,
        ROWS,
    ],
    "Dependencies",
);

/// `GET /entrances`
pub const ENTRANCES: Endpoint = get(
    "/entrances",
    "Entrances: where load comes in, and how it changes",
    &[START, END, ROWS],
    "Entrances",
);

/// `GET /sources`
pub const SOURCES: Endpoint = get(
    "/sources",
    "Who calls a service or operation, and whom it calls, at any distance",
    &[
        required(parameter(
            "service",
            "The service; or the protocol of what was not captured.",
            "mysql",
        )),
        parameter("operation", "The operation.", "SELECT orders"),
        parameter("depth", "The most calls between: 128 by default.", "1"),
        START,
        END,
        ROWS,
    ],
    "Sources",
);

/// `GET /cause`
pub const CAUSE: Endpoint = get(
    "/cause",
    "Who is suspected of having made a range of time unlike the time before it",
    &[
        parameter(
            "service",
            "Only requests that this service takes part in, and of these what is below it.",
            "cart",
        ),
        parameter(
            "start",
            "The start of the range of time, as in a search. Without `start` and `end`, the latest \
             minutes that are unusual against the hours before are found.",
            "-15m",
        ),
        END,
    ],
    "Causes",
);

/// `GET /journey`
pub const JOURNEY: Endpoint = get(
    "/journey",
    "What happened for one business key, over services and traces",
    &[
        required(taking(
            Takes::Filled,
            parameter("key", "The name of the key, as it is configured.", "order"),
        )),
        required(taking(
            Takes::Filled,
            parameter(
                "value",
                "Its value. Of a key that is hashed, the hash; or the value itself if the server \
                 has the secret.",
                "4711",
            ),
        )),
        parameter(
            "start",
            "The start of the range of time, as in a search. The default is a week ago.",
            "-7d",
        ),
        END,
        taking(
            Takes::Duration,
            parameter(
                "gap",
                "A time without steps is a gap from this length on. The default is a minute.",
                "1m",
            ),
        ),
        taking(
            Takes::Count(10_000),
            parameter(
                "limit",
                "The most steps, and the most traces: 1,000 by default, at most 10,000.",
                "100",
            ),
        ),
    ],
    "Journey",
);

/// `GET /bottlenecks`
pub const BOTTLENECKS: Endpoint = get(
    "/bottlenecks",
    "Where runs spend their time, and what they do too often",
    &[parameter("entrance", "Only runs that begin in this service.", "frontend"), START, END, ROWS],
    "Bottlenecks",
);

/// `GET /capacity`
pub const CAPACITY: Endpoint = get(
    "/capacity",
    "The load on every operation if entrances are called more often",
    &[
        repeated(parameter(
            "scale",
            "An entrance and its factor or rate: `SERVICE=3x`, `SERVICE OPERATION=3x`, \
             `SERVICE OPERATION=200/s`, or `*=2x` for all others. The last one that fits counts; \
             without any, the load is that of now.",
            "frontend POST /checkout=3x",
        )),
        taking(
            Takes::Duration,
            parameter(
                "forecast",
                "How far ahead: rates of entrances are those that are expected then, from the same \
                 hour of former weeks or days, or from the trend. `scale` changes these.",
                "24h",
            ),
        ),
        START,
        END,
        ROWS,
    ],
    "Capacity",
);

/// `GET /watch`
pub const WATCH: Endpoint =
    get("/watch", "The rules that the server watches, and what breaks them", &[], "Watch");

/// `GET /sql`
pub const SQL: Endpoint = Endpoint {
    needs_header: true,
    formats: &[("text/csv", ""), ("text/plain", ""), ("application/vnd.apache.arrow.stream", "")],
    ..get(
        "/sql",
        "One read-only SQL statement over the table `spans` and the analyses",
        &[
            taking(
                Takes::Filled,
                required(parameter("query", "The statement.", "SELECT service FROM spans LIMIT 1")),
            ),
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
    formats: &[],
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
    CHAINS,
    CHAIN,
    DEPENDS,
    ENTRANCES,
    SOURCES,
    CAUSE,
    JOURNEY,
    BOTTLENECKS,
    CAPACITY,
    WATCH,
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
