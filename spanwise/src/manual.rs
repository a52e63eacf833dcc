//! Completions for shells and manual pages, generated from the flags.

use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::failure::Failure;
use crate::flags::Flags;
use crate::terminal::print;

/// Prints the script that completes commands and flags in this shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Flags::command(), "spanwise", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a page for each command to this folder, or prints the main page.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return print(&String::from_utf8_lossy(&page(Flags::command())?));
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::cannot(format_args!("cannot create {}: {error}", folder.display()))
    })?;
    clap_mangen::generate_to(Flags::command(), folder).map_err(|error| {
        Failure::cannot(format_args!("cannot write pages into {}: {error}", folder.display()))
    })?;
    print(&format!("wrote the pages of all commands into {}\n", folder.display()))
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(Failure::cannot)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        pages(Some(folder.path())).expect("pages");
        for name in ["spanwise", "spanwise-up", "spanwise-search", "spanwise-java-attach"] {
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1")));
            let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(page.contains(".TH"), "{page}");
        }
        let first = String::from_utf8(page(Flags::command()).expect("a page")).expect("text");
        assert!(first.contains("spanwise\\-tail"), "{first}");
    }
}
