//! The imports of a component, in words.

use anyhow::Result;
use fumehood::Import;

use super::quotation::{Quotation, own};
use super::{BAD, line, styled};

/// Explains imports: first those that work without a grant, then those that need one.
pub(super) fn in_words(imports: &[Import]) -> Result<()> {
    print(imports, None)
}

/// The same, with the interfaces behind each meaning.
pub(super) fn with_names(imports: &[Import], quotation: &mut Quotation) -> Result<()> {
    print(imports, Some(quotation))
}

fn print(imports: &[Import], mut names: Option<&mut Quotation>) -> Result<()> {
    if imports.is_empty() {
        return own(4, "none: it can compute, and nothing else");
    }
    let free: Vec<&Import> = imports.iter().filter(|import| import.power.is_none()).collect();
    if !free.is_empty() {
        own(4, "without any grant")?;
        meanings(&free, names.as_deref_mut())?;
    }
    let mut powers: Vec<&str> = imports.iter().filter_map(|import| import.power).collect();
    powers.sort_unstable();
    powers.dedup();
    for power in &powers {
        let needing: Vec<&Import> = imports.iter().filter(|import| import.power == Some(power)).collect();
        line(&format!("    only with a grant of `{}`", styled(BAD, power)))?;
        meanings(&needing, names.as_deref_mut())?;
    }
    if powers.is_empty() {
        own(4, "and no more than that: there is nothing to grant")?;
    }
    Ok(())
}

/// Each meaning once, with the interfaces that it stands for where they are wanted.
fn meanings(imports: &[&Import], mut names: Option<&mut Quotation>) -> Result<()> {
    let mut told: Vec<&str> = Vec::new();
    for import in imports {
        if told.contains(&import.meaning) {
            continue;
        }
        told.push(import.meaning);
        own(6, import.meaning)?;
        if let Some(quotation) = names.as_deref_mut() {
            for same in imports.iter().filter(|other| other.meaning == import.meaning) {
                quotation.block(8, &same.name)?;
            }
        }
    }
    Ok(())
}
