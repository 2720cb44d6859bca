//! Translation of hints from keys of a configuration to options of the command line.

use std::net::IpAddr;
use std::sync::LazyLock;

use clap::{Arg, Args as _, Command};
use fumehood_config::limits::LimitsSection;
use fumehood_config::powers::Powers;
use toml::{Table, Value};

/// Keys of `[tools.NAME]`, with their options on the command line.
static OPTIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let command = Powers::augment_args(Command::new("powers"));
    command.get_arguments().filter_map(|arg| key_and_option(arg, "powers.")).collect()
});

/// Keys of `limits`, with their options on the command line.
static LIMIT_OPTIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let command = LimitsSection::augment_args(Command::new("limits"));
    command.get_arguments().filter_map(|arg| key_and_option(arg, "limits.")).collect()
});

/// Keys whose values may be shown again. Values of other keys may be secrets, or have them.
const SHOWN_KEYS: [&str; 6] = ["read", "write", "http", "tcp", "private_addresses", "app_origins"];

/// Keys whose rules need `private_addresses` for hosts on this machine.
pub(crate) const REACHING_KEYS: [&str; 2] = ["http", "tcp"];

fn key_and_option(arg: &Arg, prefix: &str) -> Option<(String, String)> {
    let key = arg.get_id().as_str().strip_prefix(prefix)?;
    Some((key.to_owned(), format!("--{}", arg.get_long()?)))
}

/// Formats a key of `[tools.NAME]` and its value as options, quoted for a shell. `None` if there are none.
pub(crate) fn options_of(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Table(limits) if key == "limits" => {
            let known = limits.iter().filter_map(|(name, value)| {
                let (_, option) = LIMIT_OPTIONS.iter().find(|(known, _)| known == name)?;
                options(option, value)
            });
            Some(known.collect::<Vec<_>>().join(" "))
        }
        value => options(option(key)?, value),
    }
}

/// Returns the option of a key, if there is one.
pub(crate) fn option(key: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(name, _)| *name == key).map(|(_, option)| option.as_str())
}

/// Formats powers as options, in the order of the command line, without values that may be secrets.
pub(crate) fn options_without_secrets(powers: &Table) -> Vec<String> {
    let typed = OPTIONS.iter().filter_map(|(key, option)| Some((key.as_str(), option, powers.get(key)?)));
    typed.flat_map(|(key, option, value)| words_without_secrets(key, option, value)).collect()
}

fn words_without_secrets(key: &str, option: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Boolean(true) => vec![option.to_owned()],
        Value::Boolean(false) => Vec::new(),
        Value::Array(values) if SHOWN_KEYS.contains(&key) => {
            let word = |value: &Value| value.as_str().map_or("…".to_owned(), |text| format!("{text:?}"));
            values.iter().map(|value| format!("{option} {}", word(value))).collect()
        }
        Value::Table(variables) if key == "env" => variables.keys().map(|name| format!("{option} {name}=…")).collect(),
        _ => vec![format!("{option} …")],
    }
}

/// Translates the hints of a message. The line of a configuration that ends a line of it becomes options.
pub(crate) fn translate(message: &str) -> String {
    message.lines().map(translate_line).collect::<Vec<_>>().join("\n")
}

fn translate_line(line: &str) -> String {
    let named = OPTIONS
        .iter()
        .fold(line.to_owned(), |line, (key, option)| line.replace(&format!("`{key}`"), &format!("`{option}`")));
    let line = named.replace("`strict_imports`", "`--strict-imports`");
    let starts =
        OPTIONS.iter().filter_map(|(key, option)| Some((start_of(&line, key)?, key.as_str(), option.as_str())));
    let translated = starts.filter_map(|(start, key, option)| {
        let (before, toml) = line.split_at_checked(start)?;
        let table: Table = toml.parse().ok()?;
        let (1, Some(value)) = (table.len(), table.get(key)) else { return None };
        let more = if REACHING_KEYS.contains(&key) { private_options(value) } else { String::new() };
        Some(format!("{before}{}{more}", options(option, value)?))
    });
    translated.into_iter().next().unwrap_or_else(|| line.clone())
}

/// Returns the options that rules for this machine need besides.
fn private_options(rules: &Value) -> String {
    private_networks(rules).map(|network| format!(" --allow-private {network}")).collect()
}

/// Returns the `private_addresses` that rules for this machine need besides.
pub(crate) fn private_networks(rules: &Value) -> impl Iterator<Item = String> {
    rules.as_array().into_iter().flatten().filter_map(Value::as_str).flat_map(loopback_networks)
}

/// Returns the networks of the host of a rule, such as `GET http://127.0.0.1:80/**` or `127.0.0.1:80`, if it is this machine.
fn loopback_networks(rule: &str) -> Vec<String> {
    let target = rule.split_once("://").map_or(rule, |(_, rest)| rest);
    let authority = target.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    match host.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => {
            vec![format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })]
        }
        Err(_) if host == "localhost" => vec!["127.0.0.1/32".to_owned(), "::1/128".to_owned()],
        _ => Vec::new(),
    }
}

/// Finds the position of the last `key = ` of a line.
fn start_of(line: &str, key: &str) -> Option<usize> {
    let start = line.rfind(&format!("{key} = "))?;
    let is_whole = line.get(..start)?.chars().next_back().is_none_or(|c| c.is_whitespace());
    is_whole.then_some(start)
}

/// Formats a value as options, quoted for a shell.
fn options(option: &str, value: &Value) -> Option<String> {
    let words: Vec<String> = match value {
        // An option without a value.
        Value::Boolean(true) => return Some(option.to_owned()),
        Value::Array(values) => values.iter().map(word).collect::<Option<_>>()?,
        Value::Table(members) if option == "--env" => {
            members.iter().map(|(name, value)| Some(format!("{name}={}", value.as_str()?))).collect::<Option<_>>()?
        }
        value => vec![word(value)?],
    };
    Some(words.iter().map(|word| format!("{option} {}", quoted(word))).collect::<Vec<_>>().join(" "))
}

fn word(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Table(_) => value.to_string(),
        _ => return None,
    })
}

/// Quotes a word for a shell, if that is necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_translated(message: &str, expected: &str) {
        assert_eq!(translate(message), expected)
    }

    #[test]
    fn lines_of_a_configuration_become_options() {
        assert_translated(
            "127.0.0.1 is a loopback address; allow it by private_addresses = [\"127.0.0.1/32\"]",
            "127.0.0.1 is a loopback address; allow it by --allow-private 127.0.0.1/32",
        );
        assert_translated(
            "to allow it: http = [\"GET https://HOST/**\"]",
            "to allow it: --allow-http 'GET https://HOST/**'",
        );
        assert_translated(
            "to allow it: http = [\"GET http://127.0.0.1:80/**\"]",
            "to allow it: --allow-http 'GET http://127.0.0.1:80/**' --allow-private 127.0.0.1/32",
        );
        assert_translated(
            "to allow it: http = [\"GET http://[::1]/**\"]",
            "to allow it: --allow-http 'GET http://[::1]/**' --allow-private ::1/128",
        );
        assert_translated(
            "to allow it: http = [\"GET http://10.0.0.1/**\"]",
            "to allow it: --allow-http 'GET http://10.0.0.1/**'",
        );
        assert_translated("to allow it: state = true", "to allow it: --allow-state");
        assert_translated("to allow it: key_value = \"1MiB\"", "to allow it: --key-value 1MiB");
        assert_translated("to allow it: random_seed = 1", "to allow it: --random-seed 1");
        assert_translated("to allow it: env = { NAME = \"a b\" }", "to allow it: --env 'NAME=a b'");
        assert_translated(
            "to allow it: read = [\"./a:/a\", \"./it's:/b\"]",
            r"to allow it: --allow-read ./a:/a --allow-read './it'\''s:/b'",
        );
        assert_translated(
            "`private_addresses` has no effect without `http` or `tcp`",
            "`--allow-private` has no effect without `--allow-http` or `--allow-tcp`",
        );
        assert_translated("one\nto allow it: clock = \"1us\"\nthree", "one\nto allow it: --clock 1us\nthree");
    }

    #[test]
    fn other_texts_stay() {
        for text in ["", "no hint", "state = false", "http = [", "xhttp = [\"a\"]", "http = [\"a\"] and more"] {
            assert_eq!(translate(text), text);
        }
    }
}
