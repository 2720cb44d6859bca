//! Rules about what belongs to one operating system: it is in listed folders, and nowhere else.

use super::{before_tests, fail_on, sources};

/// Folders that may ask for the operating system, one for each concern. In each, a file chooses the system and another
/// one for each system does the work.
const PLATFORM: &[&str] = &[
    "host/platform/src/beneath/",
    "host/platform/src/files/",
    "host/platform/src/limits/",
    "host/platform/src/private/",
    "host/platform/src/process/",
    "host/platform/src/sealed/",
    "host/platform/src/sockets/",
    "host/platform/src/terminal/",
    "host/cli/src/commands/serve/folder_events/",
    "host/cli/src/service_manager/",
    "host/cli/src/signals/",
    "host/fumehood/src/secrets/keyring/",
    "host/mcp/src/server/standard_streams/",
    "host/runtime/src/jail/",
    "host/runtime/src/socket/",
];

/// Words of code that belongs to one operating system.
const WORDS: &[&str] = &[
    "cfg!(not(target_",
    "cfg!(not(unix",
    "cfg!(not(windows",
    "cfg!(target_",
    "cfg!(unix",
    "cfg!(windows",
    "cfg(not(target_",
    "cfg(not(unix",
    "cfg(not(windows",
    "cfg(target_",
    "cfg(unix",
    "cfg(windows",
    "close_fds",
    "inotify",
    "keyutils",
    "landlock::",
    "libc::",
    "net::unix",
    " nix::",
    "rustix",
    "seccompiler",
    "signal::unix",
    "std::os::",
    "windows_sys",
];

/// Returns the lines of a file that ask for the operating system, with the word that shows it. Unit tests are left out.
fn asks_for_the_system<'t>(text: &'t str) -> impl Iterator<Item = (usize, &'static str)> + use<'t> {
    let lines = before_tests(text).into_iter().enumerate();
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter_map(|(number, line)| WORDS.iter().find(|word| line.contains(**word)).map(|word| (number + 1, *word)))
}

#[test]
fn operating_system_is_asked_for_in_listed_folders_only() {
    let files = ["host", "bindings"].into_iter().flat_map(sources);
    let files: Vec<_> = files.filter(|(name, _)| name.contains("/src/")).collect();
    let mut broken = Vec::new();
    for (name, text) in &files {
        if PLATFORM.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        broken.extend(asks_for_the_system(text).map(|(line, word)| format!("{name}:{line}: {word}")));
    }
    let is_stale = |folder: &&&str| {
        !files.iter().any(|(name, text)| name.starts_with(**folder) && asks_for_the_system(text).next().is_some())
    };
    broken.extend(PLATFORM.iter().filter(is_stale).map(|folder| format!("{folder} is listed and asks for nothing")));
    fail_on("what belongs to one operating system is in the folders that are listed", &broken);
}

#[test]
fn every_system_has_a_file_or_a_sentence() {
    let mut broken = Vec::new();
    for folder in PLATFORM.iter().filter(|folder| !folder.ends_with("/src/")) {
        let door = sources(folder).into_iter().find(|(name, _)| name == &format!("{folder}mod.rs"));
        let Some((name, text)) = door else {
            broken.push(format!("{folder} has no mod.rs that chooses the system"));
            continue;
        };
        let chooses = text.matches("#[cfg(").count() - text.matches("#[cfg(test)]").count();
        if chooses < 2 || !(text.contains("compile_error!(") || text.contains("#[path = \"unsupported.rs\"]")) {
            broken.push(format!("{name} has neither a file nor a `compile_error!` for other systems"));
        }
    }
    fail_on("every module of a platform says what other systems have", &broken);
}
