//! The tool `find_cause`: who is suspected of having made a range of time unusual.

use spanwise_api::{CauseSuspect, CauseTrace, Range};

use super::text::{self, Text};
use crate::Shared;
use crate::native::{Parameters, cause};
use crate::problem::Problem;

pub(super) async fn find(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let causes = cause::answer(&shared.queries, parameters).await?;
    let mut text = Text::default();
    text.line(&text::clean(&causes.summary, text::MOST_NAME_CHARACTERS * 4));
    let how = if causes.found { "found as unusual" } else { "looked at" };
    text.line(&format!(
        "{how}: {} with {} spans, compared with {} usual ranges of {} spans{}",
        range(&causes.range),
        causes.spans,
        causes.usual_ranges,
        causes.usual_spans,
        causes.usual_range.map_or(String::new(), |usual| format!(", {}", range(&usual))),
    ));
    for (place, one) in causes.suspects.iter().enumerate() {
        suspect(&mut text, place + 1, one);
    }
    if !causes.changes.is_empty() {
        text.line("");
        text.line("what began or ended:");
        text.lines(causes.changes.iter().map(|change| {
            let since = change
                .since_unix_nano
                .map_or(String::new(), |since| format!(" (since {})", text::moment(since.0)));
            format!("{}{since}", text::clean(&change.text, text::MOST_NAME_CHARACTERS * 3))
        }));
    }
    if !causes.stands_out {
        text.note("no suspect stands out, so nothing is known to be wrong");
    }
    for warning in &causes.warnings {
        text.note(warning);
    }
    Ok(text.finish())
}

fn range(range: &Range) -> String {
    let moment = text::moment;
    format!("{} to {}", moment(range.start_unix_nano.0), moment(range.end_unix_nano.0))
}

fn suspect(text: &mut Text, place: usize, suspect: &CauseSuspect) {
    text.line("");
    let operation = suspect
        .operation
        .as_ref()
        .map_or(String::new(), |operation| format!(": {}", text::name(operation)));
    text.line(&format!(
        "{place}. {}{operation}; score {:.2}{}{}",
        text::name(&suspect.service),
        suspect.score,
        if suspect.stands_out { "; stands out" } else { "; does not stand out" },
        suspect
            .began_unix_nano
            .map_or(String::new(), |began| format!("; began about {}", text::moment(began.0))),
    ));
    let clean = |line: &str| text::clean(line, text::MOST_NAME_CHARACTERS * 3);
    text.lines(suspect.evidence.iter().map(|evidence| format!("- {}", clean(&evidence.text))));
    let listed = |title: &str, words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| clean(word)).collect();
        (!words.is_empty()).then(|| format!("- {title}: {}", words.join("; ")))
    };
    text.lines(listed("seen at", &suspect.places).into_iter());
    text.lines(listed("called by", &suspect.callers).into_iter());
    text.lines(suspect.attributes.iter().map(|attribute| {
        format!(
            "- {} = {}: {:.0}% of bad spans have it, {:.0}% of good ones",
            text::name(&attribute.key),
            text::name(&attribute.value),
            attribute.bad_share * 100.0,
            attribute.good_share * 100.0
        )
    }));
    let traces = |title: &str, traces: &[CauseTrace]| {
        let traces: Vec<String> =
            traces.iter().map(|trace| format!("{} ({})", trace.trace_id, trace.shows)).collect();
        (!traces.is_empty()).then(|| format!("- {title}: {}", traces.join(", ")))
    };
    text.lines(traces("bad traces", &suspect.bad_traces).into_iter());
    text.lines(traces("usual traces", &suspect.usual_traces).into_iter());
}
