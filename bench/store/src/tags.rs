//! The cost of labels on every span: none, a hundred on the process, and a hundred on each span,
//! each with a new server.

use std::path::Path;

use spanwise_bench_load::{Load, LoadConfig, Tags};

use crate::server::Server;
use crate::{Flags, StorageCost, feed};

/// Number of labels on a span, as in DeepFlow's paper (SIGCOMM'23, section 5.3).
const COUNT: usize = 100;

/// Prints costs and their ratios.
pub(crate) fn measure(flags: &Flags, load: LoadConfig, directory: &Path) -> anyhow::Result<()> {
    let settings = [
        ("none", Tags::None),
        ("of processes", Tags::OfResource(COUNT)),
        ("of spans", Tags::OfSpans(COUNT)),
    ];
    println!("{:<16}{:>14}{:>10}{:>12}", "labels", "CPU s/million", "MB", "bytes/span");
    let mut all: Vec<StorageCost> = Vec::new();
    for (number, (name, tags)) in settings.into_iter().enumerate() {
        let data = directory.join(number.to_string());
        std::fs::create_dir(&data)?;
        let mut server = Server::start(&flags.spanwise, &data)?;
        let mut load = Load::new(LoadConfig { tags, ..load.clone() })?;
        let taken = feed(&mut server, &mut load, flags, flags.spans)?;
        server.stop()?;
        std::fs::remove_dir_all(&data)?;
        let spans = taken.spans as f64;
        println!(
            "{name:<16}{:>14.2}{:>10.0}{:>12.1}",
            taken.cpu_seconds / spans * 1e6,
            taken.peak_rss_mb,
            taken.disk_bytes as f64 / spans
        );
        all.push(taken);
    }
    println!();
    for (name, taken) in [("tags", &all[1]), ("tags.on_spans", &all[2])] {
        let none = &all[0];
        println!("figure {name}.cpu_ratio {:.2} 1", taken.cpu_seconds / none.cpu_seconds);
        println!("figure {name}.memory_ratio {:.2} 1", taken.peak_rss_mb / none.peak_rss_mb);
        let disk = taken.disk_bytes as f64 / none.disk_bytes as f64;
        println!("figure {name}.disk_ratio {disk:.2} 1");
    }
    Ok(())
}
