//! A check of a server's program before anything is started.
//!
//! The program is started by another program, which could only fail in its place.

use std::ffi::OsString;
use std::path::Path;

use fumehood_platform::files::is_executable;

use super::endpoint::Launch;

/// Search path of programs if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Checks that a program can be found and executed. Returns the reason if not.
pub(super) fn check_program(launch: &Launch) -> Result<(), &'static str> {
    let Launch { program, folder, .. } = launch;
    if program.as_os_str().is_empty() {
        return Err("the name of the program is missing");
    }
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        let path = folder.as_deref().unwrap_or(Path::new(".")).join(program);
        return match (path.exists(), is_executable(&path)) {
            (true, true) => Ok(()),
            (true, false) => Err("you may not run it; check its permissions"),
            (false, _) => Err("no such file; correct the path"),
        };
    }
    let folders = search_path(launch);
    if std::env::split_paths(&folders).any(|folder| is_executable(&folder.join(program))) {
        Ok(())
    } else {
        Err("no such program in PATH; install it, or give its absolute path")
    }
}

/// Returns the `PATH` that the program is started with.
fn search_path(launch: &Launch) -> OsString {
    let own = launch.environment.iter().rev().find(|(name, _)| name == "PATH");
    let own = own.map(|(_, value)| OsString::from(value));
    own.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn is_found(program: &str, path: Option<&str>, folder: Option<&str>) -> bool {
        let environment = path.map(|path| ("PATH".to_owned(), path.to_owned())).into_iter().collect();
        let program = PathBuf::from(program);
        let folder = folder.map(PathBuf::from);
        check_program(&Launch { program, environment, folder, ..Launch::default() }).is_ok()
    }

    #[test]
    fn finds_programs_as_execvp_does() {
        assert!(is_found("sh", None, None));
        assert!(is_found("/bin/sh", None, None));
        assert!(is_found("./sh", None, Some("/bin")));
        assert!(!is_found("./sh", None, Some("/")));
        assert!(!is_found("sh", Some("/nowhere"), None));
        assert!(!is_found("no-such-program-anywhere", None, None));
        assert!(!is_found("/etc/passwd", None, None));
        assert!(!is_found("/etc", None, None));
        assert!(!is_found("", None, None));
    }
}
