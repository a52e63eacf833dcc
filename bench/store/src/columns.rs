//! The size of each column in the Parquet files.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

#[derive(Default)]
struct Column {
    packed_bytes: i64,
    unpacked_bytes: i64,
    bloom_bytes: i64,
    encodings: String,
}

/// Prints bytes for each span of each column, largest first.
pub(crate) fn print(directory: &Path, spans: u64) -> anyhow::Result<()> {
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    let (mut files, mut groups, mut bytes) = (0, 0, 0);
    for path in parquet_files(directory)? {
        let context = || format!("cannot read {}", path.display());
        let file = File::open(&path).with_context(context)?;
        bytes += file.metadata().with_context(context)?.len();
        let reader = SerializedFileReader::new(file).with_context(context)?;
        let of_shapes = path.parent().is_some_and(|parent| parent.ends_with("shapes"));
        let of = if of_shapes { "shapes: " } else { "" };
        files += 1;
        for group in reader.metadata().row_groups() {
            groups += 1;
            for chunk in group.columns() {
                let name = format!("{of}{}", chunk.column_path().string());
                let column = columns.entry(name).or_default();
                column.packed_bytes += chunk.compressed_size();
                column.unpacked_bytes += chunk.uncompressed_size();
                column.bloom_bytes += i64::from(chunk.bloom_filter_length().unwrap_or(0));
                let mut encodings: Vec<_> =
                    chunk.encodings().map(|encoding| encoding.to_string()).collect();
                encodings.sort();
                encodings.dedup();
                column.encodings = format!("{} {}", encodings.join("+"), chunk.compression());
            }
        }
    }
    let per_span = |bytes: i64| bytes as f64 / spans as f64;
    println!(
        "\n{files} files, {groups} row groups\n{:<44}{:>8}{:>10}{:>8}  encodings",
        "bytes a span, by column", "packed", "unpacked", "bloom"
    );
    let mut sorted: Vec<(&String, &Column)> = columns.iter().collect();
    sorted.sort_by_key(|(_, column)| -(column.packed_bytes + column.bloom_bytes));
    let mut listed = 0;
    for (name, column) in sorted {
        listed += column.packed_bytes + column.bloom_bytes;
        println!(
            "{name:<44}{:>8.2}{:>10.2}{:>8.2}  {}",
            per_span(column.packed_bytes),
            per_span(column.unpacked_bytes),
            per_span(column.bloom_bytes),
            column.encodings,
        );
    }
    let rest = i64::try_from(bytes)? - listed;
    println!("{:<44}{:>8.2}", "footers and page indexes", per_span(rest));
    Ok(())
}

fn parquet_files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let context = || format!("cannot read {}", directory.display());
    for entry in std::fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        if path.is_dir() {
            found.extend(parquet_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(path);
        }
    }
    Ok(found)
}
