//! Checks the table of allowed imports in ARCHITECTURE.md: every crate has a row, and imports from
//! the workspace only what the row names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The directory of each crate, relative to the repository, and those of the crates that it
/// imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

const HEADER: [&str; 2] = ["crate", "may import"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(folder: &Path) -> Table {
    let path = folder.join("Cargo.toml");
    read(&path).parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the table with [`HEADER`].
fn documented(architecture: &str) -> Imports {
    let cells = |line: &str| -> Option<[String; 2]> {
        let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        let cells: Vec<String> =
            inner.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect();
        cells.try_into().ok()
    };
    architecture
        .lines()
        .skip_while(|line| cells(line).is_none_or(|cells| cells != HEADER))
        .skip(2)
        .map_while(cells)
        .map(|[folder, imports]| {
            let imports = imports.split(',').map(|import| import.trim().to_owned());
            (folder, imports.filter(|import| !import.is_empty()).collect())
        })
        .collect()
}

/// The imports according to the manifests of the workspace's members. Imports of tests do not
/// count, because they are in no program.
fn declared() -> Imports {
    let root = repository();
    let workspace = manifest(&root);
    let members = workspace["workspace"]["members"].as_array().expect("a list of members");
    let folders: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
    let manifests: Vec<(&str, Table)> =
        folders.iter().map(|folder| (*folder, manifest(&root.join(folder)))).collect();
    let folder_of: BTreeMap<&str, &str> = manifests
        .iter()
        .map(|(folder, manifest)| (manifest["package"]["name"].as_str().expect("a name"), *folder))
        .collect();
    manifests
        .iter()
        .map(|(folder, manifest)| {
            let imports = dependency_tables(manifest)
                .into_iter()
                .flat_map(Table::keys)
                .filter_map(|name| folder_of.get(name.as_str()))
                .map(|folder| (*folder).to_owned())
                .collect();
            ((*folder).to_owned(), imports)
        })
        .collect()
}

/// `[dependencies]` and `[build-dependencies]`, including those for particular targets.
fn dependency_tables(manifest: &Table) -> Vec<&Table> {
    let targets = manifest.get("target").and_then(Value::as_table);
    std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table))
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|name| table.get(name)))
        .flatten()
        .filter_map(Value::as_table)
        .collect()
}

/// A message for each violation.
fn breaches(documented: &Imports, declared: &Imports) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, imports) in declared {
        let Some(allowed) = documented.get(folder) else {
            found.push(format!("{folder} has no row in ARCHITECTURE.md's table of imports"));
            continue;
        };
        found.extend(imports.difference(allowed).map(|import| {
            format!("{folder} imports {import}, which ARCHITECTURE.md does not allow")
        }));
    }
    let gone = documented.keys().filter(|folder| !declared.contains_key(*folder));
    found.extend(gone.map(|folder| format!("{folder} is in ARCHITECTURE.md, and is no crate")));
    found
}

#[test]
fn crates_import_what_the_architecture_allows_and_nothing_else() {
    let documented = documented(&read(&repository().join("ARCHITECTURE.md")));
    assert!(!documented.is_empty(), "ARCHITECTURE.md has no table with the header {HEADER:?}");
    let found = breaches(&documented, &declared());
    assert!(found.is_empty(), "\n  {}\n", found.join("\n  "));
}

#[test]
fn every_folder_with_a_manifest_is_a_member() {
    let root = repository();
    let members = declared();
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    for folder in below(&root).into_iter().filter(|path| !path.ends_with("target")) {
        for crate_folder in below(&folder).into_iter().chain([folder]) {
            let name = crate_folder.strip_prefix(&root).expect("below the root").to_string_lossy();
            let manifest = crate_folder.join("Cargo.toml");
            // A separate workspace has its own build command.
            if manifest.exists() && !read(&manifest).contains("\n[workspace]") {
                assert!(members.contains_key(&*name), "{name} is in no one's build");
            }
        }
    }
}

#[test]
fn each_kind_of_breach_is_told() {
    let row = |folder: &str, imports: &[&str]| {
        (folder.to_owned(), imports.iter().map(|import| (*import).to_owned()).collect())
    };
    let text = "x\n| crate | may import |\n| --- | --- |\n| a | |\n| `b` | a, c |\n| d | a |\n\ny";
    let documented = documented(text);
    assert_eq!(documented, Imports::from([row("a", &[]), row("b", &["a", "c"]), row("d", &["a"])]));
    let declared = Imports::from([row("a", &["b"]), row("b", &["a"]), row("e", &[])]);
    assert_eq!(
        breaches(&documented, &declared),
        [
            "a imports b, which ARCHITECTURE.md does not allow",
            "e has no row in ARCHITECTURE.md's table of imports",
            "d is in ARCHITECTURE.md, and is no crate",
        ]
    );
}
