//! Tables in the style of this command.

use anyhow::Result;
use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};
use fumehood_platform::terminal;
use unicode_width::UnicodeWidthStr as _;

/// Style with lines above and below and one under the headings, and none between the rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Minimum width of a column whose texts are wrapped, unless all of them are shorter.
const MIN_TEXT_CELLS: usize = 24;

/// Creates a table with these headings. The columns in `right` are aligned to the right.
pub(crate) fn new(headings: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    match anstream::AutoStream::choice(&std::io::stdout()) {
        anstream::ColorChoice::Never => table.force_no_tty(),
        _ => table.enforce_styling(),
    };
    table.set_header(headings.iter().map(|text| heading(text)));
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a table. On a screen that is too narrow for it, the texts of the column `flexible` are wrapped between words, and
/// the columns `optional` are left out, the first of them first. Without a terminal all of it is printed, because a file has
/// no width.
pub(crate) fn print(mut table: Table, flexible: usize, optional: &[usize]) -> Result<()> {
    let hidden = terminal::stdout_columns().map(|columns| fit(&mut table, columns, flexible, optional));
    super::lines(&table.to_string())?;
    if let Some(hidden) = hidden.filter(|hidden| !hidden.is_empty()) {
        super::hint(&format!("the terminal is too narrow for: {}; `--json` shows everything", hidden.join(", ")));
    }
    Ok(())
}

/// Fits a table into so many columns of a screen. Returns the headings of the columns that were left out.
fn fit(table: &mut Table, columns: usize, flexible: usize, optional: &[usize]) -> Vec<String> {
    table.set_width(u16::try_from(columns).unwrap_or(u16::MAX)).set_content_arrangement(ContentArrangement::Dynamic);
    let mut widths: Vec<Option<usize>> =
        table.column_max_content_widths().into_iter().map(|width| Some(usize::from(width))).collect();
    if let Some(width) = widths.get_mut(flexible) {
        let min = longest_word(table, flexible).max(MIN_TEXT_CELLS);
        *width = width.map(|width| width.min(min));
    }
    let mut hidden = Vec::new();
    for index in optional {
        if total_cells(&widths) <= columns {
            break;
        }
        if let (Some(width), Some(column)) = (widths.get_mut(*index), table.column_mut(*index)) {
            *width = None;
            column.set_constraint(ColumnConstraint::Hidden);
        }
        hidden.extend(table.header().and_then(|header| header.cell_iter().nth(*index)).map(Cell::content));
    }
    if total_cells(&widths) <= columns {
        let rigid = widths.iter().enumerate().filter(|(index, width)| *index != flexible && width.is_some());
        for (index, _) in rigid {
            if let Some(column) = table.column_mut(index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
    hidden
}

/// Returns the width of a row: each column has a space on both sides, and there is one between two columns.
fn total_cells(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().map(|width| width + 3).sum::<usize>().saturating_sub(1)
}

/// Returns the width of the longest word of a column.
fn longest_word(table: &Table, column: usize) -> usize {
    let cells = table.header().into_iter().chain(table.row_iter()).filter_map(|row| row.cell_iter().nth(column));
    let longest = |cell: &Cell| cell.content().split_whitespace().map(|word| word.width()).max().unwrap_or_default();
    cells.map(longest).max().unwrap_or_default()
}

/// Creates a cell that heads the rows below it.
pub(crate) fn heading(text: &str) -> Cell {
    Cell::new(text).add_attribute(comfy_table::Attribute::Bold)
}

/// Creates a cell that is green for a good outcome and red for a bad one.
pub(crate) fn verdict(text: &str, good: bool) -> Cell {
    Cell::new(text).fg(if good { Color::Green } else { Color::Red })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_into_every_screen_without_breaking_a_word() {
        let rows = [
            ["read http://[::ffff:127.0.0.1] by another way of writing it", "output_too_large", "12.3 ms", "64.0 MiB"],
            ["a heading of a section, longer than any of its rows is and still whole", "", "", ""],
            ["x", "ok", "–", "–"],
        ];
        let words = rows.iter().flat_map(|row| row[0].split(' ').chain([row[1]]));
        for columns in [60, 80, 100, 120] {
            let mut table = new(&["call", "outcome", "time", "peak memory"], &[2, 3]);
            table.force_no_tty().add_rows(rows);
            let hidden = fit(&mut table, columns, 0, &[3, 2]);
            let text = table.to_string();
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}:\n{text}");
            for word in words.clone() {
                assert!(text.contains(word), "{word} in {columns} columns:\n{text}");
            }
            assert_eq!(hidden, if columns == 60 { vec!["peak memory".to_owned()] } else { Vec::new() }, "{columns}");
        }
    }
}
