//! `spanwise top`: a live table of services by rate, errors and latency.

mod screen;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead as _;
use ratatui::termion::raw::IntoRawMode as _;
use ratatui::termion::screen::IntoAlternateScreen as _;
use spanwise_api::endpoints::GRAPH;
use spanwise_api::{Graph, GraphEdge, GraphNode, NodeKind};

use super::graph::percent;
use super::http::{self, Request};
use super::{print_as_it_came, read};
use crate::failure::Failure;
use crate::flags::{ServerUrl, TopFlags, TopOrder};
use crate::terminal::{Align, Paint, Table, brief, duration, harmless, print, shows_to_a_person};

/// Interval between queries.
const EVERY: Duration = Duration::from_secs(2);
/// How often the screen is drawn where nothing happens: the terminal may have another size.
const REDRAW_EVERY: Duration = Duration::from_millis(500);

/// Shows the table until the user quits, or prints it once if standard output is not a terminal.
pub(super) fn run(flags: &TopFlags) -> Result<(), Failure> {
    let request = Request::get(&GRAPH.url_path(&[])).parameter("start", &start(&flags.window)?);
    let body = http::ask(&flags.server.url, &request)?;
    if flags.server.json {
        return print_as_it_came(&body);
    }
    let graph: Graph = read(&flags.server, &body)?;
    if flags.once || !shows_to_a_person() {
        return print(&table(&graph, flags.sort, Paint::for_stdout(flags.server.zone())));
    }
    let mut view = View::new(&flags.server.url, &flags.window, flags.sort, graph);
    let (sender, events) = channel();
    ask_repeatedly(flags.server.clone(), request, sender.clone());
    read_keys(sender);
    Ok(draw_until_left(&mut view, &events).context("cannot draw on this terminal")?)
}

/// The start of a window that ends now.
fn start(window: &str) -> Result<String, Failure> {
    let nano = spanwise_query::duration_nano(window).filter(|nano| *nano > 0);
    nano.map(|_| format!("-{}", window.trim())).ok_or_else(|| {
        Failure::Usage(format!(
            "--window {}: is no time; write for example 30s, 5m or 1h",
            harmless(window)
        ))
    })
}

type Answer = Result<Graph, String>;

/// What changes the screen.
enum Event {
    Key(Key),
    Answer(Answer),
    /// No more keys will come.
    Closed,
}

/// Asks from a thread of its own, so that a slow server does not hold up keys.
fn ask_repeatedly(server: ServerUrl, request: Request, events: Sender<Event>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(EVERY);
            let answer = http::ask(&server.url, &request).and_then(|body| read(&server, &body));
            let answer = answer.map_err(|failure| failure.to_string());
            if events.send(Event::Answer(answer)).is_err() {
                return;
            }
        }
    });
}

fn read_keys(events: Sender<Event>) {
    std::thread::spawn(move || {
        for key in std::io::stdin().keys() {
            let Ok(key) = key else { break };
            if events.send(Event::Key(key)).is_err() {
                return;
            }
        }
        // Whoever closed the terminal has left.
        let _ = events.send(Event::Closed);
    });
}

/// The terminal is as it was before when this returns, also by a panic.
fn draw_until_left(view: &mut View, events: &Receiver<Event>) -> std::io::Result<()> {
    let screen = std::io::stdout().into_raw_mode()?.into_alternate_screen()?;
    let mut terminal = Terminal::new(TermionBackend::new(screen))?;
    terminal.hide_cursor()?;
    loop {
        terminal.draw(|frame| screen::draw(frame, view))?;
        match events.recv_timeout(REDRAW_EVERY) {
            Ok(Event::Key(Key::Ctrl('c')) | Event::Closed)
            | Err(RecvTimeoutError::Disconnected) => {
                break;
            }
            Ok(Event::Key(key)) => {
                if view.press(key) == Pressed::Leave {
                    break;
                }
            }
            Ok(Event::Answer(answer)) => view.take(answer),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    terminal.show_cursor()
}

/// Whether a key ends the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressed {
    Stay,
    Leave,
}

/// The state of the screen.
struct View {
    url: String,
    window: String,
    order: TopOrder,
    graph: Graph,
    /// Nodes that match the filter, in the order of the table.
    nodes: Vec<GraphNode>,
    /// The name of the selected node.
    selected: Option<String>,
    /// Whether the selected node's calls are shown instead of the table.
    opened: bool,
    paused: bool,
    filter: String,
    /// Whether keys edit the filter.
    typing: bool,
    /// Why the last query failed.
    failure: Option<String>,
}

impl View {
    fn new(url: &str, window: &str, order: TopOrder, graph: Graph) -> Self {
        let mut view = Self {
            url: url.to_owned(),
            window: window.to_owned(),
            order,
            graph,
            nodes: Vec::new(),
            selected: None,
            opened: false,
            paused: false,
            filter: String::new(),
            typing: false,
            failure: None,
        };
        view.arrange();
        view
    }

    /// Replaces the data, unless the table is paused.
    fn take(&mut self, answer: Answer) {
        match answer {
            Ok(_) if self.paused => {}
            Ok(graph) => {
                (self.graph, self.failure) = (graph, None);
                self.arrange();
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn press(&mut self, key: Key) -> Pressed {
        if self.typing {
            match key {
                Key::Char('\n') => self.typing = false,
                Key::Esc => (self.typing, self.filter) = (false, String::new()),
                Key::Backspace => {
                    self.filter.pop();
                }
                Key::Char(c) if self.filter.len() < 64 => self.filter.push(c),
                _ => {}
            }
            self.arrange();
            return Pressed::Stay;
        }
        match key {
            Key::Char('q') => return Pressed::Leave,
            Key::Esc if self.opened => self.opened = false,
            Key::Esc if !self.filter.is_empty() => self.filter.clear(),
            Key::Esc => return Pressed::Leave,
            Key::Char('r') => self.order = TopOrder::Rate,
            Key::Char('e') => self.order = TopOrder::Errors,
            Key::Char('l') => self.order = TopOrder::Latency,
            Key::Char('n') => self.order = TopOrder::Name,
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('/') => (self.typing, self.opened) = (true, false),
            Key::Char('\n') => self.opened = self.selected.is_some() && !self.opened,
            Key::Down | Key::Char('j') => self.step(1),
            Key::Up | Key::Char('k') => self.step(-1),
            Key::PageDown => self.step(20),
            Key::PageUp => self.step(-20),
            Key::Home => self.step(isize::MIN),
            Key::End => self.step(isize::MAX),
            _ => {}
        }
        self.arrange();
        Pressed::Stay
    }

    /// Moves the selection down by this many rows.
    fn step(&mut self, rows: isize) {
        let Some(last) = self.nodes.len().checked_sub(1) else { return };
        let at = self.position().map_or(0, |at| at.saturating_add_signed(rows).min(last));
        self.selected = Some(self.nodes[at].name.clone());
    }

    fn position(&self) -> Option<usize> {
        self.nodes.iter().position(|node| Some(&node.name) == self.selected.as_ref())
    }

    fn arrange(&mut self) {
        let filter = self.filter.to_lowercase();
        let fits = |node: &GraphNode| node.name.to_lowercase().contains(&filter);
        self.nodes = self.graph.nodes.iter().filter(|node| fits(node)).cloned().collect();
        sort(&mut self.nodes, self.order);
        if self.position().is_none() && !self.opened {
            self.selected = self.nodes.first().map(|node| node.name.clone());
        }
    }

    /// The calls to and from the selected node.
    fn calls(&self) -> (Vec<&GraphEdge>, Vec<&GraphEdge>) {
        let name = self.selected.as_deref().unwrap_or_default();
        let mut edges: Vec<&GraphEdge> = self.graph.edges.iter().collect();
        edges.sort_by_key(|edge| std::cmp::Reverse(edge.requests));
        let callers = edges.iter().copied().filter(|edge| edge.server == name).collect();
        (callers, edges.into_iter().filter(|edge| edge.client == name).collect())
    }

    fn rate(&self, node: &GraphNode) -> f64 {
        node.requests as f64 / self.graph.window_seconds.max(1.0)
    }
}

fn error_share(node: &GraphNode) -> f64 {
    node.errors as f64 / (node.requests as f64).max(1.0)
}

fn sort(nodes: &mut [GraphNode], order: TopOrder) {
    nodes.sort_by(|one, other| {
        match order {
            TopOrder::Rate => other.requests.cmp(&one.requests),
            TopOrder::Errors => error_share(other).total_cmp(&error_share(one)),
            TopOrder::Latency => other.p95_nano.0.cmp(&one.p95_nano.0),
            TopOrder::Name => std::cmp::Ordering::Equal,
        }
        .then_with(|| one.name.cmp(&other.name))
    });
}

/// The columns of the table.
const COLUMNS: [(&str, Align); 6] = [
    ("SERVICE", Align::Left),
    ("KIND", Align::Left),
    ("REQUESTS/S", Align::Right),
    ("ERRORS", Align::Right),
    ("P50", Align::Right),
    ("P95", Align::Right),
];

/// The cells of a node. A caller that nobody calls has no latency.
fn cells(node: &GraphNode, rate: f64) -> [String; 6] {
    let kind = match node.kind {
        NodeKind::Service => "service",
        NodeKind::Database => "database",
        NodeKind::Cache => "cache",
        NodeKind::Broker => "broker",
        NodeKind::External => "external",
    };
    let called = |text: String| if node.requests > 0 { text } else { "–".to_owned() };
    [
        brief(&node.name, 48),
        kind.to_owned(),
        called(format!("{rate:.2}")),
        called(percent(error_share(node))),
        called(duration(node.p50_nano.0)),
        called(duration(node.p95_nano.0)),
    ]
}

/// The table as text.
fn table(graph: &Graph, order: TopOrder, paint: Paint) -> String {
    if graph.nodes.is_empty() {
        return "no call was seen in this time; --window 1h looks further back\n".to_owned();
    }
    let view = View::new("", "", order, graph.clone());
    let mut table = Table::new(COLUMNS);
    for node in &view.nodes {
        table.row(cells(node, view.rate(node)).to_vec());
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn graph() -> Graph {
        let node = |name: &str, requests: u64, errors: u64, p95: i64| {
            serde_json::json!({
                "name": name, "kind": "service", "errors": errors, "requests": requests,
                "p50_nano": "1000000", "p95_nano": p95.to_string(), "protocols": [], "system": null,
            })
        };
        let edge = |client: &str, server: &str| {
            serde_json::json!({
                "client": client, "server": server, "protocol": "http", "requests": 40,
                "errors": 0, "error_share": 0.0, "certain_share": 1.0,
                "requests_per_second": 2.0, "p50_nano": "1000000", "p95_nano": "2000000",
                "p99_nano": "3000000",
            })
        };
        serde_json::from_value(serde_json::json!({
            "edges": [edge("web", "cart"), edge("cart", "db")],
            "nodes": [node("web", 600, 0, 9), node("cart", 60, 6, 5_000_000),
                      node("db", 120, 1, 20_000_000), node("batch", 0, 0, 0)],
            "warnings": [], "window_seconds": 60.0,
        }))
        .expect("a graph")
    }

    fn names(view: &View) -> Vec<&str> {
        view.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn keys_order_filter_select_and_leave() {
        let mut view = View::new("http://a", "1m", TopOrder::Rate, graph());
        assert_eq!(names(&view), ["web", "db", "cart", "batch"]);
        view.press(Key::Char('e'));
        assert_eq!(names(&view), ["cart", "db", "batch", "web"]);
        view.press(Key::Char('l'));
        assert_eq!(names(&view), ["db", "cart", "web", "batch"]);
        view.press(Key::Char('n'));
        assert_eq!(names(&view), ["batch", "cart", "db", "web"]);
        // A service stays selected if its row moves.
        assert_eq!(view.selected.as_deref(), Some("web"));
        view.press(Key::Home);
        view.press(Key::Down);
        assert_eq!(view.selected.as_deref(), Some("cart"));
        view.press(Key::Char('\n'));
        let (callers, called) = view.calls();
        assert!(view.opened && callers[0].client == "web" && called[0].server == "db");
        view.press(Key::Esc);
        view.press(Key::Char('/'));
        for c in "Bq".chars() {
            assert_eq!(view.press(Key::Char(c)), Pressed::Stay);
        }
        view.press(Key::Backspace);
        view.press(Key::Char('\n'));
        assert_eq!(names(&view), ["batch", "db", "web"]);
        assert_eq!(view.press(Key::Esc), Pressed::Stay);
        assert_eq!(names(&view).len(), 4);
        assert_eq!(view.press(Key::Char('q')), Pressed::Leave);
    }

    #[test]
    fn a_pause_keeps_what_is_shown_and_a_failure_is_said() {
        let mut view = View::new("http://a", "1m", TopOrder::Rate, graph());
        let empty = Graph { nodes: Vec::new(), ..graph() };
        view.press(Key::Char('p'));
        view.take(Ok(empty.clone()));
        assert_eq!(view.nodes.len(), 4);
        view.press(Key::Char('p'));
        view.take(Err("gone".to_owned()));
        assert_eq!((view.nodes.len(), view.failure.as_deref()), (4, Some("gone")));
        view.take(Ok(empty));
        assert_eq!((view.nodes.len(), view.failure.as_deref()), (0, None));
        assert_eq!(view.press(Key::Char('\n')), Pressed::Stay);
        assert_eq!(view.press(Key::Down), Pressed::Stay);
    }

    #[test]
    fn the_table_is_printed_where_it_cannot_be_drawn() {
        let text = table(&graph(), TopOrder::Rate, Paint::off());
        let expected = "\
SERVICE  KIND     REQUESTS/S  ERRORS      P50      P95
web      service       10.00     0 %  1.00 ms     9 ns
db       service        2.00   0.8 %  1.00 ms  20.0 ms
cart     service        1.00    10 %  1.00 ms  5.00 ms
batch    service           –       –        –        –
";
        assert_eq!(text, expected);
    }

    #[test]
    fn windows_are_times() {
        assert_eq!(start("5m").ok().as_deref(), Some("-5m"));
        for wrong in ["", "soon", "-5m", "0s"] {
            assert!(start(wrong).is_err(), "{wrong}");
        }
    }
}
