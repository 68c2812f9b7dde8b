//! The forms of DWARF expressions that occur in call frame information.

use crate::bytes::Bytes;

/// An expression that a rule can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// `register + offset`
    Register { register: u8, offset: i64 },
    /// `*(register + offset) + added`
    Deref { register: u8, offset: i64, added: u64 },
    /// `register + offset + (pc & 15 >= from ? 8 : 0)`
    Plt { register: u8, offset: i64, from: u8 },
}

/// Recognizes the form of `code`.
pub(crate) fn recognize(code: &[u8]) -> Option<Expression> {
    let mut bytes = Bytes(code);
    let register @ 0..=31 = bytes.u8()?.wrapping_sub(BREG0) else { return None };
    let offset = bytes.sleb()?;
    match bytes.0 {
        [] => Some(Expression::Register { register, offset }),
        [DEREF, rest @ ..] => Some(Expression::Deref { register, offset, added: added(rest)? }),
        // pc & 15 >= literal, times eight
        [BREG_PC, 0, LIT15, AND, literal @ LIT0..=LIT15, GE, LIT3, SHL, PLUS] => {
            Some(Expression::Plt { register, offset, from: literal - LIT0 })
        }
        _ => None,
    }
}

/// Decodes the addend after the dereference: none, or one constant.
fn added(code: &[u8]) -> Option<u64> {
    let [PLUS_CONSTANT, rest @ ..] = code else {
        return code.is_empty().then_some(0);
    };
    let mut bytes = Bytes(rest);
    let added = bytes.uleb()?;
    (bytes.len() == 0).then_some(added)
}

const DEREF: u8 = 0x06;
const AND: u8 = 0x1a;
const PLUS: u8 = 0x22;
const PLUS_CONSTANT: u8 = 0x23;
const SHL: u8 = 0x24;
const GE: u8 = 0x2a;
const LIT0: u8 = 0x30;
const LIT3: u8 = 0x33;
const LIT15: u8 = 0x3f;
const BREG0: u8 = 0x70;
/// Register 16 is the program counter on x86_64.
const BREG_PC: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::{Expression, recognize};

    #[test]
    fn shapes() {
        let cases: [(&[u8], Option<Expression>); 7] = [
            (&[0x76, 0x78, 0x06], Some(Expression::Deref { register: 6, offset: -8, added: 0 })),
            (&[0x77, 0x08, 0x06, 0x23, 0x10], Some(Expression::Deref { register: 7, offset: 8, added: 16 })),
            (&[0x7a, 0x00], Some(Expression::Register { register: 10, offset: 0 })),
            (
                &[0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22],
                Some(Expression::Plt { register: 7, offset: 8, from: 11 }),
            ),
            (&[0x77, 0x08, 0x06, 0x06], None),
            (&[0x77], None),
            (&[], None),
        ];
        for (code, expected) in cases {
            assert_eq!(recognize(code), expected, "{code:x?}");
        }
    }
}
