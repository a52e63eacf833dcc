//! Accepted queries and their printed form; refused queries with position and message.

use spanwise_traceql::ast::Body;
use spanwise_traceql::{MAX_DEPTH, MAX_PATTERNS, MAX_QUERY_BYTES, parse};

#[test]
fn canonical_form() {
    for (query, canonical) in [
        ("{}", "{ }"),
        ("{true}", "{ }"),
        ("{ false }", "{ false }"),
        ("{.a}", "{ .a }"),
        (
            "{ span.http.status_code>=200&&span.http.status_code<300 }",
            "{ span.http.status_code >= 200 && span.http.status_code < 300 }",
        ),
        // Scopes, and names in quotes.
        ("{ resource.service.name = `a\\b` }", r#"{ resource.service.name = "a\\b" }"#),
        (r#"{ span."a b".c = 1 }"#, r#"{ span."a b.c" = 1 }"#),
        (r#"{ span."service".name = 1 }"#, "{ span.service.name = 1 }"),
        (r#"{ ."q\"\\" = 1 }"#, r#"{ ."q\"\\" = 1 }"#),
        (r#"{ ."5xx" > 1 }"#, r#"{ ."5xx" > 1 }"#),
        ("{ .a-b+c*d/e:f = 1 }", "{ .a-b+c*d/e:f = 1 }"),
        ("{ parent.a != 3 }", "{ parent.a != 3 }"),
        ("{ parent.span.a = parent.resource.b }", "{ parent.span.a = parent.resource.b }"),
        (r#"{ parent."span.a" = 1 }"#, r#"{ parent."span.a" = 1 }"#),
        (
            "{ event.a = link.b || instrumentation.c = 1 }",
            "{ event.a = link.b || instrumentation.c = 1 }",
        ),
        // Intrinsics in old and new spelling.
        ("{ span:duration > 1.5s && duration < 90m }", "{ duration > 1500ms && duration < 90m }"),
        ("{ trace:rootService = rootServiceName }", "{ rootServiceName = rootServiceName }"),
        ("{ trace:rootName = span:name }", "{ rootName = name }"),
        ("{ span:status = error && span:kind = server }", "{ status = error && kind = server }"),
        ("{ span:childCount > 10 }", "{ span:childCount > 10 }"),
        ("{ event:timeSinceStart > -5s }", "{ event:timeSinceStart > -5s }"),
        ("{ instrumentation:version =~ `1\\..*` }", r#"{ instrumentation:version =~ "1\\..*" }"#),
        ("{ nestedSetParent < 0 }", "{ nestedSetParent < 0 }"),
        // Ids are completed.
        (
            r#"{ trace:id = "1234567890ABCDE" }"#,
            r#"{ trace:id = "000000000000000001234567890abcde" }"#,
        ),
        (r#"{ "1" != span:parentID }"#, r#"{ "0000000000000001" != span:parentID }"#),
        (r#"{ span:id = "no id" }"#, r#"{ span:id = "no id" }"#),
        // Values.
        ("{ .a = 1. }", "{ .a = 1.0 }"),
        ("{ .a = .5 }", "{ .a = 0.5 }"),
        ("{ .a = 1e3 }", "{ .a = 1000.0 }"),
        ("{ .a = minInt || .a = maxInt }", "{ .a = minInt || .a = 9223372036854775807 }"),
        ("{ duration > 1h30m }", "{ duration > 90m }"),
        ("{ duration > 1d }", "{ duration > 24h }"),
        ("{ duration > 3µs }", "{ duration > 3us }"),
        (r#"{ .a = "\t\u00e9\x41" }"#, r#"{ .a = "\téA" }"#),
        // Missing values.
        ("{ .a = nil || nil != .b }", "{ .a = nil || .b != nil }"),
        ("{ nil = nil }", "{ false }"),
        // Precedence: && and || have the same level and are left-associative.
        ("{ .a || .b && .c }", "{ (.a || .b) && .c }"),
        ("{ .a && .b || .c }", "{ (.a && .b) || .c }"),
        ("{ .a && (.b && .c) && .d }", "{ .a && (.b && .c) && .d }"),
        ("{ (.a && .b) && .c }", "{ .a && .b && .c }"),
        ("{ .a + 1 * 2 ^ 3 ^ 4 > -.b }", "{ .a + 1 * 2 ^ 3 ^ 4 > -.b }"),
        ("{ (.a + 1) * 2 - (3 - 4) = 1 }", "{ (.a + 1) * 2 - (3 - 4) = 1 }"),
        ("{ -.a * 2 < 1 }", "{ -(.a * 2) < 1 }"),
        ("{ (-.a) * 2 < 1 }", "{ (-.a) * 2 < 1 }"),
        ("{ .a * -2 < 1 }", "{ .a * (-2) < 1 }"),
        ("{ - -2 < .a }", "{ 2 < .a }"),
        ("{ !.a = true }", "{ !.a = true }"),
        ("{ !(.a = 1) }", "{ !(.a = 1) }"),
        ("{ .a = 1 = true }", "{ .a = 1 = true }"),
        // Comments and line breaks.
        ("{ .a = 1 // one\n && /* and */ .b }", "{ .a = 1 && .b }"),
        // Sets of spans.
        ("{.a}&&{.b}||{.c}", "({ .a } && { .b }) || { .c }"),
        ("{}>{}", "{ } > { }"),
        ("{}>>{}<<{}", "({ } >> { }) << { }"),
        ("{}!>{}", "{ } !> { }"),
        ("{} !>> {} && {} !<< {}", "({ } !>> { }) && ({ } !<< { })"),
        ("{} &>> ({} &~ {})", "{ } &>> ({ } &~ { })"),
        ("{} ~ {}", "{ } ~ { }"),
        ("{} !~ {}", "{ } !~ { }"),
        ("({.a} | count() > 1) && {.b}", "({ .a } | count() > 1) && { .b }"),
        // Pipelines.
        (
            "{} | by(resource.service.name) | count() > 1 | coalesce() | select(.a,name)",
            "{ } | by(resource.service.name) | count() > 1 | coalesce() | select(.a, name)",
        ),
        ("count() > 10", "count() > 10"),
        ("avg(duration) > 20ms | {.a}", "avg(duration) > 20ms | { .a }"),
        ("{} | max(.a) - min(.a) > 2*3", "{ } | max(.a) - min(.a) > 6"),
        ("{} | 1 < count()", "{ } | 1 < count()"),
        ("{} | sum(1+.a) = 3.5", "{ } | sum(1 + .a) = 3.5"),
        ("{} | count() > 1 - 3", "{ } | count() > -2"),
        // Metrics.
        (
            "{}|rate()by(resource.service.name,name)",
            "{ } | rate() by (resource.service.name, name)",
        ),
        ("{} | count_over_time()", "{ } | count_over_time()"),
        (
            "{} | quantile_over_time(duration, .99, 1)",
            "{ } | quantile_over_time(duration, 0.99, 1)",
        ),
        (
            "{} | histogram_over_time(span:duration) by (.a)",
            "{ } | histogram_over_time(duration) by (.a)",
        ),
        ("{} | min_over_time(.a)", "{ } | min_over_time(.a)"),
        (
            "{} | sum_over_time(span.a) > 1s | topk(5) | bottomk(2) != 0",
            "{ } | sum_over_time(span.a) > 1s | topk(5) | bottomk(2) != 0",
        ),
        ("{} | compare({status=error})", "{ } | compare({ status = error }, 10)"),
        ("{} | compare({status=error}, 5, 1, 2)", "{ } | compare({ status = error }, 5, 1, 2)"),
        ("({status=error}|rate())/({}|rate())", "({ status = error } | rate()) / ({ } | rate())"),
        (
            "100*({}|rate())/({}|rate())>5|topk(1)",
            "(100.0 * ({ } | rate())) / ({ } | rate()) > 5 | topk(1)",
        ),
        ("({} | rate()) > 10", "{ } | rate() > 10"),
        ("({} | rate() > 6) * (1024*1024)", "({ } | rate() > 6) * 1048576.0"),
        ("({} | rate()) * -1/2", "(({ } | rate()) * -1.0) / 2.0"),
        // Hints.
        ("{} with(most_recent=true)", "{ } with(most_recent=true)"),
        (
            "{} | rate() with (sample=0.1, exemplars=10)",
            "{ } | rate() with(sample=0.1, exemplars=10)",
        ),
    ] {
        let parsed = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(parsed.to_string(), canonical, "{query}");
        let again = parse(canonical).unwrap_or_else(|error| panic!("{canonical}: {error}"));
        assert_eq!(again, parsed, "{canonical}");
    }
}

#[test]
fn errors_say_where_and_what_was_expected() {
    for (query, line, column, message) in [
        (
            "",
            1,
            1,
            "expected spans, such as `{ … }`, or a function, such as `count()`, found the end of the query",
        ),
        ("{", 1, 2, "expected a value, found the end of the query"),
        ("{ .a = }", 1, 8, "expected a value, found `}`"),
        ("{ .a == 1 }", 1, 7, "TraceQL compares by a single `=`"),
        ("{ foo = 1 }", 1, 3, "`span.foo` or `.foo`"),
        ("{ .a = 1", 1, 9, "expected an operator or `}`, found the end of the query"),
        ("{ .a = 1\n  && .b = \"x }", 2, 11, "expected `\"` at the end of this string"),
        ("{ .é = 1 && .b ! }", 1, 16, "expected an operator or `}`, found `!`"),
        ("{ (.a = 1 }", 1, 11, "expected `)`, found `}`"),
        ("{ . }", 1, 4, "expected the name of an attribute"),
        ("{ span:foo = 1 }", 1, 8, "expected one of `duration`, `name`, `status`"),
        (
            "{ trace:name = \"a\" }",
            1,
            9,
            "expected one of `duration`, `rootName`, `rootService`, `id`",
        ),
        ("{ .a = \"x\\d\" }", 1, 10, "no such escape"),
        ("{ .a = 1x }", 1, 9, "units are ns, us, ms"),
        ("{ .a = 0x10 }", 1, 9, "neither part of a number"),
        ("{ .a = 9223372036854775808 }", 1, 8, "does not fit 64 bits"),
        ("{ .a = # }", 1, 8, "`#` has no meaning here"),
        ("{ .a = 1 } /* x", 1, 12, "expected `*/`"),
        // Types.
        ("{ 1 }", 1, 3, "expected a condition, such as a comparison, found a number"),
        ("{ name }", 1, 3, "found a string"),
        ("{ 1 + \"foo\" = 1 }", 1, 5, "expected numbers, found a string"),
        ("{ duration > \"1s\" }", 1, 12, "a number cannot be compared with a string"),
        ("{ status > ok }", 1, 10, "a status can only be compared by `=` and `!=`"),
        ("{ .a && 1 }", 1, 6, "expected conditions on both sides, found a number"),
        ("{ -true }", 1, 3, "expected a number, found a boolean"),
        ("{ !name = \"foo\" }", 1, 3, "expected a boolean, found a string"),
        ("{ nil }", 1, 3, "`nil` can only be compared"),
        ("{ .a > nil }", 1, 8, "`nil` can only be compared"),
        ("{ name = nil }", 1, 8, "`name` is never missing"),
        ("{ nil = resource.service.name }", 1, 7, "is never missing"),
        ("{ .a =~ 5 }", 1, 9, "expected a regular expression in quotes"),
        ("{ .a =~ \"[\" }", 1, 9, "not a regular expression"),
        ("{ duration =~ \"1\" }", 1, 12, "expected a string before it, found a number"),
        ("{ parent = 1 }", 1, 3, "an attribute of the parent, such as `parent.x`"),
        // Pipelines.
        ("{} | count()", 1, 6, "expected a comparison with a number, such as `count() > 0`"),
        ("{} | max(1) > 2", 1, 10, "expected something of the span"),
        ("{} | max(name) > 2", 1, 10, "expected a number, found a string"),
        ("{} | by(1)", 1, 9, "expected something of the span"),
        ("coalesce() | {}", 1, 1, "cannot be the first stage"),
        ("{} | foo()", 1, 6, "expected a function: count, avg"),
        ("{} + {}", 1, 4, "expected numbers on both sides, found spans"),
        ("{} = {}", 1, 4, "spans and spans cannot be compared"),
        ("{} && count() > 1", 1, 4, "spans and a pipeline cannot be joined"),
        ("3 = 2", 1, 3, "expected something of the spans on one side"),
        ("({} | by(name)) > {}", 1, 17, "end what is grouped with `coalesce()`"),
        ("{} {}", 1, 4, "expected an operator, `|`, `with` or the end"),
        ("select()", 1, 8, "expected an attribute"),
        ("{} | (count() > 1", 1, 18, "expected an operator, `|` or `)`"),
        // Metrics.
        ("rate()", 1, 1, "expected spans before it, such as `{} | rate()`"),
        ("{} | topk(1)", 1, 6, "expected series before it"),
        ("{} | rate() | topk(0)", 1, 20, "a number of series of at least 1"),
        ("{} | rate() | {}", 1, 15, "expected `topk(n)` or `bottomk(n)`"),
        ("{} | rate() + 5", 1, 13, "put brackets around series"),
        ("({} | rate()) % 5", 1, 15, "only be computed with by `+`, `-`, `*` and `/`"),
        ("({} | rate()) * 10s", 1, 15, "write seconds"),
        ("({} | rate()) > 10s * 2", 1, 21, "durations cannot be computed with here"),
        ("({} | rate()) + 5 100", 1, 19, "expected `|`, a comparison, `with` or the end"),
        ("{} | quantile_over_time(duration, 1.5)", 1, 35, "a quantile from 0 to 1"),
        ("{} | quantile_over_time(name, .5)", 1, 25, "expected a number, found a string"),
        ("{} | compare({}, 0)", 1, 18, "from 1 to 1000"),
        ("{} | compare({}, 1, 2, 1)", 1, 24, "expected an end after a start"),
        ("{} | compare({}) | topk(1)", 1, 20, "cannot be filtered or computed with"),
        ("({} | rate()) / 2 / (1/0)", 1, 23, "division by zero"),
        ("{} with(", 1, 9, "expected the name of a hint"),
        ("{} with(a=)", 1, 11, "expected a value"),
    ] {
        let error = parse(query).expect_err(query);
        assert_eq!((error.line, error.column), (line, column), "{query}: {error}");
        assert!(error.message.contains(message), "{query}: {error}");
    }
}

/// The size of the needs must not double with every stage.
#[test]
fn needs_stay_small() {
    let stage = " | { .a = 1 } || { .b = 1 }";
    let query = parse(&format!("{{}}{}", stage.repeat(90))).expect("a query");
    assert!(format!("{:?}", query.needs()).len() < 200_000);
}

#[test]
fn fields_in_their_order() {
    let query = "{ .b = span.a && !(name =~ `x`) } >> { .b != nil } | by(1 + .c) | \
        max(duration) > 1 | select(.d, name)";
    let query = parse(query).expect("a query");
    let Body::Search(pipeline) = &query.body else { panic!("a search") };
    let fields: Vec<String> = pipeline.fields().iter().map(ToString::to_string).collect();
    assert_eq!(fields, [".b", "span.a", "name", ".c", "duration", ".d"]);
}

#[test]
fn bounds() {
    let refused = |query: String, message: &str| {
        let error = parse(&query).expect_err(message);
        assert!(error.message.contains(message), "{error}");
    };
    refused("a".repeat(1 << 20), "a query of 1048576 bytes");
    refused(format!("{{ .a = \"{}\" }}", "x".repeat(MAX_QUERY_BYTES)), "bytes; at most 131072");
    for (start, repeated) in
        [("", "("), ("{ ", "("), ("", "-"), ("{ ", "-"), ("{ ", "!"), ("{ ", "2 ^ ")]
    {
        refused(start.to_owned() + &repeated.repeat(10_000), "nested more than 128 deep");
    }
    refused(format!("{{ .a{} > 1 }}", " + 1".repeat(10_000)), "nested more than 128 deep");
    refused(format!("{{}}{}", " >> {}".repeat(10_000)), "nested more than 128 deep");
    refused(
        format!("{{ {} }}", vec![".a =~ \"x.\""; MAX_PATTERNS + 1].join(" || ")),
        "more than 100 regular expressions",
    );
    refused("{}".to_owned() + &" | {}".repeat(10_000), "a pipeline of more than 100 stages");
    let some = format!("({})", vec!["({} | rate())"; 51].join(" + "));
    refused(some, "more than 50 functions of metrics");
    refused("{ .a =~ \"(((x{100}){100}){100}){100}\" }".to_owned(), "bytes when compiled");

    // A long query that is not deep is accepted.
    let chain = format!("{{ {} }}", vec![".a = 1"; 10_000].join(" || "));
    assert!(parse(&chain).is_ok());
    let nested = format!("{{ {}.a{} }}", "(".repeat(MAX_DEPTH - 1), ")".repeat(MAX_DEPTH - 1));
    assert!(parse(&nested).is_ok());
    assert!(parse(&format!("{{}}{}", " | {}".repeat(99))).is_ok());
}
