//! Syntax errors in Python and JavaScript. The language finds them in a moment, and the compiler of a component in a minute.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{BuildError, javascript, python, toolchain};
use crate::language::Language;
use crate::project::Project;

/// The program that checks modules in Python.
const PYTHON_CHECK: &str = include_str!("check_syntax.py");
/// The minor version of Python 3 in components.
const PYTHON_MINOR: &str = "14";
/// Exit code of the check after an error.
const WRONG: i32 = 3;
/// Exit code of the check after an error in the eyes of an older Python.
const DOUBTFUL: i32 = 4;

/// Checks the syntax of a project's module in Python or JavaScript, if the language is installed. Returns a warning about
/// a line that is an error for the Python of this machine, which is older than the one in components.
///
/// # Errors
/// If there is a syntax error.
pub fn check_syntax(project: &Project) -> Result<Option<String>, BuildError> {
    let Some(module) = project.settings.module.as_deref() else { return Ok(None) };
    match project.language {
        Language::Python => check_python(project, module),
        // Without WIT of its own, the build joins the modules first, and finds errors then.
        Language::Javascript if project.settings.world.is_some() => check_javascript(project, module).map(|()| None),
        Language::Rust | Language::C | Language::Javascript | Language::Typescript => Ok(None),
    }
}

fn check_python(project: &Project, module: &str) -> Result<Option<String>, BuildError> {
    // The Python beside the compiler, because others may be older.
    let folders: Vec<PathBuf> =
        python::find_compiler(project).iter().filter_map(|compiler| compiler.parent()).map(Path::to_owned).collect();
    let Some(python) = toolchain::search_program(&folders, "python3") else { return Ok(None) };
    let mut check = Command::new(python);
    check.args(["-I", "-W", "ignore", "-c", PYTHON_CHECK]).arg(&project.folder).args([PYTHON_MINOR, module]);
    // If the check itself fails, the compiler decides.
    let Ok(Output { status, stdout, .. }) = check.stdin(Stdio::null()).output() else { return Ok(None) };
    let place = String::from_utf8_lossy(&stdout);
    let place = project.join(Path::new(place.trim())).display().to_string();
    match status.code() {
        Some(WRONG) => Err(BuildError::Syntax(place)),
        Some(DOUBTFUL) => Ok(Some(format!("{place} (components have Python 3.{PYTHON_MINOR}, which may accept it)"))),
        _ => Ok(None),
    }
}

fn check_javascript(project: &Project, module: &str) -> Result<(), BuildError> {
    let path = project.join(Path::new(module));
    let (Some(node), Ok(source)) = (javascript::find_node(), File::open(&path)) else { return Ok(()) };
    let mut check = Command::new(node);
    check.args(["--input-type=module", "--check", "-"]).stdin(source);
    let Ok(Output { stderr, .. }) = check.output() else { return Ok(()) };
    match find_node_error(&String::from_utf8_lossy(&stderr)) {
        Some((line, message)) => Err(BuildError::Syntax(format!("{}:{line}: {message}", path.display()))),
        None => Ok(()),
    }
}

/// Finds the line and the message of a syntax error in the messages of Node.
fn find_node_error(messages: &str) -> Option<(u32, &str)> {
    let line = messages.lines().find_map(|line| line.strip_prefix("[stdin]:"))?.parse().ok()?;
    let message = messages.lines().find_map(|line| line.strip_prefix("SyntaxError: "))?;
    Some((line, message))
}

/// Returns what the SDK says about a fault of the module of the tools, in the messages of componentize-py. They have it twice.
pub(super) fn find_sdk_error(messages: &str) -> Option<String> {
    let (_, rest) = messages.split_once("BuildError: begin\n")?;
    let (text, _) = rest.split_once("end of BuildError")?;
    Some(text.trim_end().to_owned())
}

/// Returns the name of the file, the line and the message of a syntax error in the messages of componentize-py, which end with
/// it. The name is without a folder.
pub(super) fn find_python_error(messages: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = messages.lines().last()?.trim().split_once(": ")?;
    if !["SyntaxError", "IndentationError", "TabError"].contains(&kind) {
        return None;
    }
    let (message, place) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = place.split_once(", line ")?;
    Some((file, line, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_place_of_an_error() {
        let node = "[stdin]:2\n  return 1 +;\n            ^\n\nSyntaxError: Unexpected token ';'\n    at checkSyntax\n";
        assert_eq!(find_node_error(node), Some((2, "Unexpected token ';'")));
        assert_eq!(find_node_error("node: bad option"), None);
        let python =
            "Traceback (most recent call last):\nCaused by:\n    SyntaxError: '(' was never closed (app.py, line 4)";
        assert_eq!(find_python_error(python), Some(("app.py", "4", "'(' was never closed")));
        assert!(find_python_error("Caused by:\n    ImportError: no (a, line 1)").is_none());
        assert!(find_python_error("").is_none());
        let sdk = "Traceback:\n  x\nfumehood_tool._component.BuildError: begin\na.py:1: no\n    at b.py:2 in f\nend of BuildError\n\nCaused by:\n    BuildError: begin\n";
        assert_eq!(find_sdk_error(sdk).unwrap(), "a.py:1: no\n    at b.py:2 in f");
        assert_eq!(find_sdk_error("BuildError: begin\ncut"), None);
    }
}
