//! The expected stack, combined from Python's frames, gdb's frames and the comments of the source.

use crate::interpreter::Version;
use crate::library;
use crate::skeleton::NativeFrame;
use crate::source::{Comments, Lines};
use crate::workload::{Chain, PythonFrame};

/// One frame, root first.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Native(NativeFrame),
    Python(Call),
}

/// A Python frame and the lines that it may be on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) file: String,
    /// Line while another Python function runs above the frame.
    pub(crate) line: u32,
    /// Lines while the frame is the last one.
    pub(crate) last: Lines,
}

/// Combines the three sources to the stack of one thread.
///
/// # Errors
///
/// Fails with a message if the three sources contradict each other.
pub(crate) fn expected(
    chain: &Chain,
    skeleton: &[NativeFrame],
    version: Version,
) -> Result<Vec<Expected>, String> {
    let groups = groups(&chain.frames, version);
    let loops = skeleton.iter().filter(|frame| frame.is_loop(version)).count();
    if loops != groups.len() {
        return Err(format!(
            "gdb sees {loops} loops, and Python's frames need {}:\n  {}\n  {}",
            groups.len(),
            describe_groups(&groups),
            skeleton.iter().map(|frame| frame.name.as_deref().unwrap_or("?")).collect::<Vec<_>>().join(" ")
        ));
    }
    let mut stack = Vec::new();
    let mut groups = groups.into_iter();
    let end = skeleton.iter().rposition(|frame| frame.is_loop(version)).map_or(0, |last| last + 1);
    for frame in &skeleton[..end] {
        if frame.is_loop(version) {
            stack.extend(groups.next().unwrap_or_default().iter().map(|frame| Expected::Python(call(frame))));
        } else {
            stack.push(Expected::Native(frame.clone()));
        }
    }
    Ok(stack)
}

/// Groups the Python frames by run of the interpreter loop: since 3.11 one run holds nested Python
/// calls.
fn groups(frames: &[PythonFrame], version: Version) -> Vec<&[PythonFrame]> {
    let mut groups = Vec::new();
    let mut start = 0;
    for (at, frame) in frames.iter().enumerate() {
        if at + 1 == frames.len() || version.is_before(3, 11) || is_through_c(frame, version) {
            groups.push(&frames[start..=at]);
            start = at + 1;
        }
    }
    groups
}

fn is_through_c(frame: &PythonFrame, version: Version) -> bool {
    match Comments::of(&frame.file) {
        Some(comments) => comments.is_through_c(frame.line, version),
        None => library::is_through_c(&frame.file, &frame.name, version),
    }
}

fn call(frame: &PythonFrame) -> Call {
    let function = frame.name.rsplit('.').next().unwrap_or_default();
    let comments = Comments::of(&frame.file).unwrap_or_default();
    let mut last = comments.last(function);
    if !comments.spins(function) {
        last.entry(frame.line).or_insert(None);
    }
    Call { name: frame.name.clone(), file: frame.file.clone(), line: frame.line, last }
}

fn describe_groups(groups: &[&[PythonFrame]]) -> String {
    let names = |group: &&[PythonFrame]| {
        group.iter().map(|frame| format!("{}:{}", frame.name, frame.line)).collect::<Vec<_>>().join(" ")
    };
    groups.iter().map(|group| format!("[{}]", names(group))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(text: &str) -> Chain {
        let frame = |part: &str| {
            let (name, line) = part.split_once(':').unwrap();
            PythonFrame { name: name.into(), line: line.parse().unwrap(), file: "/x/re.py".into() }
        };
        Chain { frames: text.split(' ').map(frame).collect(), ..Chain::default() }
    }

    fn skeleton(text: &str) -> Vec<NativeFrame> {
        let frame = |name: &str| NativeFrame { name: Some(name.into()), ..NativeFrame::default() };
        text.split(' ')
            .map(|name| frame(if name == "LOOP" { "_PyEval_EvalFrameDefault" } else { name }))
            .collect()
    }

    fn shown(version: &str, frames: &str, native: &str) -> Result<String, String> {
        let stack = expected(&chain(frames), &skeleton(native), Version::parse(version).unwrap())?;
        let name = |frame: &Expected| match frame {
            Expected::Native(frame) => frame.name.clone().unwrap(),
            Expected::Python(call) => format!("{}:{}", call.name, call.line),
        };
        Ok(stack.iter().map(name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn replaces_loop_by_its_python_frames() {
        let old = shown("3.10", "a:1 sub:2 c:3", "main LOOP x LOOP y LOOP tail");
        assert_eq!(old.unwrap(), "main a:1 x sub:2 y c:3");
        let new = shown("3.11", "a:1 sub:2 c:3", "main LOOP y LOOP tail tail");
        assert_eq!(new.unwrap(), "main a:1 sub:2 y c:3");
    }

    #[test]
    fn rejects_contradictory_sources() {
        assert!(shown("3.10", "a:1 b:2", "main LOOP tail").is_err());
        assert!(shown("3.11", "a:1 b:2", "main LOOP x LOOP").is_err());
    }
}
