//! A made-up machine, and the caller's frame by either side's account.

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::table::{Rule, cfa, fp, kept, ra};
use gimli::{CfaRule, Encoding, EndianSlice, EvaluationResult, LittleEndian, Location};
use gimli::{Piece, Register, RegisterRule, Value};

pub(crate) type Bytes<'a> = EndianSlice<'a, LittleEndian>;
pub(crate) type Row = gimli::UnwindTableRow<usize>;

/// The caller's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) cfa: u64,
    /// `None` where it is lost.
    pub(crate) fp: Option<u64>,
    /// The register that the rule keeps; `None` where it is lost, or none is kept.
    pub(crate) kept: Option<u64>,
    pub(crate) ra: u64,
    pub(crate) signed: bool,
}

/// The contents of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Frame(Frame),
    End,
    /// The rule is not required to describe it.
    Nothing,
}

/// The value of a register, for an instruction at `pc`.
fn register(number: u16, arch: Arch, pc: u64) -> u64 {
    if arch == Arch::X86_64 && number == 16 { pc } else { mix(u64::from(number) + 1) & !7 }
}

/// The word at an address.
fn memory(address: u64) -> u64 {
    mix(address ^ 0x5bd1_e995_1234_5678)
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn plus(base: u64, offset: i32) -> u64 {
    base.wrapping_add_signed(offset.into())
}

/// Bytes that the linkage table of arm64 pushes: a register, and the return address.
const PUSHED_BY_LINKAGE_TABLE: i64 = 16;

fn fp_of(arch: Arch) -> u16 {
    if arch == Arch::X86_64 { 6 } else { 29 }
}

/// Returns our rule for the instruction at `pc`.
pub(crate) fn ours(rule: Rule, arch: Arch, pc: u64) -> Said {
    let base = plus(register(rule.register.into(), arch, pc), rule.offset);
    let cfa = match rule.cfa {
        cfa::REGISTER => base,
        cfa::DEREF => plus(memory(base), rule.aux),
        cfa::PLT => base + if (pc & 15) as i32 >= rule.aux { 8 } else { 0 },
        cfa::SIGNAL if arch == Arch::X86_64 => return signal_frame(base),
        cfa::END => return Said::End,
        _ => return Said::Nothing,
    };
    let own_fp = register(fp_of(arch), arch, pc);
    let fp = match rule.fp & fp::KIND {
        fp::SAME => Some(own_fp),
        fp::SAVED => Some(memory(plus(cfa, rule.fp_offset))),
        fp::DIRECT => Some(memory(plus(own_fp, rule.fp_offset))),
        _ => None,
    };
    let ra = match rule.ra & ra::KIND {
        ra::BELOW => memory(cfa.wrapping_sub(8)),
        ra::SAVED => memory(plus(cfa, rule.aux)),
        _ => register(rule.aux as u16, arch, pc),
    };
    let kept = kept_by(rule).and_then(|number| match rule.fp >> kept::SHIFT {
        kept::SAME => Some(register(number, arch, pc)),
        kept::LOST => None,
        place => Some(memory(plus(cfa, -8 - 8 * i32::from(place)))),
    });
    Said::Frame(Frame { cfa, fp, kept, ra, signed: rule.ra & ra::SIGNED != 0 })
}

/// The number of the register that a rule keeps besides stack and frame pointer.
pub(crate) fn kept_by(rule: Rule) -> Option<u16> {
    Some(u16::from(rule.ra >> kept::SHIFT & kept::NUMBER)).filter(|&number| number != 0)
}

/// Linux on x86_64: `struct ucontext`, registers from byte 40 on.
fn signal_frame(context: u64) -> Said {
    let [fp, cfa, ra] = [120, 160, 168].map(|offset| memory(context + offset));
    Said::Frame(Frame { cfa, fp: Some(fp), kept: None, ra, signed: false })
}

/// A file's unwind data, as gimli's evaluator needs it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) data: Bytes<'a>,
    pub(crate) encoding: Encoding,
    pub(crate) arch: Arch,
    pub(crate) ra: Register,
}

impl Context<'_> {
    /// Returns gimli's row for the instruction at `pc`, with the register `kept`.
    pub(crate) fn theirs(&self, row: &Row, pc: u64, kept: Option<u16>) -> Said {
        let ra = row.register(self.ra);
        if ra == Some(RegisterRule::Undefined) {
            return Said::End;
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let pushed = if self.is_resolver(row) { PUSHED_BY_LINKAGE_TABLE } else { 0 };
                Some(self.register(*register, pc).wrapping_add_signed(*offset + pushed))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, pc, None),
        };
        let Some(cfa) = cfa else { return Said::Nothing };
        let ra = match (ra, self.arch) {
            _ if self.is_resolver(row) => Some(memory(cfa.wrapping_sub(8))),
            (None | Some(RegisterRule::SameValue), Arch::X86_64) => None,
            (rule, _) => self.restored(self.ra, rule, cfa, pc),
        };
        let Some(ra) = ra else { return Said::Nothing };
        let fp = Register(fp_of(self.arch));
        let signed = row.register(gimli::AArch64::RA_SIGN_STATE) == Some(RegisterRule::Constant(1));
        let restored = |own: Register| self.restored(own, row.register(own), cfa, pc);
        Said::Frame(Frame {
            cfa,
            fp: restored(fp),
            kept: kept.and_then(|number| restored(Register(number))),
            ra,
            signed,
        })
    }

    /// Returns `true` for the rows of glibc's `_dl_runtime_resolve` on arm64, which have the return
    /// address above the canonical frame address: they leave what the linkage table pushed to the
    /// caller's frame, so that this is too low.
    fn is_resolver(&self, row: &Row) -> bool {
        let fp = row.register(Register(fp_of(self.arch)));
        self.arch == Arch::Aarch64
            && row.register(self.ra) == Some(RegisterRule::Offset(8))
            && matches!(fp, None | Some(RegisterRule::SameValue))
    }

    fn register(&self, number: Register, pc: u64) -> u64 {
        register(number.0, self.arch, pc)
    }

    fn restored(&self, own: Register, rule: Option<RegisterRule<usize>>, cfa: u64, pc: u64) -> Option<u64> {
        match rule {
            None | Some(RegisterRule::SameValue) => Some(self.register(own, pc)),
            Some(RegisterRule::Offset(offset)) => Some(memory(cfa.wrapping_add_signed(offset))),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => Some(self.register(other, pc)),
            Some(RegisterRule::Expression(expression)) => {
                self.evaluate(&expression, pc, Some(cfa)).map(memory)
            }
            Some(RegisterRule::ValExpression(expression)) => self.evaluate(&expression, pc, Some(cfa)),
            _ => None,
        }
    }

    fn evaluate(
        &self,
        expression: &gimli::UnwindExpression<usize>,
        pc: u64,
        first: Option<u64>,
    ) -> Option<u64> {
        let range = expression.offset..expression.offset + expression.length;
        let code = EndianSlice::new(self.data.slice().get(range)?, LittleEndian);
        let mut evaluation = gimli::Expression(code).evaluation(self.encoding);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register, pc))).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(memory(address))).ok()?
                }
                EvaluationResult::Complete => break,
                _ => return None,
            }
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Some(*address),
            _ => None,
        }
    }
}
