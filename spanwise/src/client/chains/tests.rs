use clap::Parser as _;
use serde_json::{Value, json};

use super::*;
use crate::flags::{Command, Flags};

fn flags(typed: &[&str]) -> ChainsFlags {
    let typed = ["spanwise", "chains"].iter().chain(typed);
    match Flags::try_parse_from(typed).unwrap_or_else(|error| panic!("{error}")).command {
        Command::Chains(flags) => flags,
        _ => unreachable!(),
    }
}

fn observed() -> Value {
    json!({
        "covered_from_unix_nano": "0", "end_unix_nano": "60000000000", "runs": 40,
        "runs_folded": 0, "runs_left_out": 0, "spans": 400, "start_unix_nano": "0",
        "window_seconds": 20.0,
        "covered_by_rollups": 0.0,
    })
}

fn chain() -> Value {
    json!({
        "error_share": 0.025, "errors": 1, "failed_trace": "fa", "first_unix_nano": "0",
        "id": "00000000000000aa", "last_unix_nano": "1000000000", "operation": "POST /checkout",
        "p50_nano": "1000000", "p95_nano": "2000000", "p99_nano": "3000000", "paths": 3,
        "runs": 40, "runs_per_second": 2.0, "service": "shop", "services": 2, "shapes": 1,
        "share": 1.0, "slow_trace": "51", "typical_trace": null,
    })
}

fn call(level: u64, service: &str, verdict: &str, failures: u64) -> Value {
    let verdict = json!({
        "confidence": 0.9, "failures": failures, "stopped_share": 1.0, "verdict": verdict,
    });
    json!({
        "calls": 80, "chain_dependency": verdict, "cr": 2.0, "dependency": verdict, "dr": 2.0,
        "errors": failures, "level": level, "lr": 0.25, "mean_self_nano": "500000",
        "operation": "pay", "present_share": 1.0, "service": service,
    })
}

#[test]
fn a_chain_is_a_table_by_level() {
    let calls =
        [call(0, "shop", "unknown", 0), call(1, "mail", "strong", 25), call(2, "db", "unknown", 2)];
    let page = json!({
        "calls": calls, "chain": chain(), "observed": observed(), "total": 4,
        "warnings": ["not all"],
    });
    let page = serde_json::from_value(page).expect("a page");
    let text = table::render(&page, Paint::off());
    let expected = "\
shop POST /checkout  00000000000000aa
40 runs, 2.00/s (100 % of all), 2.5 % failed; p50 1.00 ms, p95 2.00 ms, p99 3.00 ms; 1 shape
first 1970-01-01 00:00:00.000Z, last 1970-01-01 00:00:01.000Z
   slow  51
 failed  fa

LEVEL  SERVICE  OPERATION    LR    DR    CR  IN RUNS    SELF  ERRORS  FOR ITS CALLER                   FOR THE CHAIN
    0  shop     pay        25 %  2.00  2.00    100 %  500 µs       0
    1    mail   pay        25 %  2.00  2.00    100 %  500 µs      25  strong (25 failures, 90 % sure)  strong (25 failures, 90 % sure)
    2      db   pay        25 %  2.00  2.00    100 %  500 µs       2  unknown (2 failures)             unknown (2 failures)
3 of 4 calls, of 40 runs in 20 s; 400 spans read
warning: not all
";
    assert_eq!(text, expected);
}

#[test]
fn a_list_says_how_many_there_are() {
    let list = json!({
        "chains": [chain()], "observed": observed(), "total": 3, "warnings": [],
    });
    let text = lists::chains(&serde_json::from_value(list).expect("a list"), Paint::off());
    assert!(text.contains("00000000000000aa  shop     POST /checkout    40  2.00/s"), "{text}");
    assert!(text.ends_with("1 of 3 chains, of 40 runs in 20 s; 400 spans read\n"), "{text}");
    let none = json!({"chains": [], "observed": observed(), "total": 0, "warnings": []});
    let text = lists::chains(&serde_json::from_value(none).expect("a list"), Paint::off());
    assert!(text.starts_with("no run was seen"), "{text}");
}

#[test]
fn flags_reach_the_api() {
    let typed = flags(&["--service", "a b", "--start", "-2h", "--end", "now", "--limit", "7"]);
    let expected = "/api/v1/chains?start=-2h&end=now&service=a%20b&limit=7";
    assert_eq!(chains_request(&typed, 0), Request::get(expected));
    let typed = ["spanwise", "chains", "00000000000000aa", "--service", "cart"];
    assert!(Flags::try_parse_from(typed).is_err(), "a chain is not narrowed");
    assert_eq!(rate(0.001), "3.6/h");
}

#[test]
fn scales_reach_the_api_and_loads_are_held_against_peaks() {
    let typed = ["spanwise", "capacity", "--scale", "a b=3x", "--scale", "*=2x"];
    let typed = match Flags::try_parse_from(typed).expect("flags").command {
        Command::Capacity(flags) => flags,
        _ => unreachable!(),
    };
    let expected = "/api/v1/capacity?scale=a%20b%3D3x&scale=%2A%3D2x&limit=50";
    assert_eq!(capacity_request(&typed, 0), Request::get(expected));
    let load = |operation: Option<&str>| {
        json!({
            "busy_now": 0.5, "busy_predicted": 1.5, "now_per_second": 2.0, "operation": operation,
            "peak_per_second": 4.0, "peak_unix_nano": "0", "predicted_per_second": 6.0,
            "service": "db", "to_peak": 1.5,
            "chains": [{"id": "aa", "operation": "buy", "predicted_per_second": 6.0, "service": "a"}],
        })
    };
    let answer = json!({
        "entrances": [{
            "factor": 3.0, "now_per_second": 2.0, "operation": "buy", "predicted_per_second": 6.0,
            "service": "a",
        }],
        "observed": observed(), "operations": [load(Some("SELECT"))], "peak_seconds": 10.0,
        "services": [load(None)], "total": 1, "warnings": [],
    });
    let text = capacity::render(&serde_json::from_value(answer).expect("a load"), Paint::off());
    assert!(text.contains("a buy     2.00/s   3.00x  6.00/s"), "{text}");
    assert!(
        text.contains(
            "db SELECT  2.00/s  6.00/s     4.00/s    150 %      0.50       1.50  buy 6.00/s\n"
        ),
        "{text}"
    );
}
