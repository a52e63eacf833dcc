use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The names that a sequence gives, as they come, and those that the same sequence gives again.
fn names(style: Style, sequence: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut tree = Tree::new(style);
    let mut name = |text: &String| {
        tree.learn(text, 1, usize::MAX);
        tree.name(text)
    };
    let first = sequence.iter().map(&mut name).collect();
    (first, sequence.iter().map(&mut name).collect())
}

fn random_letters(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    (0..12).map(letter).collect()
}

const WORDS: [&str; 20] = [
    "api", "core", "docs", "web", "store", "serve", "model", "agent", "kernel", "proxy", "cache",
    "queue", "mailer", "search", "index", "parser", "render", "router", "schema", "client",
];

/// The paths of a program with twelve routes, 200 times each.
fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for number in 0..200_u64 {
        let word = |salt: u64| WORDS[(number.wrapping_mul(salt) / 7 % 20) as usize];
        paths.extend([
            "/users/{id}".to_owned(),
            "/users/me".to_owned(),
            "/files/{id}/raw".to_owned(),
            format!("/gh/{}-{}/{}{number}/issues", word(7919), word(104_729), word(31)),
            "/search".to_owned(),
            format!("/img/avatar-{number}.png"),
            format!("/tenants/acme{number}/invoices/{{id}}"),
            format!("/slug/how-to-trace-everything-part-{number}"),
            format!("/t/{}", random_letters(number)),
            "/api/hello.world".to_owned(),
            "/api/v1/status".to_owned(),
            "/healthz".to_owned(),
        ]);
    }
    paths
}

#[test]
fn paths_of_real_applications_have_some_dozen_names() {
    let (first, again) = names(Style::Path, &paths());
    assert!(first.len() <= 72, "{} names: {first:#?}", first.len());
    let expected = [
        "/api/hello.world",
        "/api/v1/status",
        "/files/{id}/raw",
        "/gh/{id}/{id}/issues",
        "/healthz",
        "/img/{id}",
        "/search",
        "/slug/{id}",
        "/t/{id}",
        "/tenants/{id}/invoices/{id}",
        "/users/me",
        "/users/{id}",
    ];
    assert_eq!(again, expected.map(str::to_owned).into());
}

#[test]
fn frequent_literals_stay_beside_values_whichever_comes_first() {
    let values = (0..300).map(|number| format!("/users/{}", random_letters(number)));
    let mut mixed: Vec<String> = values.clone().collect();
    for at in (0..300).step_by(3) {
        mixed.insert(at, "/users/me".to_owned());
    }
    let late = values.clone().chain(std::iter::repeat_n("/users/me".to_owned(), 100));
    let early = std::iter::repeat_n("/users/me".to_owned(), 100).chain(values);
    for sequence in [mixed, late.collect(), early.collect()] {
        let (_, again) = names(Style::Path, &sequence);
        assert_eq!(again, ["/users/me", "/users/{id}"].map(str::to_owned).into());
    }
}

#[test]
fn routes_that_are_used_stay_apart() {
    let route = |number: usize| format!("/api/{}{}", WORDS[number % 20], WORDS[number / 20 % 20]);
    // Some dozen, one after the other.
    let sequence: Vec<String> = (0..4000).map(|at| route(at % 24)).collect();
    assert_eq!(names(Style::Path, &sequence).0.len(), 24);
    // A hundred, of which some are used more than others from the beginning on.
    let sequence: Vec<String> =
        (0..9000).map(|at| route((at * at + at / 7) % (1 + at % 100))).collect();
    let (first, again) = names(Style::Path, &sequence);
    assert!((60..=128).contains(&again.len()), "{} {}", first.len(), again.len());
}

#[test]
fn values_that_come_in_runs_are_values() {
    let sequence: Vec<String> = (0..400)
        .flat_map(|number| {
            let tenant = format!("{}{}", WORDS[number % 20], WORDS[number / 20]);
            std::iter::repeat_n(format!("/tenants/{tenant}/invoices"), 10)
        })
        .collect();
    let (first, again) = names(Style::Path, &sequence);
    assert!(first.len() <= 40 && again.len() <= 10, "{} {}", first.len(), again.len());
}

#[test]
fn tables_and_topics_keep_what_is_not_a_number() {
    let dated = |style, prefix: &str| {
        let day = |day| format!("{prefix}_2026_11_{day:02}");
        names(style, &(1..30).map(day).collect::<Vec<_>>()).1
    };
    assert_eq!(dated(Style::Table, "events"), ["events_{id}".to_owned()].into());
    assert_eq!(dated(Style::Destination, "a.logs"), ["a.logs_{id}".to_owned()].into());
    // Tables have the names that people gave them, however many there are.
    let tables: Vec<String> =
        (0..400).map(|at| format!("{}{}", WORDS[at % 20], WORDS[at / 20])).collect();
    assert_eq!(names(Style::Table, &tables).1.len(), 400);
    assert_eq!(names(Style::Destination, &tables).1.len(), 400);
    let below: Vec<String> = tables.iter().map(|table| format!("orders.{table}.new")).collect();
    assert_eq!(names(Style::Destination, &below).1, ["orders.{id}.new".to_owned()].into());
}

#[test]
fn memory_and_names_are_bounded() {
    let mut tree = Tree::new(Style::Path);
    let mut found = BTreeSet::new();
    for number in 0..30_000_usize {
        // Every position holds words that are used often.
        let parts = (0..6).map(|depth| WORDS[(number / 20_usize.pow(depth) + number) % 20]);
        let path = format!("/{}", parts.collect::<Vec<_>>().join("/"));
        tree.learn(&path, 3, usize::MAX);
        found.insert(tree.name(&path));
    }
    assert!(tree.len() <= MAX_NODES);
    assert!(found.len() <= 2 * MAX_NODES, "{}", found.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In any order, there are few names, and in the end those of the routes.
    #[test]
    fn any_order_ends_in_few_names(paths in Just(paths()).prop_shuffle()) {
        let (first, again) = names(Style::Path, &paths);
        prop_assert!(first.len() <= 80, "{} names", first.len());
        prop_assert!(again.len() <= 14, "{again:?}");
        for literal in ["/users/me", "/users/{id}", "/healthz", "/api/v1/status"] {
            prop_assert!(again.contains(literal), "{literal} is not among {again:?}");
        }
    }

    /// Any names give names, and a name that was chosen for a value stays.
    #[test]
    fn any_names_are_taken(names in prop::collection::vec("[a-c/.0-9]{0,12}|.{0,8}", 0..400)) {
        for style in [Style::Path, Style::Destination, Style::Table] {
            let mut tree = Tree::new(style);
            for name in &names {
                tree.learn(name, 1, usize::MAX);
                prop_assert!(!tree.name(name).is_empty() || name.is_empty());
                prop_assert!(tree.len() <= MAX_NODES);
            }
        }
    }
}
