//! Offsets of the fields of Ruby's structures, by version.

/// Offsets of the fields of a version's structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// In the structure of a thread: the execution context; up to 2.7.
    pub(super) thread_context: Option<u32>,
    /// Size of a control frame.
    pub(super) frame_size: u32,
    /// In the body of an instruction sequence: the line table.
    pub(super) lines: u32,
    /// In the body of an instruction sequence: the sequence of its method.
    pub(super) local: u32,
    /// In the body of an instruction sequence: the sequence around it.
    pub(super) parent: u32,
    /// Size of an entry of the line table.
    pub(super) line_size: u32,
    /// Number of tag bits of a first line.
    pub(super) first_line_shift: u32,
    pub(super) text: TextOffsets,
    pub(super) class: ClassOffsets,
    /// Mask of the length of an array within its object, after the shift.
    pub(super) array_embedded: u64,
    /// Largest identifier of an operator; those above have their number in the upper bits.
    pub(super) last_operator: u64,
}

/// Offsets in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextOffsets {
    /// The length; `None` if that of a text within its object is in the flags.
    pub(super) length: Option<u32>,
    /// The text, if it is within its object.
    pub(super) data: u32,
}

/// Offsets in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassOffsets {
    /// Flag of singleton classes.
    pub(super) singleton: u64,
    pub(super) names: NameOffsets,
}

/// Storage of the path of a class, and of the object that a singleton class belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameOffsets {
    /// Variables of the class by name, in a table of an extension.
    Table { extension: u32, variables: u32 },
    /// The first variables of the class.
    Variables { variables: u32 },
    /// Fields.
    Fields { path: u32, attached: u32 },
}

impl Offsets {
    /// Returns the offsets of a version such as `3.3.8`, `None` if they are unknown.
    pub(super) fn find(version: &str) -> Option<Offsets> {
        let minor = version.rsplit_once('.')?.0;
        let column = rows().next()?.split('\t').position(|cell| cell == minor)?;
        let of = |field: &str| -> Option<u32> {
            let row = rows().find(|row| row.split('\t').next() == Some(field))?;
            row.split('\t').nth(column)?.parse().ok()
        };
        let names = match (of("class.extension"), of("class.variables")) {
            (Some(extension), _) => NameOffsets::Table { extension, variables: of("extension.variables")? },
            (_, Some(variables)) => NameOffsets::Variables { variables },
            _ => NameOffsets::Fields { path: of("class.path")?, attached: of("class.attached")? },
        };
        Some(Offsets {
            thread_context: of("thread.context"),
            frame_size: of("frame.size")?,
            lines: of("body.lines")?,
            local: of("body.local")?,
            parent: of("body.parent")?,
            line_size: of("line.size")?,
            first_line_shift: of("first_line.shift")?,
            text: TextOffsets { length: of("string.length"), data: of("string.data")? },
            class: ClassOffsets { singleton: of("class.singleton")?.into(), names },
            array_embedded: of("array.embedded")?.into(),
            last_operator: of("operator.last")?.into(),
        })
    }
}

fn rows() -> impl Iterator<Item = &'static str> {
    include_str!("offsets.tsv").lines().filter(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_all_offsets() {
        let head = rows().next().unwrap();
        for version in head.split('\t').skip(1) {
            assert!(Offsets::find(&format!("{version}.1")).is_some(), "{version}");
        }
        for row in rows() {
            assert_eq!(row.split('\t').count(), head.split('\t').count(), "{row}");
        }
        assert_eq!(Offsets::find("2.6.0"), None);
        assert_eq!(Offsets::find("field.0"), None);
    }
}
