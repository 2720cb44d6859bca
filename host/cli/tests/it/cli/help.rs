//! Help, manual pages and shell completions.

use super::workbench::Workbench;

#[test]
fn help_lists_the_exit_codes() {
    let bench = Workbench::new();
    for arguments in [&["--help"][..], &["call", "--help"], &["help", "call"]] {
        let ran = bench.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 ", "130 "] {
            assert!(ran.stdout.lines().any(|line| line.trim_start().starts_with(code)), "{code}: {}", ran.stdout);
        }
    }
    assert!(bench.run(&["--version"]).stdout.starts_with("fumehood "));
}

#[test]
fn help_lists_the_commands_in_groups() {
    let help = Workbench::new().run(&["--help"]).stdout;
    let mut rest = help.as_str();
    for part in [
        "\nUse tools:\n  demo          Run useful and hostile tools",
        "\nWrite tools:\n  new           Create a project",
        "\nPublish tools:\n  key ",
        "\nServe tools:\n  serve ",
        "\nOperate:\n  config ",
        "\nOptions:\n",
        "--json",
        "\nExit codes:\n",
    ] {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing in {rest}")).1;
    }
    assert!(!help.contains("Commands:"), "{help}");
}

#[test]
fn without_a_command_help_is_shown() {
    let bench = Workbench::new();
    let mut command = bench.command_without_trust(&[]);
    command.env("FUMEHOOD_CONFIG", "/nowhere/fumehood.toml");
    let ran = Workbench::run_command(command);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("Usage: fumehood") && ran.stderr.contains("selftest"), "{ran:?}");
}

#[test]
fn hidden_commands_are_in_no_help() {
    let bench = Workbench::new();
    let completions = bench.run(&["completions", "bash"]).stdout;
    let pages = bench.run(&["man"]).stdout;
    for hidden in ["compile-component", "run-worker", "end-with-parent"] {
        assert!(!completions.contains(hidden) && !pages.contains(hidden), "{hidden}");
        assert_eq!(bench.run(&["help", hidden]).code, 2, "{hidden}");
        assert_eq!(bench.run(&["--json", hidden]).code, 2, "{hidden}");
    }
}

#[test]
fn options_of_every_command_are_in_one_help() {
    let bench = Workbench::new();
    let help = |arguments: &[&str]| bench.run(arguments).stdout;
    assert!(help(&["--help"]).contains("--cache-size") && help(&["--help"]).contains("--isolation"));
    for arguments in [&["call", "--help"][..], &["log", "verify", "--help"], &["config", "check", "-h"]] {
        let shown = help(arguments);
        assert!(!shown.contains("--cache-size") && shown.contains("see `fumehood --help`"), "{arguments:?}: {shown}");
    }
    assert_eq!(bench.run(&["config", "--color", "never", "schema", "--no-cache"]).code, 0, "they are taken everywhere");
}

#[test]
fn every_command_has_a_manual_page() {
    let bench = Workbench::new();
    assert!(bench.run(&["man"]).stdout.contains(".TH fumehood 1"));
    let ran = bench.run(&["man", "pages"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    let page = std::fs::read_to_string(bench.path("pages/fumehood-log-verify.1")).unwrap();
    assert!(page.contains("without\\-key"), "{page}");
    assert!(bench.path("pages/fumehood-call.1").exists());
}

#[cfg(unix)]
#[test]
fn manual_pages_are_not_written_through_links() {
    let bench = Workbench::new();
    let mine = bench.put("mine.txt", "mine");
    std::fs::create_dir(bench.path("pages")).unwrap();
    for page in ["pages/fumehood.1", "pages/fumehood-call.1"] {
        std::os::unix::fs::symlink(&mine, bench.path(page)).unwrap();
    }
    std::os::unix::fs::symlink(bench.path("made.txt"), bench.path("pages/fumehood-run.1")).unwrap();
    let ran = bench.run(&["man", "pages"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    assert!(!bench.path("made.txt").exists());
    assert!(std::fs::read_to_string(bench.path("pages/fumehood.1")).unwrap().contains(".TH fumehood 1"));
    assert!(std::fs::read_dir(bench.path("pages")).unwrap().all(|entry| entry.unwrap().path().is_file()));

    std::os::unix::fs::symlink(bench.path("pages"), bench.path("elsewhere")).unwrap();
    let ran = bench.run(&["man", "elsewhere"]);
    assert!(ran.code != 0 && ran.stderr.contains("it is a symbolic link; expected a folder"), "{ran:?}");
}

#[test]
fn every_shell_gets_its_completions() {
    let bench = Workbench::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = bench.run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        for word in ["fumehood", "inspect", "demo", "max-output"] {
            assert!(ran.stdout.contains(word), "{shell}: {word}");
        }
    }
}
