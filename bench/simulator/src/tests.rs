use super::*;

/// A small version of the whole comparison.
#[test]
fn the_analysis_tells_the_truth_about_known_call_graphs() {
    for (topology, runs) in [(Topology::thesis(11, 7), 12_000), (Topology::layers(60, 7), 2_500)] {
        let found = find(&topology, 7, runs, topology.services == 11, 1_500).expect("is analysed");
        let name = &topology.name;
        assert!(
            found.exact.compared > 60 && found.exact.error < 0.002,
            "{name}: {:?}",
            found.exact
        );
        assert!(
            found.capacity.compared > 3 && found.capacity.error < 0.1,
            "{name}: {:?}",
            found.capacity
        );
        let verdicts = &found.verdicts;
        assert!(verdicts.edges >= 4 && verdicts.right == verdicts.edges, "{name}: {verdicts:?}");
    }
}

#[test]
fn one_seed_is_one_traffic() {
    let topology = Topology::layers(40, 3);
    let chains = |seed: u64| {
        let load = Load {
            topology: &topology,
            seed,
            runs: 300,
            factor: &|_| 1.0,
            keeps_shapes: false,
            keeps_truth: true,
        };
        load.observe().expect("is analysed").figures.to_bytes()
    };
    assert!(chains(1) == chains(1));
    assert!(chains(1) != chains(2));
}
