//! The subcommands that query a running server through the same API as the UI.

mod cause;
mod chains;
mod graph;
mod http;
mod journey;
mod mcp;
mod search;
mod services;
mod sql;
mod status;
mod tail;
mod top;
mod trace;
mod watch;

use serde::de::DeserializeOwned;
use spanwise_api::endpoints::{POST_SQL, SERVICES, STATUS, TRACE};
use spanwise_api::{SqlStatement, TracePage};
use spanwise_model::WrittenId;

use crate::failure::Failure;
use crate::flags::{
    CauseFlags, GraphFlags, JourneyFlags, McpFlags, SearchFlags, ServerUrl, ServicesFlags,
    SqlFlags, SqlFormat, StatusFlags, TailFlags, TopFlags, TraceFlags, WatchFlags,
};
use crate::terminal::{self, Paint, harmless, print, print_foreign, shows_to_a_person};
pub(crate) use chains::{bottlenecks, capacity, chains, depends, entrances, sources};
use http::{Request, answer, ask};
pub(crate) use http::{check_webhook, post_elsewhere};

/// Header of answers that contain only the first rows.
const TRUNCATED: &str = "spanwise-truncated-rows";

/// Sends a query and prints the answer: unchanged if JSON is requested, else rendered.
fn show<T: DeserializeOwned>(
    server: &ServerUrl,
    request: &Request,
    render: impl FnOnce(&T, Paint) -> String,
) -> Result<(), Failure> {
    let body = ask(&server.url, request)?;
    if server.json {
        return print_as_it_came(&body);
    }
    print(&render(&read(server, &body)?, Paint::for_stdout(server.zone())))
}

fn print_as_it_came(body: &[u8]) -> Result<(), Failure> {
    print_foreign(body)?;
    if body.ends_with(b"\n") { Ok(()) } else { print("\n") }
}

fn read<T: DeserializeOwned>(server: &ServerUrl, body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::cannot(format_args!(
            "{} answered with something else than this program expects ({error}); is it the \
             same version? `--json` shows the answer as it came",
            server.url
        ))
    })
}

/// `spanwise trace`
pub(crate) fn trace(flags: &TraceFlags) -> Result<(), Failure> {
    // Checked here, to distinguish a typing error from a missing trace.
    let id = match WrittenId::read(&flags.id) {
        Some(WrittenId::Trace(id)) => id.to_string(),
        Some(WrittenId::TraceOrSpan(_, id)) => id.to_string(),
        None => {
            return Err(Failure::Usage(format!(
                "`{}` is no id; write {}",
                harmless(&flags.id),
                WrittenId::FORMS
            )));
        }
    };
    let path = TRACE.url_path(&[&id]);
    let mut body = ask(&flags.server.url, &Request::get(&path))?;
    let mut whole: TracePage = read(&flags.server, &body)?;
    loop {
        if flags.server.json {
            // A large trace comes in pages, one on each line.
            print_as_it_came(&body)?;
        }
        let Some(after) = whole.head.next_after else { break };
        let next = Request::get(&path)
            .parameter("after", &after.to_string())
            .parameter("snapshot", &whole.head.snapshot);
        body = ask(&flags.server.url, &next)?;
        let page: TracePage = read(&flags.server, &body)?;
        // Guards against a foreign server that would cause an endless loop.
        whole.head.next_after = page.head.next_after.filter(|next| *next > after);
        whole.spans.extend(page.spans);
        // A change of the trace is reported once, with the first page after it.
        let news =
            page.head.warnings.into_iter().filter(|warning| !whole.head.warnings.contains(warning));
        let news: Vec<String> = news.collect();
        whole.head.warnings.extend(news);
        whole.head.snapshot = page.head.snapshot;
    }
    if flags.server.json {
        return Ok(());
    }
    let columns = terminal::size().map(|(columns, _)| columns);
    let layout = trace::Layout { columns, fold: !flags.all };
    let text = trace::render(&whole, layout, Paint::for_stdout(flags.server.zone()));
    if flags.no_pager { print(&text) } else { terminal::print_paged(&text) }
}

/// `spanwise search`
pub(crate) fn search(flags: &SearchFlags) -> Result<(), Failure> {
    let request = search::request(flags, spanwise_query::now_unix_nano());
    show(&flags.filter.server, &request, search::render)
}

/// `spanwise mcp`
pub(crate) fn mcp(flags: &McpFlags) -> Result<(), Failure> {
    mcp::run(&flags.url)
}

/// `spanwise tail`
pub(crate) fn tail(flags: &TailFlags) -> Result<(), Failure> {
    tail::run(flags)
}

/// `spanwise graph`
pub(crate) fn graph(flags: &GraphFlags) -> Result<(), Failure> {
    let request = graph::request(flags, spanwise_query::now_unix_nano());
    show(&flags.server, &request, |answer, paint| graph::render(answer, flags, paint))
}

/// `spanwise cause`
pub(crate) fn cause(flags: &CauseFlags) -> Result<(), Failure> {
    let request = cause::request(flags, spanwise_query::now_unix_nano());
    show(&flags.server, &request, cause::render)
}

/// `spanwise journey`
pub(crate) fn journey(flags: &JourneyFlags) -> Result<(), Failure> {
    let request = journey::request(flags, spanwise_query::now_unix_nano())?;
    show(&flags.server, &request, journey::render)
}

/// `spanwise watch`
pub(crate) fn watch(flags: &WatchFlags) -> Result<(), Failure> {
    watch::run(flags)
}

/// `spanwise top`
pub(crate) fn top(flags: &TopFlags) -> Result<(), Failure> {
    top::run(flags)
}

/// `spanwise services`
pub(crate) fn services(flags: &ServicesFlags) -> Result<(), Failure> {
    show(&flags.server, &Request::get(&SERVICES.url_path(&[])), services::render)
}

/// `spanwise sql`
pub(crate) fn sql(flags: &SqlFlags) -> Result<(), Failure> {
    let name = match flags.format {
        SqlFormat::Table | SqlFormat::Json => "json",
        SqlFormat::Csv => "csv",
        SqlFormat::Arrow => "arrow",
    };
    if flags.format == SqlFormat::Arrow && shows_to_a_person() {
        return Err(Failure::Usage(
            "an Arrow stream is not for a terminal; write it to a file with `> FILE`".to_owned(),
        ));
    }
    let statement = SqlStatement { format: Some(name.to_owned()), query: flags.statement.clone() };
    let body = serde_json::to_string(&statement).map_err(Failure::cannot)?;
    let request = Request::post(&POST_SQL.url_path(&[]), body);
    match flags.format {
        SqlFormat::Table => show(&flags.server, &request, sql::render),
        SqlFormat::Json => {
            show(&ServerUrl { json: true, ..flags.server.clone() }, &request, sql::render)
        }
        // Not JSON, so it is not rendered.
        SqlFormat::Csv | SqlFormat::Arrow => {
            let answer = answer(&flags.server.url, &request)?;
            if answer.headers.contains_key(TRUNCATED) {
                eprintln!("spanwise: there are more rows than these; use LIMIT and OFFSET");
            }
            print_foreign(&answer.body)
        }
    }
}

/// `spanwise status`
pub(crate) fn status(flags: &StatusFlags) -> Result<(), Failure> {
    show(&flags.server, &Request::get(&STATUS.url_path(&[])), status::render)
}
