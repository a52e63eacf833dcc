//! Reads queries from standard input, one a line, and prints the canonical form or the error of
//! each: `ok CANONICAL` or `no ERROR`.

use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match spanwise_traceql::parse(&line?) {
            Ok(query) => writeln!(out, "ok {query}")?,
            Err(error) => writeln!(out, "no {error}")?,
        }
    }
    Ok(())
}
