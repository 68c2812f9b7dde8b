//! Offsets of versions that don't describe themselves.

use super::version::Version;

/// The offsets of one version.
pub(super) struct Table {
    column: usize,
}

impl Table {
    /// Returns the offsets of `version`, `None` if it has no column in the table.
    pub(super) fn for_version(version: Version) -> Option<Table> {
        let name = version.to_string();
        let head = rows().next()?;
        let column = head.split('\t').position(|cell| cell == name)?;
        Some(Table { column })
    }

    /// Returns the offset of a field, `None` if this version has no such field.
    pub(super) fn get(&self, field: &str) -> Option<u32> {
        let row = rows().find(|row| row.split('\t').next() == Some(field))?;
        row.split('\t').nth(self.column)?.parse().ok()
    }
}

fn rows() -> impl Iterator<Item = &'static str> {
    include_str!("offsets.tsv").lines().filter(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_cell_for_each_version() {
        let columns = rows().next().unwrap().split('\t').count();
        for row in rows().skip(1) {
            assert_eq!(row.split('\t').count(), columns, "{row}");
            assert!(row.split('\t').skip(1).all(|cell| cell == "-" || cell.parse::<u32>().is_ok()), "{row}");
        }
        assert!(Table::for_version(Version(3, 5)).is_none());
        let table = Table::for_version(Version(3, 12)).unwrap();
        assert_eq!((table.get("code.instructions"), table.get("thread.frame")), (Some(192), None));
    }
}
