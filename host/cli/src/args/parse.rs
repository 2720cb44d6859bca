//! Parsing of the command line, and reports of its errors in the form that was asked for.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

use super::Arguments;
use super::groups::group_commands;
use crate::exit::Exit;
use crate::render::{self, FailureForm};

/// What other programs call the address of a server.
const LISTEN_OPTIONS: [&str; 3] = ["--port", "--http", "-p"];
/// Minimum length of the beginning of an option that is completed, in bytes, with the dashes.
const MIN_BEGINNING_BYTES: usize = 6;
/// Form of the option `--secret`, whose value is never a secret itself.
const SECRET_HINT: &str = "give the source of the secret instead of its value: `--secret 'name = \"token\", from = { env = \"VARIABLE\" }, \
    for = \"https://api.example.com/**\", header = \"Authorization\"'`";

/// Options whose values may contain a secret, also when they are malformed.
const SECRET_OPTIONS: [&str; 2] = ["--secret", "--env"];
/// Parts of names of options and arguments that suggest a secret.
const SECRET_WORDS: [&str; 5] = ["secret", "token", "pass", "key", "auth"];

/// Note that names the help with the options of every command.
const GLOBAL_OPTIONS: &str = "Options of every command, such as --json and --config: see `fumehood --help`";

/// Builds the command line. Options of every command are shown in the help of the outermost one only, which lists the
/// commands in groups.
pub(crate) fn command() -> Command {
    let command = Arguments::command();
    let globals: Vec<Arg> = command.get_arguments().filter(|it| it.is_global_set()).cloned().collect();
    group_commands(command.mut_subcommands(|command| hide(command, &globals)))
}

/// Adds these options, which every command takes, without showing them.
fn hide(mut command: Command, globals: &[Arg]) -> Command {
    for option in globals {
        command = command.arg(option.clone().hide(true));
    }
    let help = match command.get_after_help() {
        Some(help) => format!("{help}\n\n{GLOBAL_OPTIONS}"),
        None => GLOBAL_OPTIONS.to_owned(),
    };
    command.after_help(help).mut_subcommands(|command| hide(command, globals))
}

/// Parses what was typed.
///
/// # Errors
/// The exit code, after help was printed or an error reported.
pub(crate) fn parse(typed: Vec<OsString>) -> Result<Arguments, ExitCode> {
    let mut command = command();
    if typed.len() <= 1 {
        // Not left to the parser: a variable that sets an option counts as an argument there.
        let _unreportable = std::io::Write::write_all(
            &mut anstream::stderr().lock(),
            command.render_help().ansi().to_string().as_bytes(),
        );
        return Err(Exit::Usage.into());
    }
    let matches = command.try_get_matches_from_mut(&typed);
    let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|error| report(&without_far_suggestion(without_secret(error)), &typed))
}

/// Removes the parser's suggestion unless it is a likely misspelling or completion: `--a` may be an argument of a tool, and
/// not `--arg`.
fn without_far_suggestion(mut error: clap::Error) -> clap::Error {
    let typed = context_text(&error, ContextKind::InvalidArg);
    let suggested = context_text(&error, ContextKind::SuggestedArg);
    let is_beginning = typed.len() >= MIN_BEGINNING_BYTES && suggested.starts_with(typed);
    let is_misspelt = strsim::damerau_levenshtein(typed, suggested).saturating_mul(4) <= typed.len();
    if LISTEN_OPTIONS.contains(&typed) || !(is_beginning || is_misspelt) {
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

/// Returns a text of the context of an error; empty if it has none of this kind.
pub(crate) fn context_text(error: &clap::Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        _ => "",
    }
}

/// Removes the rejected value from the error if the option may contain a secret: errors end up in logs.
fn without_secret(mut error: clap::Error) -> clap::Error {
    let is_secret = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => {
            SECRET_OPTIONS.iter().any(|option| argument.split([' ', '=']).next() == Some(option))
        }
        _ => false,
    };
    if is_secret && error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".to_owned()));
    }
    error
}

/// Returns whether a value of this name may be a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn report(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    let form = form(typed);
    if !error.use_stderr()
        || form == FailureForm::Text
        || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        // A failure cannot be reported.
        let _ = error.print();
        if let Some(hint) = hint(error, typed) {
            render::hint(&format!("hint: {hint}"));
        }
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
    }
    let message = match hint(error, typed) {
        Some(hint) => format!("{}; {hint}", message(error)),
        None => message(error),
    };
    render::failure(&anyhow::Error::msg(message), form, Exit::Usage)
}

/// Returns how to write what somebody tried to write, where the parser's own tip leads elsewhere.
fn hint(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    let is_typed = |word: &str| typed.iter().skip(1).any(|typed| typed == word);
    let is_about_argument = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument);
    if is_about_argument && is_typed("mcp") && is_typed("call") && !is_typed("--") {
        return Some("write `--` before the server: `fumehood mcp call TOOL NAME=VALUE -- URL|COMMAND`".to_owned());
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    match error.kind() {
        // The parser found a similar option.
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_some() => None,
        ErrorKind::UnknownArgument if is_typed("serve") && LISTEN_OPTIONS.contains(&argument.as_str()) => {
            Some("use `--listen 127.0.0.1:8080`".to_owned())
        }
        ErrorKind::UnknownArgument if is_typed("call") => {
            let name = argument.strip_prefix("--")?;
            let value = if is_secret_name(name) { "VALUE".to_owned() } else { value_of(argument, typed) };
            Some(format!("write arguments of a tool without dashes: `{name}={value}`"))
        }
        _ if argument.starts_with("--secret ") => Some(SECRET_HINT.to_owned()),
        _ => None,
    }
}

/// Returns the value that was typed behind an option, or `VALUE`.
fn value_of(option: &str, typed: &[OsString]) -> String {
    let mut words = typed.iter().filter_map(|word| word.to_str()).skip_while(|word| !word.starts_with(option));
    let inline = words.next().and_then(|word| word.strip_prefix(option)?.strip_prefix('='));
    let next = words.next().filter(|word| !word.starts_with('-'));
    inline.or(next).unwrap_or("VALUE").to_owned()
}

/// Extracts the message of an error, without the usage that follows it for people.
fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_about_usage = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more information");
    let parts: Vec<&str> = text.trim().split("\n\n").take_while(is_about_usage).map(str::trim).collect();
    parts.join("; ").trim_start_matches("error: ").to_owned()
}

/// Returns the form of failures for a command line that could not be parsed.
fn form(typed: &[OsString]) -> FailureForm<'static> {
    let words: Vec<&str> = typed.iter().skip(1).map_while(|word| word.to_str().filter(|word| *word != "--")).collect();
    let command = words.iter().copied().find(|word| Arguments::command().find_subcommand(word).is_some());
    match command {
        _ if !words.contains(&"--json") => FailureForm::Text,
        Some("serve") => FailureForm::Text,
        Some("call") => FailureForm::Call { tool: "" },
        Some("mcp") if words.contains(&"call") => FailureForm::Call { tool: "" },
        _ => FailureForm::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_tests::prose::Prose;

    /// Returns the help of a command and of all below it.
    fn help_of(command: &mut Command) -> String {
        let below: Vec<String> = command.get_subcommands_mut().filter(|it| !it.is_hide_set()).map(help_of).collect();
        format!("{}\n{}", command.render_long_help(), below.join("\n"))
    }

    #[test]
    fn help_is_written_in_the_words_of_the_field() {
        let prose = Prose::new(&help_of(&mut command()));
        assert!(prose.word_count() > 5_000, "{}", prose.word_count());
        prose.check().unwrap();
    }

    fn parse_words(words: &[&str]) -> Arguments {
        let words = std::iter::once("fumehood").chain(words.iter().copied()).map(OsString::from).collect();
        parse(words).unwrap()
    }

    #[test]
    fn options_of_every_command_are_shown_once_and_taken_everywhere() {
        for words in [&["--json", "log", "verify"][..], &["log", "--json", "verify"], &["log", "verify", "--json"]] {
            assert!(parse_words(words).json, "{words:?}");
        }
        let after = parse_words(&["call", "a.wasm", "b", "--cache-dir", "/tmp/x", "--color", "never"]);
        assert_eq!((after.cache_dir.as_deref(), after.color), (Some("/tmp/x".as_ref()), super::super::Color::Never));
        assert!(command().render_long_help().to_string().contains("--cache-dir"));
        let mut command = command();
        let call = command.find_subcommand_mut("call").unwrap().render_long_help().to_string();
        assert!(!call.contains("--cache-dir") && call.contains(GLOBAL_OPTIONS), "{call}");
    }

    #[test]
    fn rejected_secrets_are_not_echoed() {
        const SECRET: &str = "hunter2";
        let lines: [&[&str]; 13] = [
            &["call", "a.wasm", "b", "--secret", SECRET],
            &["call", "a.wasm", "b", "--secret=name='x', from='hunter2'"],
            &["call", "a.wasm", "b", "--secret", "TOKEN=hunter2"],
            &["call", "a.wasm", "b", "--secret", "hunter2='x'"],
            &["call", "a.wasm", "b", "--secret", "name=['hunter2']"],
            &["call", "a.wasm", "b", "--env", SECRET],
            &["call", "a.wasm", "b", "--token", SECRET],
            &["call", "a.wasm", "b", "--api-key=hunter2"],
            &["run", "task", "--env=hunter2"],
            &["serve", "a.wasm", "--secret", SECRET],
            &["serve", "--token", SECRET],
            &["key", "new", "--passphrase", SECRET],
            &["top", "--token", SECRET],
        ];
        for line in lines {
            let typed: Vec<OsString> = ["fumehood"].iter().chain(line).map(OsString::from).collect();
            let error = command().try_get_matches_from(&typed);
            let error = error.and_then(|matches| Arguments::from_arg_matches(&matches)).unwrap_err();
            let error = without_secret(error);
            let reported = format!("{} {} {:?}", error.render(), message(&error), hint(&error, &typed));
            assert!(!reported.contains(SECRET), "{line:?}: {reported}");
        }
    }
}
