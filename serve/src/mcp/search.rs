//! The tool `search_traces`.

use spanwise_api::TraceSummary;

use super::text::{self, Text};
use crate::Shared;
use crate::native::{Parameters, search};
use crate::problem::Problem;

pub(super) async fn search(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let answer = search::answer(&shared.queries, &shared.limits, parameters).await?;
    let mut text = Text::default();
    text.line(&format!(
        "{} traces between {} and {}",
        answer.traces.len(),
        text::moment(answer.searched.start_unix_nano.0),
        text::moment(answer.searched.end_unix_nano.0),
    ));
    let written = text.lines(answer.traces.iter().map(line));
    if written < answer.traces.len() {
        text.note(&format!(
            "{} traces are left out: ask again with a smaller limit, or for less",
            answer.traces.len() - written
        ));
    }
    if let Some(end) = answer.older_end_unix_nano {
        text.note(&format!("there are older ones: ask again with end={}", end.0));
    }
    for note in answer.advice.iter().chain(&answer.warnings) {
        text.note(note);
    }
    Ok(text.finish())
}

fn line(trace: &TraceSummary) -> String {
    const MOST_SERVICES: usize = 8;
    let root = match &trace.root {
        Some(root) => format!("{}: {}", text::name(&root.service), text::name(&root.operation)),
        None => "no root".to_owned(),
    };
    let services: Vec<String> =
        trace.services.iter().take(MOST_SERVICES).map(|share| text::name(&share.name)).collect();
    let further = match trace.services.len().saturating_sub(MOST_SERVICES) {
        0 => String::new(),
        further => format!(" and {further} more"),
    };
    let error = trace.error.as_ref().map(|error| {
        let code = error.status_code.map(|code| format!(" {code}")).unwrap_or_default();
        let said = error.text.as_deref().map(|said| format!(" {}", text::name(said)));
        format!(
            "; FAILED in {}: {}{code}{}",
            text::name(&error.service),
            text::name(&error.operation),
            said.unwrap_or_default()
        )
    });
    let mut doubts = String::new();
    if !trace.complete {
        doubts.push_str("; incomplete");
    }
    if trace.uncertain_links > 0 {
        let doubtful = if trace.doubtful { ", some doubtful" } else { "" };
        doubts.push_str(&format!("; {} links are guesses{doubtful}", trace.uncertain_links));
    }
    format!(
        "{} {} {root} {}, {} spans, {} failed; services {}{further}{}{doubts}",
        trace.trace_id,
        text::moment(trace.start_unix_nano.0),
        text::duration(trace.duration_nano.0),
        trace.spans,
        trace.errors,
        services.join(", "),
        error.unwrap_or_default(),
    )
}
