//! The conformance test of languages finds implementations that break a promise, behind their
//! comparison of the check too.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{
    Attached, Attachment, CodeRanges, FramePath, FrameWalker, Function, Language, Memory, Reason, Runtime,
    Target,
};
use ebpf_profiler_core::testing;

/// Faults of an implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    IgnoresCheck,
    RejectsRightCheck,
    ReadsLengthOfMemory,
    FollowsEndlessList,
}

/// A language whose runtime is this program.
#[derive(Clone, Debug)]
struct Fake {
    walker: FrameWalker,
    fault: Fault,
    /// Number of calls whose check was right.
    passed: Arc<AtomicU64>,
    code: Vec<Range<u64>>,
}

impl Language for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        let text = elf.segments().iter().find(|segment| segment.is_code())?;
        let code = Range { start: text.address, end: text.address + text.file_size };
        Some(Box::new(Fake { code: vec![code], ..self.clone() }))
    }
}

impl Runtime for Fake {
    fn loops(&self) -> &[Range<u64>] {
        if self.is_compiled() { &[] } else { &self.code }
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let code = self.code.iter().map(|range| target.address(range.start)..target.address(range.end));
        let code = CodeRanges::new(code.filter(|_| self.is_compiled()));
        Ok(Attachment::new(self.walker, self.clone()).with_code(code))
    }
}

impl Fake {
    fn is_compiled(&self) -> bool {
        self.walker == compiled()
    }
}

impl Attached for Fake {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let own = self.walker.check(address, |at| memory.u64(at))?;
        let is_right = own == check || self.fault == Fault::IgnoresCheck;
        if !is_right || self.fault == Fault::RejectsRightCheck {
            return Err(Reason::Replaced);
        }
        self.passed.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::FollowsEndlessList => while memory.u32(address)? != 0x1234_5678 {},
            Fault::ReadsLengthOfMemory => {
                memory.bytes(address, u64::from(memory.u32(address)?) << 12, 1 << 30)?;
            }
            _ => {}
        }
        Ok(Function::new("f"))
    }
}

fn list() -> FrameWalker {
    FrameWalker::list(FramePath::from_thread_pointer(&[8])).function(8).identity_number(4).build().unwrap()
}

fn array() -> FrameWalker {
    let array = FrameWalker::array(FramePath::from_thread_pointer(&[8]), 32).path_to_count().outermost(8);
    array.function(8).identity_words(0, 2).build().unwrap()
}

fn compiled() -> FrameWalker {
    let compiled = FrameWalker::compiled().function_in_frame(-8).prologue(5).function_at_entry(5);
    compiled.identity_number(4).build().unwrap()
}

/// Returns the verdict on an implementation, and how many of its calls had the right check.
fn verdict(walker: FrameWalker, fault: Fault) -> (Result<(), String>, u64) {
    let file = std::fs::read("/proc/self/exe").unwrap();
    let fake = Fake { walker, fault, passed: Arc::default(), code: Vec::new() };
    let verdict = testing::language(&fake, &file);
    (verdict, fake.passed.load(Ordering::Relaxed))
}

#[test]
fn calls_of_all_shapes_come_behind_check() {
    for walker in [list(), array(), compiled()] {
        let (verdict, passed) = verdict(walker, Fault::None);
        assert_eq!(verdict, Ok(()));
        println!("{passed} calls with the right check: {walker}");
        assert!(passed > 500, "{passed}: {walker}");
    }
}

#[test]
fn faults_of_all_shapes_are_found() {
    for walker in [list(), array(), compiled()] {
        for (fault, message) in [
            (Fault::IgnoresCheck, "has a name with another check, too"),
            (Fault::RejectsRightCheck, "is rejected with its own check"),
            (Fault::ReadsLengthOfMemory, "where memory lies"),
            (Fault::FollowsEndlessList, "where memory lies"),
        ] {
            let error = verdict(walker, fault).0.unwrap_err();
            assert!(error.contains(message), "{fault:?}: {error}");
        }
    }
}
