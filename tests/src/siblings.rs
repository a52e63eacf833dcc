//! Imports within a crate also go one way: of two modules in one folder, at most one imports the
//! other. Both may use their parent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates to which this applies.
const CRATES: [&str; 6] = [
    "capture/protocols",
    "capture/attribution",
    "capture/tracer",
    "capture/host",
    "capture/ebpf",
    "capture/agent",
];

/// Exceptions: modules that import each other, with the reason.
const EXCEPTIONS: &[([&str; 3], &str)] = &[];

type Module = Vec<String>;

/// The modules of a crate, each with its source without tests.
type Sources = BTreeMap<Module, String>;

fn module(path: &str) -> Module {
    path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The part of a file before its tests.
fn without_tests(source: &str) -> String {
    source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

fn sources(folder: &Path) -> Sources {
    fn walk(folder: &Path, at: &Module, into: &mut Sources) {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|error| {
            panic!("{}: {error}", folder.display());
        });
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let mut below = at.clone();
            if path.is_dir() {
                below.push(name);
                walk(&path, &below, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests"
            {
                if name != "mod" && name != "lib" {
                    below.push(name);
                }
                let source = std::fs::read_to_string(&path).expect("a source");
                into.insert(below, without_tests(&source));
            }
        }
    }
    let mut found = Sources::new();
    walk(folder, &Module::new(), &mut found);
    found
}

/// The paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or(tree);
        return vec![name.trim().to_owned()];
    };
    let list = list.trim().strip_suffix('}').unwrap_or(list);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for character in list.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("never empty").push(character);
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| paths(part)).map(|part| format!("{prefix}{part}")).collect()
}

/// Each `use`: whether it is a re-export, and its tree.
fn uses(source: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let code: Vec<&str> =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    for statement in code.join("\n").split(';') {
        let Some(line) = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].lines().next_back().unwrap_or_default().trim();
            before.is_empty() || before.starts_with("pub")
        }) else {
            continue;
        };
        let handed_on = statement[..line].trim_end().ends_with("pub")
            || statement[..line].trim_end().ends_with(')');
        found.push((handed_on, statement[line + 4..].replace('\n', " ")));
    }
    found
}

/// Paths within the code.
fn inline(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| {
        ["crate::", "super::"].into_iter().flat_map(|start| {
            line.match_indices(start).map(|(at, _)| {
                let end = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
                line[at..].split(end).next().unwrap_or_default().trim_end_matches(':').to_owned()
            })
        })
    })
    .collect()
}

/// A path from the crate's root; nothing if it leads out of the crate.
fn absolute(path: &str, from: &Module, sources: &Sources) -> Option<Module> {
    let mut names = module(path);
    let mut at = match names.first()?.as_str() {
        "crate" => Module::new(),
        "self" | "super" => from.clone(),
        child => {
            let mut below = from.clone();
            below.push(child.to_owned());
            sources.contains_key(&below).then(|| from.clone())?
        }
    };
    while let Some("crate" | "self" | "super") = names.first().map(String::as_str) {
        if names.remove(0) == "super" {
            at.pop();
        }
    }
    at.extend(names);
    Some(at)
}

/// The module that defines what a path names, through re-exports.
fn home(path: Module, sources: &Sources, hops: u8) -> Module {
    let mut depth = path.len();
    while depth > 0 && !sources.contains_key(&path[..depth]) {
        depth -= 1;
    }
    let at = path[..depth].to_vec();
    let Some(name) = path.get(depth).filter(|_| hops > 0) else { return at };
    for (handed_on, tree) in uses(&sources[&at]) {
        for used in paths(&tree).iter().filter(|_| handed_on) {
            if used.rsplit("::").next() == Some(name)
                && let Some(next) = absolute(used, &at, sources)
                && next != path
            {
                return home(next, sources, hops - 1);
            }
        }
    }
    at
}

/// Which module of a folder imports which of the same folder, and the importing modules.
fn between_siblings(sources: &Sources) -> BTreeMap<(Module, Module), BTreeSet<Module>> {
    let mut found: BTreeMap<_, BTreeSet<Module>> = BTreeMap::new();
    for (from, source) in sources {
        let used = uses(source).into_iter().flat_map(|(_, tree)| paths(&tree));
        for path in used.chain(inline(source)) {
            let Some(path) = absolute(&path, from, sources) else { continue };
            let to = home(path, sources, 8);
            let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if from.len() > shared && to.len() > shared {
                let pair = (from[..=shared].to_vec(), to[..=shared].to_vec());
                found.entry(pair).or_default().insert(from.clone());
            }
        }
    }
    found
}

/// A message for each pair.
fn mutual(folder: &str, sources: &Sources) -> Vec<String> {
    let imports = between_siblings(sources);
    let mut found = Vec::new();
    for ((one, other), by) in &imports {
        let back = imports.get(&(other.clone(), one.clone()));
        let Some(back) = back.filter(|_| one < other) else { continue };
        let names = [folder, &one.join("::"), &other.join("::")];
        if !EXCEPTIONS.iter().any(|(exception, _)| *exception == names) {
            let list = |by: &BTreeSet<Module>| {
                by.iter().map(|by| by.join("::")).collect::<Vec<_>>().join(", ")
            };
            found.push(format!(
                "{folder}: {} and {} import each other, in {} and {}",
                names[1],
                names[2],
                list(by),
                list(back)
            ));
        }
    }
    found
}

#[test]
fn no_two_siblings_import_each_other() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for folder in CRATES {
        let sources = sources(&root.join(folder).join("src"));
        assert!(!sources.is_empty(), "{folder} has no sources");
        found.extend(mutual(folder, &sources));
    }
    assert!(found.is_empty(), "\n  {}\n", found.join("\n  "));
}

#[test]
fn every_exception_is_needed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for ([folder, one, other], reason) in EXCEPTIONS {
        let imports = between_siblings(&sources(&root.join(folder).join("src")));
        let (one, other) = (module(one), module(other));
        let both = imports.contains_key(&(one.clone(), other.clone()))
            && imports.contains_key(&(other.clone(), one.clone()));
        assert!(both, "{folder}: {one:?} and {other:?} are no exception any more ({reason})");
    }
}

#[test]
fn imports_are_found_in_all_their_forms() {
    let sources: Sources = [
        ("", "mod a;\npub use a::deep::Deep;\npub struct Top;"),
        ("a", "pub mod deep;\nuse super::{\n    b::B,\n    Top,\n};"),
        ("a::deep", "pub struct Deep;\n// use crate::c::C;\nfn f(c: crate::c::C) {}"),
        ("b", "use crate::Deep;\npub struct B;"),
        ("c", "use std::fmt;\npub(crate) use crate::Top;\npub struct C;"),
    ]
    .map(|(path, source)| (module(path), source.to_owned()))
    .into();
    assert_eq!(
        mutual("x", &sources),
        ["x: a and b import each other, in a and b"],
        "{:?}",
        between_siblings(&sources)
    );
    let found: Vec<_> = between_siblings(&sources).into_keys().collect();
    let pair = |one: &str, other: &str| (module(one), module(other));
    assert_eq!(found, [pair("a", "b"), pair("a", "c"), pair("b", "a")]);
}
