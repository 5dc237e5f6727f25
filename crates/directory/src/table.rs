//! Tables for people: a rule under the header only, as all of Weft's.

use comfy_table::{LineStyle, Table, TableStyle};

/// A table with these columns.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(header.iter().copied());
    table
}
