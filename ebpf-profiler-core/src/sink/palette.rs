//! Colours of both flame graphs: one hue per kind of code, paler for inlined functions.

use crate::profile::{Kind, Label};

/// Name and colours of one kind of code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) kind: Kind,
    /// Name in the legend.
    pub(super) name: &'static str,
    pub(super) light: Rgb,
    pub(super) dark: Rgb,
}

/// Colour as `0xrrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rgb(pub(super) u32);

/// All kinds, in the order of their numbers in the HTML page.
pub(super) const LOOKS: [Look; 9] = [
    look(Kind::Origin, "process, thread", 0xd5dbe4, 0x3b4453),
    look(Kind::Kernel, "kernel", 0x8fb7f5, 0x34609f),
    look(Kind::Rust, "Rust", 0xf28b74, 0xa4402f),
    look(Kind::Cpp, "C++", 0xf0d060, 0x837018),
    look(Kind::Native, "native", 0xf9b262, 0x9a5a18),
    look(Kind::Script, "script", 0xc6b3f0, 0x5d479c),
    look(Kind::RunTime, "made at run time", 0x8ed4a0, 0x2f7a4c),
    look(Kind::Missing, "missing", 0xd8a8d4, 0x7a4677),
    look(Kind::Merged, "merged frames", 0xe9ecf1, 0x2a303b),
];

/// Number of shades per kind; they distinguish neighbours.
pub(super) const SHADES: u32 = 4;

/// Background colours.
pub(super) const LIGHT_PAPER: Rgb = Rgb(0xffffff);
pub(super) const DARK_PAPER: Rgb = Rgb(0x14171d);

const fn look(kind: Kind, name: &'static str, light: u32, dark: u32) -> Look {
    Look { kind, name, light: Rgb(light), dark: Rgb(dark) }
}

/// Returns the index of a kind in [`LOOKS`].
pub(super) fn number(kind: Kind) -> usize {
    LOOKS.iter().position(|look| look.kind == kind).unwrap_or(0)
}

/// Returns the shade of a name, a hash of it.
pub(super) fn shade(label: &Label<'_>) -> u32 {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = label.name.bytes().fold(0x811c_9dc5, hash);
    (hash >> 13) % SHADES
}

impl Rgb {
    /// Mixes in `percent` percent of another colour.
    pub(super) fn mixed(self, percent: u32, other: Rgb) -> Rgb {
        let channel = |shift: u32| {
            let of = |color: Rgb| color.0 >> shift & 0xff;
            ((of(self) * (100 - percent) + of(other) * percent) / 100) << shift
        };
        Rgb(channel(16) | channel(8) | channel(0))
    }

    /// Returns one of the shades, paler if inlined.
    pub(super) fn shaded(self, shade: u32, inlined: bool, paper: Rgb) -> Rgb {
        self.mixed(shade * 7 + if inlined { 42 } else { 0 }, paper)
    }
}

impl std::fmt::Display for Rgb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:06x}", self.0)
    }
}
