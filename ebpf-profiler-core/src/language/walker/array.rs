//! Frames in an array.

use ebpf_programs::abi::array::{parameter, top};
use ebpf_programs::abi::interpreter::{Description, Interpreter, PARAMETERS, position, run, walker};

use super::layout::{Layout, function_fields, memory_fields};
use super::{FramePath, FrameWalker, InvalidWalker};

/// Maximum size of a frame, in bytes.
const MAX_SIZE: u32 = 1 << 16;

/// Builder of a [`FrameWalker`] for frames in an array; see [`FrameWalker::array`].
///
/// The last word of the path leads to the innermost frame, and another one gives the end of the
/// array on the root side:
///
/// ```text
///   [word]             ──► innermost                    or: the first free element, or the number of frames
///   [word + distance]  ──► outermost                    or: the end of the memory from which the array grows down
///
///   low addresses   outermost │ … │ innermost │ free      unless the array grows down
/// ```
///
/// The array may move, and a thread may have another one at each sample; it is looked up each time.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ArrayWalker {
    path: FramePath,
    layout: Layout,
    size: u32,
    grows_down: bool,
    top: Top,
    /// Distance and meaning of the word with the end on the root side.
    end: Option<(i64, End)>,
}

/// Meaning of the word at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Top {
    Innermost,
    Free,
    Count,
}

/// Meaning of the word with the end on the root side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Outermost,
    EndOfMemory,
}

memory_fields!(ArrayWalker);

function_fields!(ArrayWalker);

impl ArrayWalker {
    pub(super) fn new(path: FramePath, size: u32) -> ArrayWalker {
        ArrayWalker { path, layout: Layout::new(), size, grows_down: false, top: Top::Innermost, end: None }
    }

    /// Tells where the walk ends: the address of the outermost frame is in the word that is
    /// `distance` bytes behind the word to which the path leads.
    pub fn outermost(mut self, distance: i64) -> ArrayWalker {
        self.end = Some((distance, End::Outermost));
        self
    }

    /// Tells where the walk of an array that [grows down](ArrayWalker::grows_down) ends: the first
    /// address behind the outermost frame is in the word that is `distance` bytes behind the
    /// word to which the path leads.
    pub fn end(mut self, distance: i64) -> ArrayWalker {
        self.end = Some((distance, End::EndOfMemory));
        self
    }

    /// The frame of a called function has a lower address than that of its caller. By default it
    /// has a higher one.
    pub fn grows_down(mut self) -> ArrayWalker {
        self.grows_down = true;
        self
    }

    /// The path leads to the first free element, next to the innermost frame.
    pub fn path_to_free(mut self) -> ArrayWalker {
        self.top = Top::Free;
        self
    }

    /// The path leads to the number of frames, in four bytes.
    pub fn path_to_count(mut self) -> ArrayWalker {
        self.top = Top::Count;
        self
    }

    /// Checks the parameters and returns the walker.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] if the path is empty or has more than eight offsets, the size is 0 or
    /// above 64 KiB, the outermost frame is not set, a field is not aligned or lies beyond the
    /// first 256 bytes of a frame, or the identity is out of bounds.
    pub fn build(self) -> Result<FrameWalker, InvalidWalker> {
        let path = self.path.check()?;
        let (frames, check_words) = self.layout.check()?;
        if !(1..=MAX_SIZE).contains(&self.size) {
            return Err(InvalidWalker::of("size of a frame", self.size.into(), "not 1 to 65,536 bytes"));
        }
        let Some((distance, end)) = self.end else {
            return Err(InvalidWalker::new("outermost frame", "not set: call `outermost` or `end`"));
        };
        if end == End::EndOfMemory && !self.grows_down {
            return Err(InvalidWalker::new("end of the memory", "only for an array that grows down"));
        }
        let none = FrameWalker::UNAVAILABLE.0;
        let interpreter = Interpreter { top: path, frames, check_words, ..none.interpreter };
        let parameters = self.parameters(distance, end);
        Ok(FrameWalker(Description { interpreter, walker: walker::ARRAY, parameters, ..none }))
    }

    fn parameters(&self, distance: i64, end: End) -> [u64; PARAMETERS] {
        let step = if self.grows_down { i64::from(self.size) } else { -i64::from(self.size) };
        let mut parameters = [0; PARAMETERS];
        parameters[parameter::STEP] = step as u64;
        parameters[parameter::TOP] = if self.top == Top::Count { top::COUNT } else { top::ADDRESS };
        parameters[parameter::TOP_OFFSET] = if self.top == Top::Free { step as u64 } else { 0 };
        parameters[parameter::END] = distance as u64;
        parameters[parameter::END_OFFSET] = if end == End::EndOfMemory { -step as u64 } else { 0 };
        parameters
    }

    /// Returns the builder of a walker with these parameters.
    pub(super) fn from_parts(
        path: FramePath,
        layout: Layout,
        parameters: &[u64; PARAMETERS],
    ) -> Result<ArrayWalker, InvalidWalker> {
        let step = parameters[parameter::STEP] as i64;
        let end = match parameters[parameter::END_OFFSET] {
            0 => End::Outermost,
            _ => End::EndOfMemory,
        };
        let top = match (parameters[parameter::TOP], parameters[parameter::TOP_OFFSET]) {
            (top::COUNT, _) => Top::Count,
            (_, 0) => Top::Innermost,
            _ => Top::Free,
        };
        let size = u32::try_from(step.unsigned_abs()).unwrap_or(u32::MAX);
        let distance = parameters[parameter::END] as i64;
        let array = ArrayWalker { path, layout, size, grows_down: step > 0, top, end: Some((distance, end)) };
        if array.parameters(distance, end) == *parameters {
            Ok(array)
        } else {
            Err(InvalidWalker::new("parameters of an array", "contradict one another"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array() -> ArrayWalker {
        FrameWalker::array(FramePath::from_thread_pointer(&[8]), 24)
    }

    #[test]
    fn parameters_are_those_of_kernel_side() {
        let parameters = |array: ArrayWalker| {
            let parameters = array.build().unwrap().abi().parameters;
            std::array::from_fn::<_, { parameter::COUNT }, _>(|index| parameters[index] as i64)
        };
        assert_eq!(parameters(array().outermost(-8)), [-24, 0, 0, -8, 0]);
        assert_eq!(parameters(array().outermost(16).path_to_free()), [-24, 0, -24, 16, 0]);
        assert_eq!(parameters(array().outermost(8).path_to_count()), [-24, 1, 0, 8, 0]);
        assert_eq!(parameters(array().grows_down().end(8)), [24, 0, 0, 8, -24]);
        assert_eq!(parameters(array().grows_down().outermost(8).path_to_free()), [24, 0, 24, 8, 0]);
    }

    #[test]
    fn build_names_what_is_wrong() {
        let error = |array: ArrayWalker| array.build().unwrap_err().to_string();
        assert_eq!(error(array()), "outermost frame: not set: call `outermost` or `end`");
        assert_eq!(error(array().end(8)), "end of the memory: only for an array that grows down");
        let empty = FrameWalker::array(FramePath::from_thread_pointer(&[8]), 0).outermost(8);
        assert_eq!(error(empty), "size of a frame 0: not 1 to 65,536 bytes");
        assert_eq!(error(array().outermost(8).function(4)), "offset of the function 4: not a multiple of 8");
    }
}
