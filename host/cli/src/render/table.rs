//! Tables in the style of this command.

use std::io::IsTerminal as _;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, TableStyle};

/// Style with lines above and below and one under the headings, and none between the rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Creates a table with these headings. The columns in `right` are aligned to the right.
pub(crate) fn new(headings: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    // Without a terminal nothing is wrapped, because a file has no width.
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

/// Creates a cell that heads the rows below it.
pub(crate) fn heading(text: &str) -> Cell {
    Cell::new(text).add_attribute(comfy_table::Attribute::Bold)
}

/// Creates a cell that is green for a good outcome and red for a bad one.
pub(crate) fn verdict(text: &str, good: bool) -> Cell {
    Cell::new(text).fg(if good { Color::Green } else { Color::Red })
}
