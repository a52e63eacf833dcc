mod support;
#[test]
fn rusty() {
    let plugin = spanwise_capture_ebpf::plugins::Plugin::load(std::path::Path::new("/tmp/h/a-rust/rusty.wasm")).unwrap();
    let talk = support::Talk::new().ask(b"!one\n").answer(b"!two\n");
    let found = support::spans(&mut support::plugins::tracer_with(&[plugin.clone()]), &talk.events);
    println!("{}", support::render(&found));
    // Speed of the example.
    let file = support::plugins::built(&support::plugins::example().join("stash.c"), &[]);
    let stash = support::plugins::loaded(&file);
    let mut talk = support::Talk::new();
    let m = |k: u8, n: u32, b: &[u8]| [&[b'S', b'T', 1, k][..], &n.to_be_bytes(), &(b.len() as u32).to_be_bytes(), b].concat();
    for n in 0..50_000 {
        talk = talk.ask(&m(1, n, b"\x03get\x06apples\0")).answer(&m(2, n, b"\0\0\0"));
    }
    let mut tracer = support::plugins::tracer_with(&[stash]);
    let began = std::time::Instant::now();
    let mut spans = Vec::new();
    for event in &talk.events { tracer.event(&event.event()); if tracer.finished() > 4000 { tracer.drain(&mut spans).unwrap(); } }
    println!("{:?} for {} events, {:?}", began.elapsed(), talk.events.len(), tracer.counters().iter().filter(|c| c.1 > 0).collect::<Vec<_>>());
}
