//! The conformance test of languages.

mod frames;

mod lies;

use crate::elf::{Elf, ReadAt};
use crate::language::{Attachment, Language, MAX_RANGES, Memory, Reason, Runtime, Target};
use crate::process::LoadBias;
use frames::TakenFrame;
use lies::{Image, Lies, Noise, START};

/// Memories full of lies that a runtime is asked to attach to.
const LIES: u64 = 200;

/// Addresses of functions, beside those in frames.
const ADDRESSES: [u64; 7] = [0, 8, 1 << 20, 0x7fff_0000_1238, 0x7fff_0000_1234, u64::MAX - 7, u64::MAX];

/// Lines of one function at most.
const MAX_LINES: usize = 1 << 17;

/// Checks that a language keeps the promises of its traits, with `file` as a file that holds its
/// runtime.
///
/// It searches for the runtime in the file and in mutilated copies of it, and attaches to processes
/// whose memory is the file and noise. There the walkers of the kernel side walk, from the loops
/// and the code of the runtime, and the test asks for the functions of the frames that they take:
///
/// * Reads are bounded, and so are names and lines.
/// * A frame has the right check, since its memory hasn't changed. With another check its function
///   must have no name.
///
/// A panic is a failure too.
///
/// # Errors
///
/// A sentence about the promise that isn't kept.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::language::{Language, Runtime};
/// use ebpf_profiler_core::testing;
///
/// struct Nothing;
///
/// impl Language for Nothing {
///     fn name(&self) -> &'static str {
///         "nothing"
///     }
///     fn find(&self, _: &Elf) -> Option<Box<dyn Runtime>> {
///         None
///     }
/// }
///
/// let file = std::fs::read("/proc/self/exe")?;
/// let error = testing::language(&Nothing, &file).unwrap_err();
/// assert_eq!(error, "nothing doesn't find its runtime in the file");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn language(language: &dyn Language, file: &[u8]) -> Result<(), String> {
    let name = language.name();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == ';') {
        return Err(format!("{name:?} is no name: it stands in text that is cut at spaces and semicolons"));
    }
    let elf = open(file).ok_or_else(|| format!("the file of {name} is no ELF file"))?;
    let runtime =
        language.find(&elf).ok_or_else(|| format!("{name} doesn't find its runtime in the file"))?;
    loops(&*runtime, &elf).map_err(|error| format!("{name}: {error}"))?;
    mutilated(language, file);
    let image = Image::of(&elf);
    (0..LIES)
        .try_for_each(|seed| lied_to(&*runtime, &image, seed))
        .map_err(|error| format!("{name}: {error}"))
}

fn open(file: &[u8]) -> Option<Elf> {
    Elf::open(Box::new(std::io::Cursor::new(file.to_vec())) as Box<dyn ReadAt>).ok()
}

fn loops(runtime: &dyn Runtime, elf: &Elf) -> Result<(), String> {
    let loops = runtime.loops();
    if loops.len() > MAX_RANGES {
        return Err(format!("{} loops instead of at most {MAX_RANGES}", loops.len()));
    }
    let is_code = |at: u64| {
        elf.segments().iter().any(|s| s.is_code() && s.address <= at && at - s.address < s.memory_size)
    };
    let lies_in_code = |range: &&std::ops::Range<u64>| {
        range.start < range.end && is_code(range.start) && is_code(range.end - 1)
    };
    match loops.iter().find(|range| !lies_in_code(range)) {
        Some(range) => Err(format!("loop {range:#x?} isn't code of the file")),
        None => Ok(()),
    }
}

/// Looks for the runtime where pieces of the file are missing or another: whatever it finds, it
/// comes back.
fn mutilated(language: &dyn Language, file: &[u8]) {
    let mut noise = Noise(7);
    for round in 1..=24 {
        let mut copy = file.to_vec();
        match round % 3 {
            0 => copy.truncate(file.len() / 24 * round),
            // Headers and tables lie at both ends.
            1 => (0..64).for_each(|_| {
                let at = noise.next() as usize % copy.len().clamp(1, 8192);
                copy[at] = noise.next() as u8;
            }),
            _ => (0..4096).for_each(|_| {
                let at = noise.next() as usize % copy.len();
                copy[at] = noise.next() as u8;
            }),
        }
        if let Some(elf) = open(&copy) {
            let _ = language.find(&elf);
        }
    }
}

/// Attaches to a process whose memory lies, and asks for the functions of frames there.
fn lied_to(runtime: &dyn Runtime, image: &Image, seed: u64) -> Result<(), String> {
    // Of four memories one doesn't even have the contents of the file.
    let lies = Lies::new(seed, (!seed.is_multiple_of(4)).then_some(image));
    let attached = runtime.attach(&Target::new(&lies, LoadBias::new(START), Vec::new()));
    lies.check("attaching")?;
    let Ok(mut attachment) = attached else { return Ok(()) };
    let walker = *attachment.walker();
    let memory: &dyn Memory = &lies;
    let mut frames = frames::taken(&attachment, runtime.loops(), &lies);
    if walker.is_described() {
        frames.extend(ADDRESSES.map(|address| {
            let check = walker.check(address, |at| memory.u64(at)).unwrap_or(0);
            TakenFrame { address, check, caller: None }
        }));
    }
    for frame in frames {
        let Some(is_named) = ask(&mut attachment, frame, &lies)? else {
            return Err(format!("the function at {:#x} is rejected with its own check", frame.address));
        };
        let other = TakenFrame { check: frame.check ^ 1, ..frame };
        let is_current = attachment.names().is_current(frame.address, frame.check, &lies);
        if is_named && is_current == Ok(false) {
            return Err(format!("the function at {:#x} has a name, but not its own check", frame.address));
        }
        let is_named_twice =
            is_named && walker.has_check() && ask(&mut attachment, other, &lies)? == Some(true);
        if is_named_twice {
            return Err(format!("the function at {:#x} has a name with another check, too", frame.address));
        }
    }
    Ok(())
}

/// Asks for the function of a frame. Returns `true` if it has a name, `None` if it was rejected
/// because of its check.
fn ask(attachment: &mut Attachment, frame: TakenFrame, lies: &Lies<'_>) -> Result<Option<bool>, String> {
    let names = attachment.names();
    lies.check("")?;
    let function = match frame.caller {
        Some(caller) => names.called_function(frame.address, frame.check, caller, lies),
        None => names.function(frame.address, frame.check, lies),
    };
    lies.check("naming a function")?;
    match function {
        Ok(function) if function.name.len() + function.file.len() > 64 << 10 => {
            Err("a name is longer than 64 KiB".to_owned())
        }
        Ok(function) if function.lines.len() > MAX_LINES => Err(format!("{} lines", function.lines.len())),
        Err(Reason::Replaced) => Ok(None),
        function => Ok(Some(function.is_ok())),
    }
}
