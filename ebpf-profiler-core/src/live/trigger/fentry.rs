//! Functions of the kernel, by programs that are loaded for each of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;

use ebpf_programs::abi::cookie;

use super::call::{Call, Value};
use super::error::AttachError;
use super::kprobe::{self, SYMBOLS};
use super::operand::Operand;
use super::place::{self, Names};
use crate::live::error::StartError;
use crate::live::kernel::bpf::{self, FUNCTION_ENTRY, FUNCTION_EXIT};
use crate::live::kernel::feature::KernelFeature;
use crate::live::kernel::object::KernelObject;
use crate::live::kernel::types::{Integer, KernelFunction, KernelTypes};
use crate::live::machine::capability::{BPF, PERFMON};
use crate::profile::SampleKind;

/// The trigger of calls or returns of a function of the kernel, by its type description (fentry and
/// fexit).
///
/// The values of arguments and results have the types that the kernel describes: a negative result
/// of 32 bits is negative, where a [`Kprobe`](super::Kprobe) sees a large number. Functions of
/// modules cannot be sampled, nor those that the compiler inlined.
///
/// # Minimum kernel version
///
/// 5.19, with `CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS`.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Fentry};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .on(Fentry::entry("vfs_fsync_range").time())
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// let profile = profiler.run_for(Duration::from_secs(10))?;
/// println!("{:?} until data was on the disk", Duration::from_nanos(profile.total()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("fexit", "BPF_TRACE_FENTRY"))]
#[derive(Clone, Debug, PartialEq)]
pub struct Fentry {
    pub(super) function: String,
    pub(super) call: Call,
}

impl Fentry {
    /// Returns the trigger of calls of `function`: its name, or a pattern with `*`, `?` and
    /// `[a-z]`, such as `vfs_*`. A pattern samples at most 16 functions: the start loads a
    /// program for each, in up to 1 s. Those that the kernel rejects do not match.
    pub fn entry(function: impl Into<String>) -> Fentry {
        Fentry { function: function.into(), call: Call::ENTRY }
    }

    /// Returns the trigger of returns of `function`; as [`entry`](Fentry::entry).
    pub fn exit(function: impl Into<String>) -> Fentry {
        Fentry { call: Call::EXIT, ..Fentry::entry(function) }
    }

    /// Takes argument `index`, from 0 to 5, as the value of a call: an integer or pointer. Negative
    /// ones count as 0. Other indices leave the value at 1.
    #[must_use = "returns the changed trigger"]
    pub fn argument(self, index: u32) -> Fentry {
        Fentry { call: self.call.argument(index), ..self }
    }

    /// Takes the result of the function, an integer or pointer, as the value of a return. Negative
    /// ones count as 0.
    #[must_use = "returns the changed trigger"]
    pub fn result(self) -> Fentry {
        Fentry { call: self.call.result(), ..self }
    }

    /// Takes the time from a call to its return as the value, in nanoseconds. The sample is taken
    /// at the return. Calls that began before the profiler are not counted.
    #[must_use = "returns the changed trigger"]
    pub fn time(self) -> Fentry {
        Fentry { call: self.call.time(), ..self }
    }

    pub(super) fn kind(&self) -> SampleKind {
        SampleKind::new(super::Trigger::from(self.clone()).to_string(), self.call.unit())
    }

    /// Returns the programs that it needs, in the order in which they are attached, each with its
    /// edge.
    pub(super) fn edges(&self) -> &'static [(&'static str, u32)] {
        match self.call {
            // The exit first: each entry has one then.
            call if call.is_time() => &[("function_left", FUNCTION_EXIT), ("function_begun", FUNCTION_ENTRY)],
            Call { is_return: true, .. } => &[("function_left", FUNCTION_EXIT)],
            Call { is_return: false, .. } => &[("function_entered", FUNCTION_ENTRY)],
        }
    }

    /// Loads the programs of its functions, with the number of their kind of samples.
    pub(super) fn load(
        &self,
        object: &KernelObject,
        number: u64,
    ) -> Result<Vec<FunctionProgram>, AttachError> {
        let (functions, is_pattern) = self.functions()?;
        let (mut programs, mut rejected) = (Vec::new(), None);
        for &(name, edge) in self.edges() {
            for function in &functions {
                let loaded = self.cookie(function).and_then(|cookie| {
                    let program = object.program_of(name, function.id).map_err(cause)?;
                    Ok(FunctionProgram { program, edge, cookie: number | cookie, is_optional: is_pattern })
                });
                match loaded {
                    Ok(program) => programs.push(program),
                    Err(error) if !is_pattern => return Err(error),
                    Err(error) => rejected = Some(error),
                }
            }
        }
        match rejected {
            Some(error) if programs.is_empty() => Err(AttachError::invalid(format!(
                "none of {} functions can be sampled: {error}",
                functions.len()
            ))),
            _ => Ok(programs),
        }
    }

    /// Returns its functions, and `true` if they match a pattern.
    fn functions(&self) -> Result<(Vec<KernelFunction>, bool), AttachError> {
        let names = Names::new(&self.function)?;
        let file = File::open(SYMBOLS).map_err(|error| AttachError::unreadable(SYMBOLS, error))?;
        let symbols = kprobe::functions(BufReader::new(file), &names);
        let no_types = |error| AttachError::unreadable("the kernel's type information", error);
        let mut types = KernelTypes::of_this_kernel().map_err(no_types)?;
        let mut described = types.functions(|name| names.matches(name));
        let is_unique = |name: &str| symbols.iter().any(|(symbol, count)| symbol == name && *count == 1);
        let function = &self.function;
        match (&names, symbols.as_slice()) {
            (Names::One(_), []) => {
                Err(AttachError::not_found(format!("the kernel has no function {function}")))
            }
            (Names::One(_), [(_, 1)]) if described.len() == 1 => Ok((described, false)),
            (Names::One(_), [(_, 1)]) => {
                Err(AttachError::unsupported(format!("the kernel does not describe the type of {function}")))
            }
            (Names::One(_), _) => {
                Err(AttachError::invalid(format!("the kernel has several functions {function}")))
            }
            (Names::All(_), _) => {
                described.retain(|function| is_unique(&function.name));
                if described.is_empty() {
                    return Err(AttachError::not_found(format!(
                        "no function of the kernel matches {function}"
                    )));
                }
                Ok((place::bounded(described, MAX_FUNCTIONS, "functions")?, true))
            }
        }
    }

    /// Returns the cookie of a function without the number of the kind of samples.
    fn cookie(
        &self,
        KernelFunction { name, arguments, result, .. }: &KernelFunction,
    ) -> Result<u64, AttachError> {
        let (word, integer) = match self.call.value {
            Value::Time => return Ok(cookie::TIME),
            Value::Count => return Ok(Operand::ONE.cookie()),
            Value::Result => (
                0,
                result.ok_or_else(|| {
                    AttachError::invalid(format!("the result of {name} is no integer or pointer"))
                })?,
            ),
            Value::Argument(index) => {
                let argument = arguments.get(index as usize);
                let argument = argument.ok_or_else(|| {
                    AttachError::invalid(format!("{name} has {} arguments", arguments.len()))
                })?;
                let integer = argument.integer;
                (
                    argument.word,
                    integer.ok_or_else(|| {
                        AttachError::invalid(format!("arg{index} of {name} is no integer or pointer"))
                    })?,
                )
            }
        };
        let Integer { size, is_signed } = integer;
        Ok(Operand::word_of_function(word, size, is_signed).cookie())
    }
}

/// Maximum number of functions of a trigger: the kernel verifies the walk again for each.
const MAX_FUNCTIONS: usize = 16;

/// A program that is loaded for a function of the kernel.
pub(super) struct FunctionProgram {
    pub(super) program: OwnedFd,
    edge: u32,
    cookie: u64,
    /// `true` if a program that the kernel rejects is skipped.
    pub(super) is_optional: bool,
}

impl FunctionProgram {
    /// Attaches the program as long as the returned link is open.
    pub(super) fn attach(&self) -> io::Result<OwnedFd> {
        bpf::link_to_function(&self.program, self.edge, self.cookie)
    }
}

/// Returns the reason for which the running kernel cannot run programs at its functions; `None` if
/// nothing is known to be missing.
pub(super) fn missing() -> Option<String> {
    if let Some(refusal) = KernelFeature::Cookies.refuse("fentry") {
        return Some(refusal);
    }
    let symbols = BufReader::new(File::open(SYMBOLS).ok()?);
    if !symbols.lines().map_while(Result::ok).any(|line| line.ends_with(" register_ftrace_direct")) {
        let option = "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS";
        return Some(format!("this kernel has no fentry; use one that is built with {option}=y"));
    }
    let function = KernelTypes::of_this_kernel().ok()?.functions(|name| name == b"vfs_read").pop()?;
    let error = bpf::load_empty_of_function(function.id).err()?;
    (error.raw_os_error() == Some(libc::EPERM)).then(denied).flatten()
}

/// Returns the reason for which the kernel permits no programs at its functions, if this program
/// has the capabilities.
fn denied() -> Option<String> {
    let is_privileged = BPF.is_held() && PERFMON.is_held();
    is_privileged
        .then(|| "a policy of this kernel permits no fentry (EPERM), in spite of all capabilities".to_owned())
}

/// Returns the cause for which a program was not loaded: the verifier's first line, if it wrote
/// one.
fn cause(error: StartError) -> AttachError {
    match error {
        StartError::Rejected { error, log } => match log.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => {
                let what = format!("the kernel rejects its program, {}", line.trim());
                AttachError::System { what, error }
            }
            None => AttachError::System { what: "the kernel rejects its program".to_owned(), error },
        },
        StartError::Privilege { .. } => {
            AttachError::unsupported(denied().unwrap_or_else(|| error.to_string()))
        }
        _ => AttachError::unsupported(error.to_string()),
    }
}
