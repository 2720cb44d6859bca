//! The wishes of a component's author, beside what it imports.

use anyhow::Result;
use fumehood::Component;
use fumehood::permission::Power;
use fumehood::settings::Wishes;
use serde::Serialize;

use super::component::powers;
use super::line;
use super::quotation::{Quotation, write_host_text};

/// The wishes of a component's author, and what is wrong with them.
#[derive(Debug, Serialize)]
pub(crate) struct WishReport {
    /// The wishes.
    wanted: Wishes,
    /// The reason why they cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// Powers that it imports and its author does not ask for.
    imports_beyond: Vec<Power>,
}

impl WishReport {
    /// Reads the wishes of a component; `None` if it has none.
    pub(crate) fn read(component: &Component) -> Option<Self> {
        let (wanted, fault) = match Wishes::from_section(component.wishes()?) {
            Ok(wanted) => (wanted, None),
            Err(error) => (Wishes::default(), Some(error.to_string())),
        };
        let mut imports_beyond = powers(component.imports());
        // An import of a power that nobody can grant is no wish.
        imports_beyond
            .retain(|power| power.example().is_some() && !wanted.iter().any(|wish| wish.power() == Some(*power)));
        Some(Self { wanted, fault, imports_beyond })
    }

    /// Returns the wishes; none if they cannot be used.
    pub(crate) fn wanted(&self) -> &Wishes {
        &self.wanted
    }

    /// Prints the wishes before a question about them.
    pub(crate) fn show(&self) -> Result<()> {
        self.print(&mut Quotation::new(true))
    }

    /// Prints the wishes below a heading.
    pub(super) fn print(&self, quotation: &mut Quotation) -> Result<()> {
        if let Some(fault) = &self.fault {
            write_host_text(2, "the wishes of the author are ignored, because they are not valid")?;
            return quotation.write_block(4, fault);
        }
        line("  the author asks for (this grants nothing)")?;
        self.wanted.to_string().lines().try_for_each(|wish| quotation.write_block(4, wish))?;
        if self.imports_beyond.is_empty() {
            return Ok(());
        }
        let beyond: Vec<&str> = self.imports_beyond.iter().map(|power| power.as_str()).collect();
        let beyond = beyond.join(", ");
        write_host_text(
            4,
            &format!("imports more than that: {beyond} (language runtimes import what they may not use)"),
        )
    }
}
