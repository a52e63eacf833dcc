//! Prints a trace's events as babeltrace2 does, with decimal numbers: `events DIR`. `make
//! test-lttng` compares both.

use std::io::Write as _;
use std::path::Path;

use spanwise_ctf::{Trace, Value};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("events DIR")?;
    let mut trace = Trace::open(Path::new(&dir))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while let Some(step) = trace.step() {
        let Some(event) = step else { continue };
        let (seconds, ns) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
        write!(out, "[{seconds}.{ns:09}] {}:", event.class.name)?;
        for part in [&event.common, &event.context, &event.fields] {
            if !part.is_empty() {
                write!(out, " {{ {} }}", fields(part))?;
            }
        }
        writeln!(out)?;
    }
    out.flush()?;
    for problem in trace.problems() {
        eprintln!("{problem}");
    }
    let (events, packets) = trace.lost();
    eprintln!("{events} events and {packets} packets are lost");
    Ok(())
}

fn fields(part: &[(&str, Value<'_>)]) -> String {
    let all: Vec<String> =
        part.iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
    all.join(", ")
}

fn shown(value: &Value<'_>) -> String {
    let list = |shown: Vec<String>| {
        let all: Vec<String> =
            shown.iter().enumerate().map(|(index, value)| format!("[{index}] = {value}")).collect();
        if all.is_empty() { "[ ]".to_owned() } else { format!("[ {} ]", all.join(", ")) }
    };
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::Bytes(bytes) => list(bytes.iter().map(u8::to_string).collect()),
        Value::Label(label, number) => format!("( \"{label}\" : container = {number} )"),
        Value::List(values) => list(values.iter().map(shown).collect()),
        Value::Fields(part) => format!("{{ {} }}", fields(part)),
    }
}
