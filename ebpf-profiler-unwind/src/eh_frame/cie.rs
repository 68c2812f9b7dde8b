//! Common information entries: the common part of several FDEs.

use crate::arch::Registers;
use crate::bytes::Bytes;

use super::entry::Entry;
use super::plain::Plain;
use super::pointer;
use super::program::Program;
use super::section::Format;
use super::state::State;

/// A common information entry, with its instructions executed.
#[derive(Clone, Debug)]
pub(crate) struct Cie<'a> {
    /// Encoding of addresses in its FDEs.
    pub(crate) encoding: u8,
    /// `true` if its FDEs have augmentation data in front of their instructions.
    pub(crate) augmented: bool,
    /// `true` if its functions are signal frames.
    pub(crate) signal: bool,
    /// Factor of advances.
    pub(crate) code_align: u64,
    /// Factor of offsets.
    pub(crate) data_align: i64,
    /// Column of the return address.
    pub(crate) ra: u16,
    /// Initial row of each function.
    pub(crate) initial: State<'a>,
}

/// Encoding of the FDEs of a CIE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Functions {
    /// Encoding of addresses.
    pub(crate) encoding: u8,
    /// `true` if there is augmentation data.
    pub(crate) augmented: bool,
}

/// Maximum size of a CIE's instructions, in bytes.
///
/// Real ones have about ten. They are executed once per FDE that is not plain, so the limit keeps
/// the time linear.
const MAX_INSTRUCTIONS: usize = 512;

impl<'a> Cie<'a> {
    /// Parses an entry of the section at virtual address `address`.
    pub(super) fn parse(address: u64, entry: &Entry<'a>, registers: &Registers) -> Option<Cie<'a>> {
        let (mut cie, instructions) = Cie::parse_head(address, entry)?;
        cie.begin(instructions, registers)?;
        Some(cie)
    }

    /// Parses all but the instructions, which are returned.
    pub(super) fn parse_head(address: u64, entry: &Entry<'a>) -> Option<(Cie<'a>, Bytes<'a>)> {
        let mut body = entry.body;
        let version = body.u8()?;
        let augmentation = body.string()?;
        check_version(&mut body, version, entry.format)?;
        let mut cie = Cie {
            encoding: pointer::ABSOLUTE,
            augmented: augmentation.first() == Some(&b'z'),
            signal: false,
            code_align: body.uleb()?,
            data_align: body.sleb()?,
            ra: if version == 1 { body.u8()?.into() } else { u16::try_from(body.uleb()?).ok()? },
            initial: State::NEW,
        };
        if cie.augmented {
            let size = body.uleb()?;
            let data = Bytes(body.take(size)?);
            let end = address.wrapping_add((entry.body_offset + entry.body.len() - body.len()) as u64);
            cie.augment(&augmentation[1..], data, end)?;
        } else if !augmentation.is_empty() {
            return None;
        }
        Some((cie, body))
    }

    /// Returns the encoding of its FDEs.
    #[inline]
    pub(crate) fn functions(&self) -> Functions {
        Functions { encoding: self.encoding, augmented: self.augmented }
    }

    /// Parses the augmentation data, which ends at virtual address `end`.
    fn augment(&mut self, augmentation: &[u8], mut data: Bytes<'_>, end: u64) -> Option<()> {
        for letter in augmentation {
            match letter {
                b'R' => self.encoding = data.u8()?,
                b'L' => drop(data.u8()?),
                b'P' => {
                    let encoding = data.u8()?;
                    let place = end.wrapping_sub(data.len() as u64);
                    pointer::skip(&mut data, encoding, place)?;
                }
                b'S' => self.signal = true,
                // arm64: return addresses signed with key B; memory tagging.
                b'B' | b'G' => {}
                _ => return None,
            }
        }
        Some(())
    }

    fn begin(&mut self, instructions: Bytes<'a>, registers: &Registers) -> Option<()> {
        if instructions.len() > MAX_INSTRUCTIONS {
            return None;
        }
        let mut program = Program::new(self, registers, 0..u64::MAX);
        program.run(instructions, |_, _| ())?;
        self.initial = program.state();
        Some(())
    }
}

/// Versions 1 and 3 are equal up to here; version 4 (only in `.debug_frame`) adds two sizes.
fn check_version(body: &mut Bytes<'_>, version: u8, format: Format) -> Option<()> {
    match version {
        1 | 3 => Some(()),
        4 if format == Format::DebugFrame => {
            let (address_size, segment_size) = (body.u8()?, body.u8()?);
            (address_size == 8 && segment_size == 0).then_some(())
        }
        _ => None,
    }
}

/// The parts of a CIE that most FDEs need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// Encoding of its FDEs.
    pub(crate) functions: Functions,
    /// Executor of plain instructions, if the CIE allows it.
    pub(crate) plain: Option<Plain>,
}

/// Cache of the CIEs used last.
///
/// Of fixed size for any file; other CIEs are parsed again.
pub(crate) struct Cache {
    slots: Vec<Option<(usize, Common)>>,
}

impl Cache {
    const SLOTS: usize = 256;

    pub(crate) fn new() -> Cache {
        Cache { slots: vec![None; Cache::SLOTS] }
    }

    /// Returns the CIE at `offset` if it is cached.
    #[inline]
    pub(crate) fn get(&self, offset: usize) -> Option<&Common> {
        let (cached, common) = self.slots[Cache::slot(offset)].as_ref()?;
        (*cached == offset).then_some(common)
    }

    /// Caches the CIE at `offset`.
    pub(crate) fn put(&mut self, offset: usize, cie: &Cie<'_>, registers: &Registers) {
        let common = Common { functions: cie.functions(), plain: Plain::of(cie, registers) };
        self.slots[Cache::slot(offset)] = Some((offset, common));
    }

    /// Entries are at least four bytes apart.
    fn slot(offset: usize) -> usize {
        offset / 4 % Cache::SLOTS
    }
}
