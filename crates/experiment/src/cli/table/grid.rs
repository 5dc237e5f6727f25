//! Columns of text: a rule under the header only, and no line wider than the terminal's 80 columns.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Columns of a terminal.
pub const WIDTH: u16 = 80;

/// A table with a rule under its header, wrapped at [`WIDTH`].
pub fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table
}

/// Aligns all columns after the first `left` to the right.
pub fn align(table: &mut Table, left: usize) {
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Rows with one line each. Columns from `left` on hold numbers: aligned to the right and never cut.
#[derive(Debug)]
pub struct Grid {
    left: usize,
    /// The header first.
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A grid with a header, whose first `left` columns are text.
    pub fn new(left: usize, header: Vec<String>) -> Self {
        Self { left, rows: vec![header] }
    }

    /// Adds a row, as long as the header.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The header, the rule, and a line per row; within `width` columns if cutting cells of text is enough.
    pub fn lines(mut self, width: Option<u16>) -> Vec<String> {
        if let Some(width) = width {
            self.shorten(usize::from(width));
        }
        let mut table = new_table();
        table.set_content_arrangement(ContentArrangement::Disabled);
        let mut rows = self.rows.into_iter();
        table.set_header(rows.next().expect("a grid has a header"));
        table.add_rows(rows);
        align(&mut table, self.left);
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Cuts the widest column of text, again and again.
    fn shorten(&mut self, width: usize) {
        loop {
            let widths: Vec<usize> = (0..self.rows[0].len())
                .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
                .collect();
            let total: usize = widths.iter().map(|w| w + PADDING).sum();
            let Some((widest, &w)) = widths[..self.left].iter().enumerate().max_by_key(|(_, w)| **w) else { return };
            if total <= width || w <= NARROWEST {
                return;
            }
            let room = w.saturating_sub(total - width).max(NARROWEST).max(w.saturating_sub(STEP));
            for row in &mut self.rows {
                if row[widest].chars().count() > room {
                    row[widest] = row[widest].chars().take(room - 1).chain(['…']).collect();
                }
            }
        }
    }
}

/// Spaces from one cell to the next.
const PADDING: usize = 3;
/// Characters that a text keeps.
const NARROWEST: usize = 6;
/// Characters cut at once, so that columns shrink together.
const STEP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_before_numbers() {
        let mut grid = Grid::new(2, ["source", "run", "goodput"].map(str::to_owned).to_vec());
        grid.row(vec!["s".repeat(90), "r".repeat(30), "14.2 Gbps".to_owned()]);
        grid.row(["a", "b", "1 bps"].map(str::to_owned).to_vec());
        let lines = grid.lines(Some(WIDTH));
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].chars().all(|c| c == '─'));
        assert!(lines[2].contains('…') && lines[2].ends_with("14.2 Gbps"), "{}", lines[2]);
    }
}
