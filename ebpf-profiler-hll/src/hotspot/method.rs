//! Names and lines of methods.
//!
//! ```text
//!   Method ──► ConstMethod ──► ConstantPool ──► InstanceKlass ──► Symbol "java/util/HashMap"
//!              │ bytecode        │ entries: Symbol "getNode", Symbol "HashMap.java"
//!              │ line table
//! ```

use ebpf_profiler_core::language::{Function, Lines, Memory, Reason};

use super::compressed::Compressed;
use super::layout::{Layout, MethodLayout, Source};

/// Maximum length of a name, in bytes; longer ones are truncated.
const MAX_NAME: usize = 1024;

/// Maximum size of a `ConstMethod`, in bytes.
const MAX_METHOD: usize = 1 << 20;

/// Maximum size of a line table, in bytes: a method has at most 64 KiB of bytecode.
const MAX_LINES: usize = 1 << 18;

/// Size of an entry of a constant pool, in bytes.
const ENTRY: u64 = 8;

/// A method, as read from its process.
#[derive(Clone, Debug, Default)]
pub(super) struct Method {
    /// Class and method.
    pub(super) name: Box<str>,
    pub(super) file: Box<str>,
    /// Lines of bytecode indices.
    pub(super) lines: Lines,
}

impl Method {
    /// Returns the method as a function.
    pub(super) fn function(&self) -> Function {
        let start_line = self.lines.steps().map(|(_, line)| line).find(|&line| line != 0).unwrap_or(0);
        Function::new(&*self.name).with_file(&*self.file).with_start_line(start_line)
    }

    /// Reads the method at `address` with its `ConstMethod`.
    pub(super) fn read(const_method: u64, layout: &Layout, memory: &dyn Memory) -> Result<Method, Reason> {
        let fields = &layout.method;
        if const_method == 0 || !const_method.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let head = memory.bytes(const_method, fields.bytecode.into(), MAX_METHOD)?;
        let u16_at = |at: u32| array(&head, at).map(u16::from_le_bytes);
        let u32_at = |at: u32| array(&head, at).map(u32::from_le_bytes);
        let pool = array(&head, fields.constants).map(u64::from_le_bytes)?;
        let pool = Pool::read(pool, fields, memory)?;
        let class = memory.u64(pool.holder.wrapping_add(fields.class_name.into()))?;
        let class = class_name(&symbol(class, fields, memory)?);
        let name = pool.symbol(u16_at(fields.name)?, fields, memory)?;
        let source = match fields.source {
            Some(Source::ConstantPool(_)) | None => pool.source,
            Some(Source::Class(at)) => u16::from_le_bytes(memory.array(pool.holder.wrapping_add(at.into()))?),
        };
        let file = match source {
            0 => Box::default(),
            // A missing file leaves the name.
            source => pool.symbol(source, fields, memory).map_or_else(|_| Box::default(), Into::into),
        };
        // Two bytes in older versions, four in newer ones; the flag is in the first.
        let has_lines = match fields.has_lines {
            Some((flags, flag)) => u32::from(u16_at(flags)?) & flag != 0,
            None => false,
        };
        let lines = if has_lines {
            let start = u64::from(fields.bytecode) + u64::from(u16_at(fields.code_size)?);
            let size = u64::from(u32_at(fields.words)?) * 8;
            let len = size.checked_sub(start).ok_or(Reason::Implausible)?;
            let bytes = memory.bytes(const_method.wrapping_add(start), len, MAX_LINES)?;
            Compressed::new(&bytes, layout.version).lines()
        } else {
            Lines::default()
        };
        Ok(Method { name: format!("{class}.{name}").into(), file, lines })
    }
}

/// Returns the address of the `ConstMethod` of the method at `address`.
pub(super) fn const_method(address: u64, layout: &Layout, memory: &dyn Memory) -> Result<u64, Reason> {
    if address == 0 || !address.is_multiple_of(8) {
        return Err(Reason::Implausible);
    }
    Ok(memory.u64(address.wrapping_add(layout.method.const_method.into()))?)
}

/// A constant pool.
struct Pool {
    address: u64,
    length: u32,
    /// Its class.
    holder: u64,
    /// Index of the name of the source file, if the pool has it.
    source: u16,
}

impl Pool {
    fn read(address: u64, fields: &MethodLayout, memory: &dyn Memory) -> Result<Pool, Reason> {
        if address == 0 || !address.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let head = memory.bytes(address, fields.entries.into(), MAX_METHOD)?;
        let source = match fields.source {
            Some(Source::ConstantPool(at)) => u16::from_le_bytes(array(&head, at)?),
            Some(Source::Class(_)) | None => 0,
        };
        Ok(Pool {
            address,
            length: u32::from_le_bytes(array(&head, fields.length)?),
            holder: u64::from_le_bytes(array(&head, fields.holder)?),
            source,
        })
    }

    /// Returns the text of the entry with this index.
    fn symbol(&self, index: u16, fields: &MethodLayout, memory: &dyn Memory) -> Result<String, Reason> {
        if index == 0 || u32::from(index) >= self.length {
            return Err(Reason::Implausible);
        }
        let entry = self.address.wrapping_add(u64::from(fields.entries) + u64::from(index) * ENTRY);
        symbol(memory.u64(entry)?, fields, memory)
    }
}

/// Returns the text of the `Symbol` at an address.
fn symbol(at: u64, fields: &MethodLayout, memory: &dyn Memory) -> Result<String, Reason> {
    if at == 0 || !at.is_multiple_of(8) {
        return Err(Reason::Implausible);
    }
    let len = u16::from_le_bytes(memory.array(at.wrapping_add(fields.symbol_length.into()))?);
    let taken = usize::from(len).min(MAX_NAME);
    let bytes = memory.bytes(at.wrapping_add(fields.symbol_body.into()), taken as u64, MAX_NAME)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if text.is_empty() || text.contains(|c: char| c.is_control()) {
        return Err(Reason::Implausible);
    }
    Ok(text)
}

/// Returns a class in Java form: `java.util.HashMap`.
///
/// Hidden classes lose the address, and classes of lambdas the number, in which runs of one program
/// differ.
pub(super) fn class_name(symbol: &str) -> String {
    let end = ["+0x", "/0x", ".0x"].iter().find_map(|mark| {
        let at = symbol.rfind(mark)?;
        symbol[at + mark.len()..].bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(at)
    });
    let name = &symbol[..end.unwrap_or(symbol.len())];
    let lambda = name.rfind("$$Lambda$").map(|at| at + "$$Lambda".len());
    let number = |at: usize| name[at + 1..].bytes().all(|byte| byte.is_ascii_digit());
    name[..lambda.filter(|&at| number(at)).unwrap_or(name.len())].replace('/', ".")
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: u32) -> Result<[u8; N], Reason> {
    bytes.get(at as usize..).and_then(<[u8]>::first_chunk).copied().ok_or(Reason::Implausible)
}

#[test]
fn shows_classes_in_java_form() {
    let cases = [
        ("java/util/HashMap", "java.util.HashMap"),
        ("Chain$$Lambda$14+0x0000000800c03000", "Chain$$Lambda"),
        ("Chain$$Lambda+0x00007f0a2c003000", "Chain$$Lambda"),
        ("Chain$$Lambda$3", "Chain$$Lambda"),
        ("java/lang/invoke/LambdaForm$MH/0x0000000800c03000", "java.lang.invoke.LambdaForm$MH"),
        ("a/Some$$LambdaLike$x", "a.Some$$LambdaLike$x"),
    ];
    for (symbol, name) in cases {
        assert_eq!(class_name(symbol), name, "{symbol}");
    }
}
