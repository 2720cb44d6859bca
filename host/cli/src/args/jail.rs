//! Arguments of `fumehood jail`, and of other commands that run a program in a jail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use fumehood_config::mcp::{McpServerSection, ProgramIsolation, ProgramLimitsSection};

use crate::exit::UsageError;
use crate::isolation::Mode;

/// A rule for a host that does not exist (RFC 6761), with which a program has a proxy that refuses everything.
const NOWHERE: &str = "GET http://fumehood.invalid/**";

#[derive(Debug, Args)]
pub(crate) struct Jail {
    /// Print which parts of the jail this machine supports, and run nothing
    #[arg(long, conflicts_with = "command")]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) options: JailArguments,

    /// Program and its arguments
    #[arg(
        required_unless_present = "check",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<String>,
}

/// The grants and limits of a program in a jail.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Jail")]
pub(crate) struct JailArguments {
    /// File or folder that the program may read; repeatable
    #[arg(id = "jail.read", long = "allow-read", visible_alias = "read", value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,

    /// Folder that the program may read and change; repeatable
    #[arg(id = "jail.write", long = "allow-write", visible_alias = "write", value_name = "FOLDER")]
    pub(crate) write: Vec<PathBuf>,

    /// Requests that the program may make, such as `* https://api.example.com/**`; repeatable
    #[arg(id = "jail.http", long = "allow-http", visible_alias = "http", value_name = "RULE")]
    pub(crate) http: Vec<String>,

    /// Private addresses that its requests may reach, such as `127.0.0.1/32`; repeatable
    #[arg(id = "jail.private_addresses", long = "allow-private", value_name = "ADDRESSES")]
    pub(crate) private_addresses: Vec<String>,

    /// Print the option for every request that the program tries and that is not allowed, also without `--allow-http`
    #[arg(id = "jail.observe", long = "observe")]
    pub(crate) observe: bool,

    /// Environment variable for the program; `NAME` alone has your value; repeatable
    #[arg(id = "jail.env", long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,

    /// Folder that the program has as its home, such as for caches [default: one that is removed at its end]
    #[arg(id = "jail.home", long = "home", value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) limits: ProgramLimitsSection,
}

impl JailArguments {
    /// Returns the section of a configuration that says the same about this command.
    ///
    /// # Errors
    /// If the isolation cannot be that of a program, or a variable has no value.
    pub(crate) fn section(&self, command: &[String], isolation: Option<Mode>) -> Result<McpServerSection, UsageError> {
        let isolation = match isolation {
            None | Some(Mode::Auto | Mode::Process) => ProgramIsolation::Jail,
            Some(Mode::ProcessRequired) => ProgramIsolation::Required,
            Some(Mode::InProcess) => {
                let message = "--isolation in-process: a program has a process of its own; expected `process` or \
                               `process=required`";
                return Err(UsageError(message.to_owned()));
            }
        };
        let variables = self.env.iter().map(|text| variable(text));
        let observed = self.observe.then(|| NOWHERE.to_owned());
        Ok(McpServerSection {
            command: Some(command.to_vec()),
            isolation: Some(isolation),
            read: self.read.clone(),
            write: self.write.clone(),
            http: self.http.iter().cloned().chain(observed).collect(),
            private_addresses: self.private_addresses.clone(),
            limits: Some(self.limits.clone()),
            env: variables.collect::<Result<BTreeMap<_, _>, _>>()?,
            ..McpServerSection::default()
        })
    }

    /// Returns the options as they are typed again, with absolute paths.
    ///
    /// # Errors
    /// If a path is not UTF-8, or the working folder is not known.
    pub(crate) fn words(&self) -> Result<Vec<String>, UsageError> {
        let mut words = Vec::new();
        for (option, paths) in [
            ("--allow-read", self.read.iter()),
            ("--allow-write", self.write.iter()),
            ("--home", self.home.as_slice().iter()),
        ] {
            for path in paths {
                words.extend([option.to_owned(), absolute_text(path)?]);
            }
        }
        let lists = [("--allow-http", &self.http), ("--allow-private", &self.private_addresses), ("--env", &self.env)];
        for (option, values) in lists {
            words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
        }
        let limits = toml::Table::try_from(&self.limits).unwrap_or_default();
        for (key, value) in limits {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            words.extend([format!("--{}", key.replace('_', "-")), value]);
        }
        Ok(words)
    }

    /// Returns whether an option was typed.
    pub(crate) fn has_any(&self) -> bool {
        let Self { read, write, http, private_addresses, observe, env, home, limits } = self;
        let lists = read.len() + write.len() + http.len() + private_addresses.len() + env.len();
        lists > 0 || *observe || home.is_some() || *limits != ProgramLimitsSection::default()
    }
}

fn absolute_text(path: &Path) -> Result<String, UsageError> {
    let absolute = std::path::absolute(path).map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
    absolute.into_os_string().into_string().map_err(|_| UsageError(format!("{} is not UTF-8", path.display())))
}

/// Reads `NAME=VALUE`, or `NAME` for the value of this process.
fn variable(text: &str) -> Result<(String, String), UsageError> {
    match text.split_once('=') {
        Some(("", _)) => Err(UsageError("--env: expected NAME=VALUE or NAME".to_owned())),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match std::env::var(text) {
            Ok(value) => Ok((text.to_owned(), value)),
            // The text may be a secret whose name was forgotten.
            Err(_) => {
                Err(UsageError("--env: you have no variable of that name; set it, or write NAME=VALUE".to_owned()))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        jail: Jail,
    }

    fn parse(words: &[&str]) -> Jail {
        Line::try_parse_from(std::iter::once("x").chain(words.iter().copied())).unwrap().jail
    }

    #[test]
    fn options_and_configuration_grant_the_same() {
        let words =
            "--read a --allow-write b --http x --allow-private 127.0.0.1/32 --env A=1=2 --memory 1GiB --cpu 2s tool -x";
        let words: Vec<_> = words.split(' ').collect();
        let jail = parse(&words);
        let section = jail.options.section(&jail.command, Some(Mode::ProcessRequired)).unwrap();
        let text = r#"
            command = ["tool", "-x"]
            isolation = "required"
            read = ["a"]
            write = ["b"]
            http = ["x"]
            private_addresses = ["127.0.0.1/32"]
            env = { A = "1=2" }
            limits = { memory = "1GiB", cpu = "2s" }
        "#;
        assert_eq!(section, toml::from_str(text).unwrap());
        assert!(jail.options.has_any() && !parse(&["tool"]).options.has_any());
        assert!(jail.options.section(&jail.command, Some(Mode::InProcess)).is_err());
    }

    #[test]
    fn a_variable_without_a_value_has_yours() {
        assert_eq!(variable("PATH").unwrap().1, std::env::var("PATH").unwrap());
        let missing = variable("FUMEHOOD_NO_SUCH_VARIABLE").unwrap_err().0;
        assert!(missing.contains("you have no variable") && !missing.contains("FUMEHOOD"), "{missing}");
        assert!(variable("=x").is_err());
    }
}
