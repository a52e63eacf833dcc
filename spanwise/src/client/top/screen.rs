//! Draws the table on the terminal.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use spanwise_api::{GraphEdge, GraphNode};

use super::{COLUMNS, View, cells, error_share};
use crate::client::graph::percent;
use crate::flags::TopOrder;
use crate::terminal::{Align, brief, counted, duration, harmless};

/// Error shares from this one on are red.
const MANY_ERRORS: f64 = 0.01;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(vec![title(view), notice(view)]), head);
    match view.opened {
        true => calls(frame, view, body),
        false => services(frame, view, body),
    }
    frame.render_widget(Paragraph::new(keys(view)).dim(), foot);
}

fn title(view: &View) -> Line<'_> {
    let rate: f64 = view.nodes.iter().map(|node| view.rate(node)).sum();
    Line::from(vec![
        Span::from("spanwise top").bold(),
        Span::from(format!(
            "  {}  last {}  {}  {rate:.1} requests/s",
            harmless(&view.url),
            harmless(&view.window),
            counted(view.nodes.len() as u64, "service", "services"),
        )),
    ])
}

/// Anything unusual, such as a pause or a failure.
fn notice(view: &View) -> Line<'_> {
    let pause = if view.paused { "paused" } else { "" };
    match (&view.failure, view.typing || !view.filter.is_empty()) {
        (Some(failure), _) => Line::from(harmless(failure)).red(),
        (None, true) => {
            let cursor = if view.typing { "▏" } else { "" };
            Line::from(format!("filter: {}{cursor} {pause}", harmless(&view.filter))).yellow()
        }
        (None, false) => Line::from(pause).yellow(),
    }
}

fn keys(view: &View) -> &'static str {
    match (view.typing, view.opened) {
        (true, _) => "Enter keep the filter   Esc clear it",
        (_, true) => "Esc back   p pause   q quit",
        _ => {
            "r rate  e errors  l latency  n name   ↑↓ select  Enter callers and calls  / filter  p pause  q quit"
        }
    }
}

fn aligned(text: String, align: Align) -> Cell<'static> {
    let alignment = match align {
        Align::Left => Alignment::Left,
        Align::Right => Alignment::Right,
    };
    Cell::from(Text::from(text).alignment(alignment))
}

fn services(frame: &mut Frame<'_>, view: &View, area: Rect) {
    if view.nodes.is_empty() {
        let text = match view.filter.is_empty() {
            true => "no call was seen in this time",
            false => "no service fits the filter; Esc clears it",
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let ordered_by = match view.order {
        TopOrder::Name => 0,
        TopOrder::Rate => 2,
        TopOrder::Errors => 3,
        TopOrder::Latency => 5,
    };
    let heads = COLUMNS.iter().enumerate().map(|(index, (name, align))| {
        let mark = if index == ordered_by { "▾" } else { "" };
        aligned(format!("{name}{mark}"), *align).style(Style::new().bold())
    });
    let widths = [
        Constraint::Min(16),
        Constraint::Length(9),
        Constraint::Length(11),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let table = Table::new(view.nodes.iter().map(|node| row(view, node)), widths)
        .header(Row::new(heads))
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(view.position());
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(view: &View, node: &GraphNode) -> Row<'static> {
    let cells = cells(node, view.rate(node)).into_iter().zip(COLUMNS).enumerate();
    Row::new(cells.map(|(index, (text, (_, align)))| {
        let red = index == 3 && error_share(node) >= MANY_ERRORS;
        aligned(text, align).style(if red { Style::new().fg(Color::Red) } else { Style::new() })
    }))
}

fn calls(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let (callers, called) = view.calls();
    let name = view.selected.as_deref().unwrap_or_default();
    let mut lines = vec![Line::from(brief(name, 80)).bold(), Line::from("")];
    let mut list = |title: &'static str, edges: &[&GraphEdge], other: fn(&GraphEdge) -> &str| {
        lines.push(Line::from(title).bold());
        if edges.is_empty() {
            lines.push(Line::from("  nobody").dim());
        }
        for edge in edges {
            let line = Line::from(format!(
                "  {:<40}  {:<10}  {:>9.2}/s  {:>7} errors  p50 {:>8}  p95 {:>8}  {:>6} certain",
                brief(other(edge), 40),
                brief(&edge.protocol, 10),
                edge.requests_per_second,
                percent(edge.error_share),
                duration(edge.p50_nano.0),
                duration(edge.p95_nano.0),
                percent(edge.certain_share),
            ));
            lines.push(if edge.error_share >= MANY_ERRORS { line.red() } else { line });
        }
        lines.push(Line::from(""));
    };
    list("called by", &callers, |edge| &edge.client);
    list("calls", &called, |edge| &edge.server);
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::termion::event::Key;

    use super::super::tests::graph;
    use super::*;

    fn drawn(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 12)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn services_and_their_calls_are_drawn() {
        let mut view = View::new("http://a", "1m", TopOrder::Rate, graph());
        let text = drawn(&view);
        assert!(text.contains("last 1m  4 services  13.0 requests/s"), "{text}");
        assert!(text.contains("REQUESTS/S▾") && text.contains("20.0 ms"), "{text}");
        view.press(Key::Char('e'));
        view.press(Key::Home);
        view.press(Key::Char('\n'));
        let text = drawn(&view);
        assert!(text.contains("called by") && text.contains("  web  "), "{text}");
        view.take(Err("the server is gone".to_owned()));
        assert!(drawn(&view).contains("the server is gone"));
    }
}
