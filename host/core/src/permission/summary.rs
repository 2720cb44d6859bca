//! A grant in words, for models and the people in front of them: nothing about the machine that it is for.

use super::files::Access;
use super::{Grant, Power};

impl Grant {
    /// What a tool with this grant may do beyond computing, one phrase for each power. Neither folders of the host nor any
    /// values are in it.
    #[must_use]
    pub fn phrases(&self) -> Vec<String> {
        let mut phrases: Vec<String> = Vec::new();
        for folder in self.folders() {
            let verb = if folder.access() == Access::Read { "read" } else { "read and change" };
            phrases.push(format!("{verb} files in {}", folder.guest()));
        }
        if let Some(http) = self.http() {
            let rules: Vec<String> = http.rules().iter().map(ToString::to_string).collect();
            phrases.push(format!("make HTTP requests ({})", rules.join(", ")));
        }
        let others = [
            (self.scratch().is_some(), "use temporary files"),
            (self.has(Power::KeyValue), "keep values between calls"),
            (self.has(Power::State), "read the state of the agent"),
            (self.has(Power::Env) || self.has(Power::Args), "read its own settings"),
            (self.has(Power::Secrets), "use secrets without seeing them"),
        ];
        phrases.extend(others.into_iter().filter(|(has, _)| *has).map(|(_, phrase)| phrase.to_owned()));
        phrases
    }
}

#[cfg(test)]
mod tests {
    use super::super::Environment;
    use super::super::files::Folder;
    use super::*;

    #[test]
    fn phrases_name_no_folder_of_the_host_and_no_value() {
        assert!(Grant::none().phrases().is_empty());
        let environment = Environment::default().with("KEY", "value").unwrap();
        let folder = Folder::read("/home/someone/docs:/docs").unwrap();
        let grant = Grant::none().with_environment(environment).with_folder(folder).unwrap();
        assert_eq!(grant.phrases(), ["read files in /docs", "read its own settings"]);
    }
}
