//! Columns of text: a rule under the header only, and no line wider than the terminal's 80 columns.

use std::ops::Range;

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

/// Wraps a text between words at [`WIDTH`]; its further lines begin with `indent` spaces.
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > usize::from(WIDTH) {
            lines += &format!("\n{:indent$}", "");
            used = indent;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += length;
    }
    lines
}

/// Rows with one line each. Columns of text are aligned to the left, those after them, numbers, to the right.
#[derive(Debug)]
pub struct Grid {
    /// The columns of text that may be cut; those before them are text as well.
    cut: Range<usize>,
    /// The header first.
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A grid with a header, whose columns up to `cut.end` are text; those of `cut` are cut where there is no room.
    pub fn new(cut: Range<usize>, header: Vec<String>) -> Self {
        Self { cut, rows: vec![header] }
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
        align(&mut table, self.cut.end);
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Cuts the widest column of text, again and again.
    fn shorten(&mut self, width: usize) {
        loop {
            let widths: Vec<usize> = (0..self.rows[0].len())
                .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
                .collect();
            let total: usize = widths.iter().map(|w| w + PADDING).sum();
            let Some((widest, w)) = self.cut.clone().map(|column| (column, widths[column])).max_by_key(|(_, w)| *w) else {
                return;
            };
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
        let mut grid = Grid::new(0..2, ["source", "run", "goodput"].map(str::to_owned).to_vec());
        grid.row(vec!["s".repeat(90), "r".repeat(30), "14.2 Gbps".to_owned()]);
        grid.row(["a", "b", "1 bps"].map(str::to_owned).to_vec());
        let lines = grid.lines(Some(WIDTH));
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].chars().all(|c| c == '─'));
        assert!(lines[2].contains('…') && lines[2].ends_with("14.2 Gbps"), "{}", lines[2]);
    }

    #[test]
    fn a_column_before_those_that_may_be_cut_stays() {
        let mut grid = Grid::new(1..2, ["verdict", "run", "goodput"].map(str::to_owned).to_vec());
        grid.row(vec!["not comparable".to_owned(), "r".repeat(80), "14.2 Gbps".to_owned()]);
        let lines = grid.lines(Some(WIDTH));
        assert!(lines[2].starts_with(" not comparable   rrr") && lines[2].chars().count() <= 80, "{}", lines[2]);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let text = format!("{} {} {}", "a".repeat(60), "b".repeat(19), "c".repeat(90));
        assert_eq!(wrapped(&text, 2), format!("{} {}\n  {}", "a".repeat(60), "b".repeat(19), "c".repeat(90)));
        assert_eq!(wrapped("short", 2), "short");
    }
}
