//! Tables and the sentences below them on screens of several widths, and in a pipe.

use super::approve_screen::{cells, drawn};
use super::workbench::Workbench;

const WIDTHS: [u16; 3] = [80, 100, 120];

/// Checks that every line fits, and returns the text.
fn fitting(bench: &Workbench, columns: u16, arguments: &[&str]) -> String {
    let lines = drawn(bench, columns, arguments);
    for line in &lines {
        assert!(cells(line) <= usize::from(columns), "{columns} columns: {line:?}");
    }
    lines.join("\n")
}

#[test]
fn the_demo_fits_on_a_screen() {
    let bench = Workbench::new();
    for columns in WIDTHS {
        let text = fitting(&bench, columns, &["demo"]);
        for word in ["output_too_large", "[::ffff:127.0.0.1]", "/proc/self/environ", "instance,", "2.1 MiB"] {
            // With 120 columns, the reasons for errors are shown in place of the memory.
            let is_left_out = columns != 100 && word == "2.1 MiB";
            assert!(is_left_out || text.contains(word), "{word} in {columns} columns:\n{text}");
        }
        assert_eq!(text.contains("the terminal is too narrow for: "), columns != 100, "{text}");
    }
}

#[test]
fn calls_have_short_ids_on_a_screen_which_show_takes() {
    let bench = Workbench::new();
    bench.example("calculator");
    assert_eq!(bench.run(&["call", "calculator.wasm", "add", "a=3", "b=5"]).code, 0);
    let listed = bench.run(&["log", "--json"]).json();
    let id = listed[0]["call"].as_str().unwrap();
    let (own, session) = id.split_once('-').unwrap();
    for columns in WIDTHS {
        let text = fitting(&bench, columns, &["log"]);
        assert!(text.contains("calculator__add") && text.contains(&own[..7]) && !text.contains(own), "{text}");
        assert_eq!(text.contains(session), columns == 120, "{columns}:\n{text}");
    }
    for prefix in [id, &own[..7], &own[..3]] {
        let shown = bench.run(&["log", "show", prefix]);
        assert!(shown.code == 0 && shown.stdout.contains(id), "{prefix}: {shown:?}");
    }
    assert_eq!(bench.run(&["log", "show", "zzz"]).code, 2);
}

#[test]
fn help_and_effects_are_wrapped_between_words() {
    let bench = Workbench::new();
    bench.put(
        "fumehood.toml",
        "[tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\nread = [\"docs:/docs\"]\n",
    );
    for columns in WIDTHS {
        let help = fitting(&bench, columns, &["--help"]);
        assert!(help.contains("Serve tools:"), "{help}");
        let effects = fitting(&bench, columns, &["trust", "--check"]);
        assert!(effects.contains("approval") && effects.contains("docs:/docs"), "{effects}");
    }
}
