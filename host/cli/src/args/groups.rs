//! The list of commands in `fumehood --help`, in groups.

use std::fmt::Write as _;

use clap::Command;
use fumehood_platform::terminal;

use crate::render::quotation::wrap;

/// The groups, with the names of their commands.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Use tools",
        &[
            "demo",
            "call",
            "run",
            "chat",
            "mcp",
            "inspect",
            "search",
            "add",
            "remove",
            "trust",
            "approve",
            "update",
            "sessions",
            "approve-call",
        ],
    ),
    ("Write tools", &["new", "dev", "build", "test", "embed-docs"]),
    ("Publish tools", &["key", "publish", "index"]),
    ("Serve tools", &["serve", "token", "top", "worker", "cell", "bench"]),
    ("Operate", &["config", "log", "audit", "store", "selftest", "jail", "completions", "man", "help"]),
];

/// Width of the names with the spaces around them.
const NAME_CELLS: usize = 16;
/// Width of the help where that of the screen is not known, and its maximum elsewhere.
const MAX_WIDTH_CELLS: usize = 100;
/// Minimum width of a description.
const MIN_TEXT_CELLS: usize = 20;

/// Lists the subcommands in groups in the help of this command.
pub(super) fn group_commands(command: Command) -> Command {
    let width = terminal::stdout_columns().unwrap_or(MAX_WIDTH_CELLS).min(MAX_WIDTH_CELLS);
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        // Writing to a string does not fail.
        let _ = writeln!(template, "\n{header}{title}:{header:#}");
        for (name, about) in names.iter().filter_map(|name| Some((name, about(&command, name)?))) {
            let rows = wrap(&about, width.saturating_sub(NAME_CELLS).max(MIN_TEXT_CELLS));
            let gap = " ".repeat(NAME_CELLS.saturating_sub(2 + name.len()));
            let rows = rows.join(&format!("\n{}", " ".repeat(NAME_CELLS)));
            let _ = writeln!(template, "  {literal}{name}{literal:#}{gap}{rows}");
        }
    }
    let _ = write!(template, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// Returns the description of a command; `None` if this program is built without it.
fn about(command: &Command, name: &str) -> Option<String> {
    if name == "help" {
        return Some("Print the help of a command".to_owned());
    }
    command.find_subcommand(name)?.get_about().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory as _;

    #[test]
    fn each_command_is_in_one_group() {
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in Arguments::command().get_subcommands() {
            let count = listed.iter().filter(|name| **name == command.get_name()).count();
            assert_eq!(count, 1, "{} is in {count} groups", command.get_name());
        }
        let longest = listed.iter().map(|name| name.len()).max();
        assert!(longest.is_some_and(|longest| longest + 4 <= NAME_CELLS), "{longest:?}");
    }
}
