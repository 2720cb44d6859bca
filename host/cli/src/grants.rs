//! The grants of a component that is added: those that were typed, and the wishes of its author that were granted.

use std::path::Path;

use anyhow::{Context as _, Result};
use fumehood::read_wishes;
use fumehood::settings::{AnswerKind, LimitsSection, Powers, Wish, Wishes, answer_variable};
use toml::Table;

use crate::flags;
use crate::{question, render};

/// A value of a secret that is not read before the grant is made.
const UNREAD_SECRET: &str = "UNREAD";

/// The answer to the question about all wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    All,
    Each,
    None,
}

/// The powers and limits of a component, and the wishes that led to them or were left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grants {
    powers: Powers,
    limits: LimitsSection,
    /// Wishes that were granted, for their reasons.
    granted: Vec<Wish>,
    /// Wishes that are to be granted once the operator has named a folder, a value or a secret.
    unfilled: Vec<Wish>,
    /// Wishes that were refused, or not decided.
    refused: Vec<Wish>,
}

impl Grants {
    /// Creates the grants of options.
    pub(crate) fn typed(powers: &Powers, limits: &LimitsSection) -> Self {
        Self { powers: powers.clone(), limits: limits.clone(), ..Self::default() }
    }

    /// Decides on the wishes that the options did not decide on. With `may_ask`, the operator is asked; without it, the
    /// answer is `default`. Folders are relative to `base`. Returns whether a grant was added.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    pub(crate) fn decide(&mut self, wishes: &Wishes, default: Answer, may_ask: bool, base: &Path) -> Result<bool> {
        let is_open = |wish: &&Wish| !wish.is_decided(&self.powers, &self.limits);
        let open: Vec<Wish> = wishes.iter().filter(is_open).cloned().collect();
        if open.is_empty() {
            return Ok(false);
        }
        let answer = if may_ask && default == Answer::None { ask_for_all(open.len())? } else { default };
        for wish in open {
            let is_granted = match answer {
                Answer::All => true,
                Answer::None => false,
                Answer::Each => question::ask(&format!("Grant {wish}?"))?,
            };
            if is_granted {
                self.grant(wish, may_ask, base)?;
            } else {
                self.refused.push(wish);
            }
        }
        Ok(!self.granted.is_empty())
    }

    /// Grants the wishes that variables of the environment answer: with `true`, a folder, a value or a secret. A program leaves
    /// `${…}` where its user set nothing.
    pub(crate) fn take_answers(&mut self, wishes: &Wishes, variable: &dyn Fn(&str) -> Option<String>, base: &Path) {
        for (name, wish) in wishes.named() {
            if wish.is_decided(&self.powers, &self.limits) {
                continue;
            }
            let name = answer_variable(&name);
            let answer = variable(&name).filter(|answer| !answer.is_empty() && !answer.starts_with("${"));
            match (wish.answer_kind(), answer) {
                (AnswerKind::Switch, Some(answer)) if answer.eq_ignore_ascii_case("true") => {
                    self.grant_with(wish.clone(), None, base);
                }
                (AnswerKind::Folder | AnswerKind::Text, Some(answer)) => {
                    self.grant_with(wish.clone(), Some(&answer), base);
                }
                // The secret is read from the variable itself.
                (AnswerKind::Secret, Some(_)) => self.grant_with(wish.clone(), Some(&name), base),
                (AnswerKind::Switch, _) => render::note(&format!("not granted: {wish}; {name}=true grants it")),
                (AnswerKind::Secret, None) => {
                    render::note(&format!("not granted: {wish}; to grant it, set {name} to the secret"));
                }
                (AnswerKind::Folder | AnswerKind::Text, None) => {
                    let what = wish.missing_value().unwrap_or_default();
                    render::note(&format!("not granted: {wish}; to grant it, set {name} to {what}"));
                }
            }
        }
    }

    /// Grants one wish, with a value of the operator if it needs one.
    fn grant(&mut self, wish: Wish, may_ask: bool, base: &Path) -> Result<()> {
        let value = match wish.missing_value() {
            None => None,
            Some(what) => {
                let typed = if may_ask {
                    question::ask_text(&format!("Type {what}, or nothing to leave it out:"))?
                } else {
                    String::new()
                };
                if typed.is_empty() {
                    self.unfilled.push(wish);
                    return Ok(());
                }
                Some(typed)
            }
        };
        self.grant_with(wish, value.as_deref(), base);
        Ok(())
    }

    fn grant_with(&mut self, wish: Wish, value: Option<&str>, base: &Path) {
        let mut powers = self.powers.clone();
        wish.add_to(&mut powers, &mut self.limits, value);
        match powers.grant(base, &|_| Ok(UNREAD_SECRET.to_owned())) {
            Ok(_) => {
                self.powers = powers;
                self.granted.push(wish);
            }
            Err(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                render::warning(&format!("left out {wish}: {}", faults.join("; ")));
                self.refused.push(wish);
            }
        }
    }

    /// Returns the powers and limits.
    pub(crate) fn into_parts(self) -> (Powers, LimitsSection) {
        (self.powers, self.limits)
    }

    /// Returns the keys and values for the section of the component.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn table(&self) -> Result<Table> {
        to_table(&self.powers, &self.limits)
    }

    /// Returns the reasons for the grant of a key, as its author gives them.
    pub(crate) fn reasons(&self, key: &str) -> Vec<&str> {
        let of_key = self.granted.iter().filter(|wish| table_of(wish).is_ok_and(|table| table.contains_key(key)));
        of_key.filter_map(Wish::reason).collect()
    }

    /// Returns comments for the wishes that wait for the operator: what to do, and the line that grants each.
    pub(crate) fn comments(&self) -> Result<Vec<String>> {
        let mut comments = Vec::new();
        for wish in &self.unfilled {
            let reason = wish.reason().map(|reason| format!(" {reason}")).unwrap_or_default();
            let what = wish.missing_value().unwrap_or_default();
            comments.push(format!("Wanted{reason}. To grant it, write {what}, and approve again:"));
            comments.extend(table_of(wish)?.iter().map(|(key, value)| format!("{key} = {value}")));
        }
        Ok(comments)
    }

    /// Says which wishes wait for a folder, a value or a secret, and the options that grant them.
    pub(crate) fn report_unfilled(&self) -> Result<()> {
        for wish in &self.unfilled {
            let options: Vec<String> =
                table_of(wish)?.iter().filter_map(|(key, value)| flags::options_of(key, value)).collect();
            let what = wish.missing_value().unwrap_or_default();
            render::note(&format!("not granted: {wish}; name {what} with {}", options.join(" ")));
        }
        Ok(())
    }

    /// Says which wishes were not granted, and the options that would grant them.
    pub(crate) fn report(&self, name: &str) -> Result<()> {
        for wish in &self.unfilled {
            let what = wish.missing_value().unwrap_or_default();
            render::note(&format!("not granted: {wish}; write {what} in [tools.{name}], where it is a comment"));
        }
        if self.refused.is_empty() {
            return Ok(());
        }
        let mut options = Vec::new();
        for wish in &self.refused {
            options.extend(table_of(wish)?.iter().filter_map(|(key, value)| flags::options_of(key, value)));
        }
        let count = self.refused.len();
        let noun = if count == 1 { "1 wish of its author is" } else { &format!("{count} wishes of its author are") };
        render::note(&format!(
            "{noun} not granted; `add` grants all with --grant-wishes, and these with {}",
            options.join(" ")
        ));
        Ok(())
    }
}

/// Reads the wishes of a component. Wishes that are not valid are reported, and count as none.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn wishes_of_file(file: &Path) -> Result<Wishes> {
    let component = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(match read_wishes(&component).map(|text| Wishes::from_section(&text)) {
        Some(Ok(wishes)) => wishes,
        Some(Err(error)) => {
            render::warning(&format!("the wishes of its author are ignored, because they are not valid: {error}"));
            Wishes::default()
        }
        None => Wishes::default(),
    })
}

/// Asks whether all wishes are granted, none, or some.
fn ask_for_all(count: usize) -> Result<Answer> {
    let noun = if count == 1 { "wish".to_owned() } else { format!("{count} wishes") };
    let typed = question::ask_text(&format!("Grant the {noun} of its author? [y/N, or c to choose one by one]"))?;
    Ok(match typed.to_lowercase().as_str() {
        "y" | "yes" => Answer::All,
        "c" | "choose" => Answer::Each,
        _ => Answer::None,
    })
}

/// Returns a wish as lines of a configuration, with placeholders.
fn table_of(wish: &Wish) -> Result<Table> {
    let mut powers = Powers::default();
    let mut limits = LimitsSection::default();
    wish.add_to(&mut powers, &mut limits, None);
    to_table(&powers, &limits)
}

fn to_table(powers: &Powers, limits: &LimitsSection) -> Result<Table> {
    let mut table = Table::try_from(powers)?;
    // Switches that are off are left out.
    table.retain(|_, value| value.as_bool() != Some(false));
    if *limits != LimitsSection::default() {
        table.insert("limits".to_owned(), Table::try_from(limits)?.into());
    }
    Ok(table)
}
