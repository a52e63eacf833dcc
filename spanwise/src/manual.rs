//! What is generated from the flags: completions for shells, and manual pages.

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

/// Writes a page for each command into this folder, or prints the first.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return print(&String::from_utf8_lossy(&page(Flags::command())?));
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::cannot(format_args!("cannot create {}: {error}", folder.display()))
    })?;
    for (name, page) in all_pages()? {
        let file = folder.join(format!("{name}.1"));
        std::fs::write(&file, page).map_err(|error| {
            Failure::cannot(format_args!("cannot write {}: {error}", file.display()))
        })?;
        print(&format!("{}\n", file.display()))?;
    }
    Ok(())
}

/// The pages of all commands, by name.
fn all_pages() -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut program = Flags::command();
    program.build();
    let mut pages = Vec::new();
    let mut commands = vec![program];
    while let Some(command) = commands.pop() {
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        commands.extend(command.get_subcommands().cloned());
        // `spanwise java attach` has the page spanwise-java-attach.
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        pages.push((name.clone(), page(command.name(name))?));
    }
    pages.sort();
    Ok(pages)
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
        let pages = all_pages().expect("pages");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["spanwise", "spanwise-up", "spanwise-search", "spanwise-java-attach"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let (_, search) = pages.iter().find(|(name, _)| name == "spanwise-search").expect("it");
        let search = String::from_utf8_lossy(search);
        assert!(search.contains(".TH") && search.contains("min\\-duration"), "{search}");
    }
}
