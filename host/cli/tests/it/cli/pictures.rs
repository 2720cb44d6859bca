//! The pictures of the documentation show what the program shows. `release/pictures` remakes them.

use std::path::Path;
use std::process::Command;

use fumehood_tests::skip::skip;
use regex::Regex;

use super::approve_screen::drawn;
use super::author::root;
use super::workbench::Workbench;

/// Folder with `playwright-core`, as `tests/dashboard/setup` leaves it.
const MODULES: &str = "FUMEHOOD_BROWSER_MODULES";
/// Width of the terminal in the picture of `demo`.
const DEMO_COLUMNS: u16 = 130;

/// Returns a line without colours, and without numbers and spaces, which differ between runs.
fn steady(line: &str) -> String {
    let volatile = Regex::new(r"\x1b\[[0-9;]*[mK]|^.*\r|\d[\d.,]*(\s?(µs|ms|s|B|[KMG]iB|[kMG])\b)?|\s").unwrap();
    volatile.replace_all(line, "").into_owned()
}

#[test]
fn the_picture_of_the_demo_shows_what_it_prints() {
    let picture = std::fs::read_to_string(root().join("docs/demo.svg")).unwrap();
    let text = Regex::new(r#"<text[^>]* y="(\d+)"[^>]*>([^<]*)</text>"#).unwrap();
    let mut rows: Vec<(String, String)> = Vec::new();
    for found in text.captures_iter(&picture) {
        let part = found[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        match rows.last_mut().filter(|(at, _)| *at == found[1]) {
            Some((_, row)) => row.extend([" ", &part]),
            None => rows.push((found[1].to_owned(), part)),
        }
    }
    let printed: Vec<String> =
        drawn(&Workbench::new(), DEMO_COLUMNS, &["demo"]).iter().map(|line| steady(line)).collect();
    let rows: Vec<String> = rows.iter().map(|(_, row)| steady(row)).collect();
    // Between the command and the dots are the first lines of the output.
    let [command, rows @ .., dots] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((command.as_str(), dots.as_str()), ("$fumehooddemo", "…"));
    assert!(rows.len() > 20 && printed.starts_with(rows), "remake it with `release/pictures`: {rows:#?} {printed:#?}");
}

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_pictures_of_the_dashboard_show_what_it_shows() {
    let modules = std::env::var_os(MODULES).map(|modules| root().join(modules));
    let Some(modules) = modules.filter(|modules| modules.join("node_modules/playwright-core").is_dir()) else {
        return skip(
            "browser",
            &format!("{MODULES} names no folder with playwright-core; `tests/dashboard/setup DIR` makes one"),
        );
    };
    let mut check = Command::new(root().join("release/pictures"));
    check.args(["--check", env!("CARGO_BIN_EXE_fumehood")]).env(MODULES, modules);
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{}{}", to_text(&checked.stdout), to_text(&checked.stderr));
}

fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "png")
}

#[test]
fn every_picture_is_used_and_made_by_the_script() {
    let page = std::fs::read_to_string(root().join("docs/dashboard.md")).unwrap();
    let shown = std::fs::read_to_string(root().join("docs/pictures.json")).unwrap();
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pictures: Vec<_> = files.filter(|path| is_picture(path)).collect();
    for picture in &pictures {
        let name = picture.file_name().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("({name})")), "{name} is not in docs/dashboard.md");
        assert!(
            shown.contains(&format!("\"{}\"", name.trim_end_matches(".png"))),
            "{name} is not remade by release/pictures"
        );
    }
    assert!(pictures.len() > 5, "{pictures:?}");
}
