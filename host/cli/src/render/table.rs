//! Tables for people.

use std::io::IsTerminal as _;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, TableStyle};

/// Lines above and below, one under the headings, none between the rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// A table with these headings. Columns named in `right` hold figures.
pub(crate) fn new(headings: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    // Without a terminal nothing is wrapped: a program or a file has no edge.
    if !std::io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
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

/// A cell that heads the rows below it.
pub(crate) fn heading(text: &str) -> Cell {
    Cell::new(text).add_attribute(comfy_table::Attribute::Bold)
}

/// A cell that says whether things went as they should.
pub(crate) fn verdict(text: &str, good: bool) -> Cell {
    Cell::new(text).fg(if good { Color::Green } else { Color::Red })
}
