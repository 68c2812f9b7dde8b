//! Offsets of versions that don't describe themselves.

use super::version::Version;

/// The offsets of one version.
pub(super) struct Table {
    column: usize,
}

impl Table {
    /// Of this version, where it stands in the table.
    pub(super) fn of(version: Version) -> Option<Table> {
        let name = version.to_string();
        let head = rows().next()?;
        let column = head.split('\t').position(|cell| cell == name)?;
        Some(Table { column })
    }

    /// The offset of a field, where this version has it.
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
    fn each_version_has_its_column_and_each_row_is_whole() {
        let columns = rows().next().unwrap().split('\t').count();
        for row in rows().skip(1) {
            assert_eq!(row.split('\t').count(), columns, "{row}");
            assert!(row.split('\t').skip(1).all(|cell| cell == "-" || cell.parse::<u32>().is_ok()), "{row}");
        }
        assert!(Table::of(Version(3, 5)).is_none());
        let table = Table::of(Version(3, 12)).unwrap();
        assert_eq!((table.get("code.instructions"), table.get("thread.frame")), (Some(192), None));
    }
}
