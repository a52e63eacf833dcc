//! `spanwise services`

use spanwise_api::Services;

use crate::terminal::{Align, Paint, Table, brief};

/// One line for each service.
pub(super) fn render(answer: &Services, paint: Paint) -> String {
    if answer.services.is_empty() {
        return "no service seen yet; send a request to a traced process, or spans over OTLP\n"
            .to_owned();
    }
    let mut table = Table::new([
        ("SERVICE", Align::Left),
        ("SPANS", Align::Right),
        ("ERRORS", Align::Right),
        ("LAST SEEN", Align::Left),
        ("SEEN BY", Align::Left),
    ]);
    for service in &answer.services {
        let kinds: Vec<&str> = service.kinds.iter().map(|capture| capture.as_str()).collect();
        table.row(vec![
            brief(&service.name, 60),
            service.spans.to_string(),
            service.errors.to_string(),
            paint.moment(service.last_seen_unix_nano.0),
            brief(&kinds.join(", "), 60),
        ]);
    }
    table.render(paint)
}
