//! The subcommands that ask a running server, over the same API as the UI.

mod answers;
mod http;
mod search;
mod services;
mod sql;
mod status;
mod trace;

use serde::de::DeserializeOwned;
use spanwise_model::WrittenId;

use crate::failure::Failure;
use crate::flags::{
    SearchFlags, ServerUrl, ServicesFlags, SqlFlags, SqlFormat, StatusFlags, TraceFlags,
};
use crate::terminal::{Paint, harmless, print, print_foreign, shows_to_a_person};
use http::{Request, answer, ask};

/// A header of answers that hold the first rows only.
const TRUNCATED: &str = "spanwise-truncated-rows";

/// Asks, and prints: the answer as it came where JSON is wanted, else what
/// `render` makes of it.
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
    // Checked here, so that a slip is told apart from a trace that is not there.
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
    let path = format!("/api/v1/traces/{id}");
    let mut body = ask(&flags.server.url, &Request::get(&path))?;
    let mut whole: answers::Trace = read(&flags.server, &body)?;
    loop {
        if flags.server.json {
            // A large trace comes in pages: one a line.
            print_as_it_came(&body)?;
        }
        let Some(after) = whole.next_after else { break };
        let mut next = Request::get(&path).parameter("after", &after.to_string());
        if let Some(snapshot) = &whole.snapshot {
            next = next.parameter("snapshot", snapshot);
        }
        body = ask(&flags.server.url, &next)?;
        let page: answers::Trace = read(&flags.server, &body)?;
        // Only a server that is none of ours would lead in a circle.
        whole.next_after = page.next_after.filter(|next| *next > after);
        whole.spans.extend(page.spans);
        // That the trace has changed is said once, of the page before which it did.
        let news = page.warnings.into_iter().filter(|warning| !whole.warnings.contains(warning));
        let news: Vec<String> = news.collect();
        whole.warnings.extend(news);
        whole.snapshot = page.snapshot;
    }
    match flags.server.json {
        true => Ok(()),
        false => print(&trace::render(&whole, Paint::for_stdout(flags.server.zone()))),
    }
}

/// `spanwise search`
pub(crate) fn search(flags: &SearchFlags) -> Result<(), Failure> {
    show(&flags.server, &search::request(flags, search::now_unix_nano()), search::render)
}

/// `spanwise services`
pub(crate) fn services(flags: &ServicesFlags) -> Result<(), Failure> {
    show(&flags.server, &Request::get("/api/v1/services"), services::render)
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
    let body = serde_json::json!({ "query": flags.statement, "format": name });
    let request = Request::post("/api/v1/sql", body.to_string());
    match flags.format {
        SqlFormat::Table => show(&flags.server, &request, sql::render),
        SqlFormat::Json => {
            show(&ServerUrl { json: true, ..flags.server.clone() }, &request, sql::render)
        }
        // Not JSON, so there is nothing to be rendered.
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
    show(&flags.server, &Request::get("/api/v1/status"), status::render)
}
