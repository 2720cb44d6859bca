//! Tests of the blocks in the README and the book: commands, configurations and other texts that are read as the program reads them.

use std::ffi::OsString;
use std::path::Path;

use clap::FromArgMatches as _;
use clap::error::{ContextKind, ErrorKind};
use fumehood::model::ScriptedModel;
use fumehood_author::Project;
use fumehood_author::cases::CaseFile;
use fumehood_tests::markdown::{Block, all_blocks, root};

use crate::args::parse::context_text;
use crate::args::{self, Arguments};
use crate::config;

/// Languages of blocks that other tests run or compile, and of those that nothing here could run.
const ELSEWHERE: [&str; 7] = [
    // host/fumehood/tests/it/fragments.rs
    "rust", // The declaration that the compiler for C generates: host/author has the program around it.
    "c",    // tests/postgres
    "sql",  // What a program printed, and drawings.
    "text", // release/systemd; its commands are parsed below.
    "ini",  // guests: tests/languages, host/cli/tests/it/cli/author_javascript.rs; embedding: bindings
    "js", "ts",
];

/// The keys that every node of a cell has.
const CELL: &str = "[cell]\nnats = \"nats://127.0.0.1:4222\"\nname = \"gateway-1\"\nkey = \"cell.key\"\n";

/// Returns the words of the commands in a text, as a shell splits them. Quotes and continued lines are understood; expansions are
/// left as they are.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            '\'' => word.get_or_insert_default().extend(letters.by_ref().take_while(|letter| *letter != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
                    word.push(if letter == '\\' { letters.next().unwrap_or(letter) } else { letter });
                }
            }
            '#' if word.is_none() => while letters.next_if(|letter| *letter != '\n').is_some() {},
            letter if letter.is_whitespace() || "|;&<>".contains(letter) => {
                if let Some(command) = commands.last_mut() {
                    command.extend(word.take());
                }
                if letter == '\n' || !letter.is_whitespace() {
                    commands.push(Vec::new());
                }
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(command) = commands.last_mut() {
        command.extend(word);
    }
    let is_assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let without_assignments = |command: &Vec<String>| command.iter().skip_while(is_assignment).cloned().collect();
    commands.iter().map(without_assignments).filter(|command: &Vec<String>| !command.is_empty()).collect()
}

/// Returns whether a value stands for one that the reader has: `FILE`, `…`, `./FOLDER:/FOLDER`, `@FILE`.
fn is_placeholder(value: &str) -> bool {
    value.contains('…')
        || value.starts_with('@')
        || value.split(|c: char| !c.is_alphabetic()).any(|word| word.len() > 1 && word.chars().all(char::is_uppercase))
}

/// Returns the fault of a command line. In prose a command may lack arguments.
fn fault(words: &[String], is_prose: bool) -> Option<String> {
    let parsed = args::parse::command().try_get_matches_from(words.iter().map(OsString::from));
    let error = parsed.and_then(|matches| Arguments::from_arg_matches(&matches)).err()?;
    let is_accepted = match error.kind() {
        ErrorKind::InvalidValue if is_prose && context_text(&error, ContextKind::InvalidValue).is_empty() => true,
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            is_placeholder(context_text(&error, ContextKind::InvalidValue))
        }
        ErrorKind::InvalidSubcommand => is_placeholder(context_text(&error, ContextKind::InvalidSubcommand)),
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => is_prose,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => is_prose,
        _ => false,
    };
    (!is_accepted).then(|| error.render().to_string())
}

/// Returns the commands of the program in a block of a shell, or of a unit of systemd.
fn program_commands(block: &Block) -> Vec<Vec<String>> {
    let text = match block.language.as_str() {
        "sh" => block.text.clone(),
        "ini" => block.text.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/")).collect(),
        _ => String::new(),
    };
    let mut commands = commands(&text);
    commands.retain(|command| command.first().is_some_and(|program| program == "fumehood"));
    commands
}

#[test]
fn commands_of_the_book_are_understood() {
    let mut faults = Vec::new();
    let mut count = 0;
    for block in all_blocks().unwrap() {
        for command in program_commands(&block) {
            count += 1;
            faults.extend(fault(&command, false).map(|fault| format!("{}: {command:?}: {fault}", block.place())));
        }
    }
    assert!(count > 100, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_in_sentences_are_understood() {
    let mut faults = Vec::new();
    let mut count = 0;
    let pages: std::collections::BTreeSet<String> = all_blocks().unwrap().into_iter().map(|block| block.page).collect();
    for page in pages.iter().map(String::as_str).chain(["ARCHITECTURE.md", "CONTRIBUTING.md"]) {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let prose: String = text.split("```").step_by(2).collect();
        for code in prose.split('`').skip(1).step_by(2).filter(|code| code.starts_with("fumehood ")) {
            for command in commands(&code.replace("\n", " ")) {
                count += 1;
                faults.extend(fault(&command, true).map(|fault| format!("{page}: `{code}`: {fault}")));
            }
        }
    }
    assert!(count > 50, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the fault of a text in TOML: a configuration, unless it is plainly something else.
fn toml_fault(text: &str) -> Option<String> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let key = format!("ed25519:{}=", "A".repeat(43));
    let text = text.replace("sha256:…", &digest).replace("ed25519:…", &key);
    // An excerpt of a configuration that is shown as a whole elsewhere.
    let text = text.replace("[cell]\njobs", &format!("{CELL}jobs"));
    let begins_with = |heads: &[&str]| text.lines().any(|line| heads.iter().any(|head| line.starts_with(head)));
    if begins_with(&["[[case]]"]) {
        return CaseFile::parse(Path::new("greet.toml"), &text).err().map(|error| error.to_string());
    }
    if begins_with(&["[dependencies]", "[package"]) {
        return text.parse::<toml::Table>().err().map(|error| error.to_string());
    }
    for (beginning, manifest) in [("[build]", "tool.toml"), ("[project]", "pyproject.toml")] {
        if begins_with(&[beginning]) {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(manifest), &text).unwrap();
            return Project::open(folder.path()).err().map(|error| error.to_string());
        }
    }
    config::parse(Path::new(config::DEFAULT_FILE_NAME), &text).err().map(|error| error.to_string())
}

/// Returns the fault of JSON, or of JSON Lines for a scripted model. `…` stands for members that are left out.
fn json_fault(text: &str) -> Option<String> {
    let whole = text.replace(", …,", ",").replace(", …}", "}");
    let Err(error) = serde_json::from_str::<serde_json::Value>(&whole) else { return None };
    ScriptedModel::parse(text).err().map(|script| format!("{error}; {script}"))
}

fn wit_fault(text: &str) -> Option<String> {
    wit_parser::UnresolvedPackageGroup::parse("world.wit", text).err().map(|error| format!("{error:?}"))
}

/// Returns the fault of a program in Python, whose syntax alone is checked.
fn python_fault(text: &str) -> Option<String> {
    // A fragment may stand in an asynchronous function.
    let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
    let program = "import ast, sys; ast.parse('async def f():\\n' + sys.argv[1])";
    let ran = std::process::Command::new("python3").args(["-c", program, &indented]).output().unwrap();
    (!ran.status.success()).then(|| String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[test]
fn texts_of_the_book_are_what_they_claim_to_be() {
    let mut faults = Vec::new();
    for block in all_blocks().unwrap() {
        let fault = match block.language.as_str() {
            "sh" => None,
            "toml" => toml_fault(&block.text),
            "json" => json_fault(&block.text),
            "wit" => wit_fault(&block.text),
            "python" => python_fault(&block.text),
            language if ELSEWHERE.contains(&language) => None,
            language => Some(format!("nothing checks blocks in {language:?}")),
        };
        faults.extend(fault.map(|fault| format!("{}: {fault}", block.place())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn words_are_split_as_a_shell_splits_them() {
    let text = "A=b fumehood x 'y z' \"q \\\"r\" \\\n  last # no\nother | fumehood two && fumehood three\n";
    let words: Vec<String> = commands(text).iter().map(|command| command.join("·")).collect();
    assert_eq!(words, ["fumehood·x·y z·q \"r·last", "other", "fumehood·two", "fumehood·three"]);
    fn fault_of(text: &str) -> Option<String> {
        fault(&commands(text).remove(0), false)
    }
    assert!(fault_of("fumehood log show CALL").is_none());
    assert!(fault_of("fumehood serve --listen ADDRESS").is_none());
    assert!(fault_of("fumehood call a.wasm add --tiemout 2s").unwrap().contains("--tiemout"));
    assert!(toml_fault("[tools.a]\ncomponent = \"a.wasm\"\nraed = []\n").unwrap().contains("raed"));
    assert!(json_fault("{").is_some() && wit_fault("world {").is_some() && python_fault("def").is_some());
}
