//! Data of a page: JSON, with the frames of each kind of samples as two strings of numbers.
//!
//! ```text
//!   { "title": "…", "start": 1700000000000, "looks": [["kernel", "#8fb7f5", "#34609f"], …],
//!     "kinds": [
//!       { "kind": "cpu", "unit": "count", "period": 0.01, "notes": ["12 samples in 1.0 s", …],
//!         "modules": ["", "libc.so.6", …],
//!         "names": ["all", "cat", "main", "read", …],
//!         "labels": "0,0,0,0,8,0,8,1,…",      per name: 2 * kind + inlined, module
//!         "frames": ",0,,,1,,,2,1,…" }, … ] } per frame: 2 * up + guessed, label, own value
//! ```
//!
//! Numbers have base 36, and 0 may be empty. Each frame precedes its callees. `up` is the number of
//! levels from a callee of the previous frame up to this frame: 0 for most.

use std::io::{self, Write};
use std::ptr;
use std::time::UNIX_EPOCH;

use hashbrown::HashMap;

use crate::profile::{Label, Layout, Limits, Profile, Tree};
use crate::sink::json::{write_string, write_strings};
use crate::sink::palette::{self, LOOKS};
use crate::text::Number;

/// Maximum number of frames of all kinds: more are slow to draw in a browser.
const MOST_FRAMES: usize = 250_000;

/// Writes the data.
pub(super) fn write(out: &mut dyn Write, title: &str, profile: &Profile) -> io::Result<()> {
    let start = profile.start().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    out.write_all(b"{\"title\":")?;
    write_string(out, title)?;
    write!(out, ",\"start\":{start},\"looks\":")?;
    write_looks(out)?;
    out.write_all(b",\"kinds\":[")?;
    // A page without kinds is that of an empty profile.
    let kinds = profile.kinds().len().max(1);
    for index in 0..kinds {
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        write_kind(out, &profile.of_kind(index), MOST_FRAMES / kinds)?;
    }
    out.write_all(b"]}")
}

/// Writes the samples of a profile with one kind.
fn write_kind(out: &mut dyn Write, profile: &Profile, frames: usize) -> io::Result<()> {
    let tree = Tree::new(profile);
    let layout = tree.layout(Limits { frames, ..Limits::default() });
    let kind = profile.kind();
    out.write_all(b"{\"kind\":")?;
    write_string(out, kind.name())?;
    let (unit, period) = (kind.unit().name(), kind.period().as_secs_f64());
    write!(out, ",\"unit\":\"{unit}\",\"period\":{period},\"notes\":")?;
    write_strings(out, notes(profile, &layout))?;
    write_frames(out, &layout)?;
    out.write_all(b"}")
}

fn notes(profile: &Profile, layout: &Layout<'_, '_>) -> Vec<String> {
    let mut notes = Vec::from(profile.summary().parts());
    if layout.merged > 0 {
        notes.push(format!("{} merged", Number(layout.merged).of("small frame")));
    }
    notes
}

fn write_looks(out: &mut dyn Write) -> io::Result<()> {
    for (index, look) in LOOKS.iter().enumerate() {
        let comma = if index > 0 { "," } else { "[" };
        write!(out, "{comma}[\"{}\",\"{}\",\"{}\"]", look.name, look.light, look.dark)?;
    }
    out.write_all(b"]")
}

fn write_frames(out: &mut dyn Write, layout: &Layout<'_, '_>) -> io::Result<()> {
    let mut tables = Tables::default();
    let mut frames = Numbers::default();
    let mut level = 0;
    for placed in &layout.frames {
        // The first frame is the root, at level 0, as a callee would be.
        let up = level - placed.level;
        level = placed.level + 1;
        frames.push(2 * up as u64 + u64::from(placed.guessed));
        frames.push(tables.number(placed.label));
        frames.push(placed.own);
    }
    out.write_all(b",\"modules\":")?;
    write_strings(out, &tables.modules)?;
    out.write_all(b",\"names\":")?;
    write_strings(out, tables.labels.iter().map(|label| &label.name))?;
    write!(out, ",\"labels\":\"{}\",\"frames\":\"{}\"", tables.numbers.text, frames.text)
}

/// Labels and modules, in the order of their first use.
#[derive(Default)]
struct Tables<'p> {
    labels: Vec<&'p Label<'p>>,
    modules: Vec<&'p str>,
    numbers: Numbers,
    /// Numbers by address: the tree has every label once.
    by_label: HashMap<*const Label<'p>, u64>,
    by_module: HashMap<&'p str, u64>,
}

impl<'p> Tables<'p> {
    fn number(&mut self, label: &'p Label<'p>) -> u64 {
        let next = self.labels.len() as u64;
        let number = *self.by_label.entry(ptr::from_ref(label)).or_insert(next);
        if number == next {
            self.labels.push(label);
            let module = self.module(&label.module);
            self.numbers.push(2 * palette::number(label.kind) as u64 + u64::from(label.inlined));
            self.numbers.push(module);
        }
        number
    }

    fn module(&mut self, module: &'p str) -> u64 {
        let modules = &mut self.modules;
        *self.by_module.entry(module).or_insert_with(|| {
            modules.push(module);
            modules.len() as u64 - 1
        })
    }
}

/// Numbers in base 36, separated by commas; 0 is empty.
#[derive(Default)]
struct Numbers {
    text: String,
    behind_one: bool,
}

impl Numbers {
    fn push(&mut self, mut number: u64) {
        if self.behind_one {
            self.text.push(',');
        }
        self.behind_one = true;
        let start = self.text.len();
        while number > 0 {
            let digit = char::from_digit((number % 36) as u32, 36).unwrap_or('0');
            self.text.insert(start, digit);
            number /= 36;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_numbers_in_base_36() {
        let mut numbers = Numbers::default();
        [0, 35, 36, 0, u64::MAX].into_iter().for_each(|number| numbers.push(number));
        assert_eq!(numbers.text, ",z,10,,3w5e11264sgsf");
    }
}
