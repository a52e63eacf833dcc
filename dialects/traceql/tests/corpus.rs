//! Checks which queries are accepted, by `grammar/corpus.txt`. `grammar/grammar.mjs` checks the
//! same file with an independent grammar.

use spanwise_traceql::parse;

#[test]
fn accepted_and_refused_as_marked() {
    let mut counted = 0;
    for (index, line) in include_str!("grammar/corpus.txt").lines().enumerate() {
        let Some((mark, query)) = line.split_at_checked(2).filter(|_| !line.starts_with('#'))
        else {
            continue;
        };
        let expected = match mark {
            "= " | "+ " => true,
            "! " | "- " => false,
            other => panic!("corpus.txt:{}: no such mark: {other}", index + 1),
        };
        let parsed = parse(query);
        assert_eq!(parsed.is_ok(), expected, "corpus.txt:{}: {query}: {parsed:?}", index + 1);
        counted += 1;
    }
    assert!(counted > 400, "{counted} queries");
}
