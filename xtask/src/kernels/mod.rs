//! `cargo xtask kernels`: runs a program under other kernels, in QEMU and without privileges.
//!
//! Everything is in the initial file system: our init, the program, the shared libraries it needs,
//! further files. The guest's serial output is printed; the task fails unless the program's exit
//! status is 0.

mod archive;
pub(crate) mod arm64;
mod files;
mod machine;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::binaries::{self, Binary};
use crate::fixtures::{Architecture, KERNELS, Kernel};
use crate::limit;
use crate::run::{Outcome, cargo, command, run, target};

use machine::Machine;

/// The command line.
#[derive(Clone, Debug, Default, PartialEq)]
struct Order {
    /// The architecture of the program, and of the kernels.
    architecture: Architecture,
    /// The kernels to boot; all of the architecture if there are none.
    kernels: Vec<String>,
    /// Time limit for one kernel.
    limit: Option<Duration>,
    /// Processors, as QEMU takes them: `4,maxcpus=255`; 2 if `None`.
    processors: Option<String>,
    /// Parameters of the kernel, such as `possible_cpus=512`.
    parameters: Vec<String>,
    /// Files beside the program.
    files: Vec<PathBuf>,
    /// The program and its arguments. If empty, a known chain is profiled.
    program: Vec<String>,
    /// Runs it once more where it fails.
    has_second_run: bool,
}

/// Runs the program under each kernel.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let order = Order::parse(arguments)?;
    if !order.program.is_empty() {
        return order.run();
    }
    if order.architecture == Architecture::Arm64 {
        return order.profile_on_arm64();
    }
    let programs = ["--bin", "flamegraph", "--bin", "own_language"];
    run(cargo(&["build", "--release", "--package", "examples"]).args(programs))?;
    let tests = binaries::build(&["--release", "--package", "live-suite", "--test", CPUS])?;
    let mut amd64 = order.clone();
    amd64.profile_by(target().join("release/flamegraph"), &tests)?;
    amd64.run()?;
    if order.kernels.is_empty() { order.profile_on_arm64() } else { Ok(()) }
}

/// Profiles a known chain under some kernels, by this program, and runs one of these tests there.
pub(crate) fn profile_by(flamegraph: PathBuf, tests: &[Binary], kernels: &[&str]) -> Outcome {
    let mut order = Order::of(kernels);
    order.profile_by(flamegraph, tests)?;
    order.run()
}

/// Fetches the images of kernels.
pub(crate) fn fetch(kernels: &[&str]) -> Outcome {
    let wanted = KERNELS.iter().filter(|kernel| kernels.contains(&kernel.version));
    wanted.map(Kernel::image).try_for_each(|image| image.map(drop))
}

/// Profiles known chains under a kernel of arm64.
pub(crate) fn profile_on_arm64(kernel: &str) -> Outcome {
    Order::of(&[kernel]).profile_on_arm64()
}

impl Order {
    fn of(kernels: &[&str]) -> Order {
        Order { kernels: kernels.iter().map(|&kernel| kernel.to_owned()).collect(), ..Order::default() }
    }

    fn profile_on_arm64(mut self) -> Outcome {
        arm64::profile(&mut self)?;
        self.run()
    }

    /// Runs the program under each kernel.
    fn run(&self) -> Outcome {
        let wanted = |kernel: &&Kernel| match self.kernels.as_slice() {
            [] => kernel.architecture == self.architecture,
            versions => versions.iter().any(|version| version == kernel.version),
        };
        let kernels: Vec<_> = KERNELS.iter().filter(wanted).collect();
        if kernels.is_empty() {
            return Err(format!("no such kernel; there are {}", versions()));
        }
        let archive = self.archive()?;
        // One after another: they are fetched by the same package manager.
        kernels.iter().try_for_each(|kernel| kernel.image().map(drop))?;
        // An emulated machine keeps one processor busy.
        let at_once = thread::available_parallelism().map_or(1, NonZero::get);
        let results = kernels.chunks(at_once).flat_map(|kernels| self.boot_all(kernels, &archive));
        let failed: Vec<_> =
            results.filter_map(|(version, result)| Some(format!("{version}: {}", result.err()?))).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// Runs the program under these kernels at once.
    fn boot_all(&self, kernels: &[&'static Kernel], archive: &Path) -> Vec<(&'static str, Outcome)> {
        let steps = limit::steps();
        thread::scope(|scope| {
            let boot = |&kernel: &&'static Kernel| {
                let steps = steps.clone();
                let machine = scope.spawn(move || {
                    limit::enter(steps);
                    self.boot(kernel, archive)
                });
                (kernel.version, machine)
            };
            let machines: Vec<_> = kernels.iter().map(boot).collect();
            let ended = |machine: thread::ScopedJoinHandle<'_, Outcome>| {
                machine.join().unwrap_or_else(|_| Err("the thread of the machine panicked".to_owned()))
            };
            machines.into_iter().map(|(version, machine)| (version, ended(machine))).collect()
        })
    }

    fn parse(arguments: &[String]) -> Result<Order, String> {
        let mut order = Order::default();
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            if option == "--" {
                order.program = arguments.cloned().collect();
                break;
            }
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--kernel" => {
                    let kernel = KERNELS.iter().find(|kernel| kernel.version == *value);
                    order.architecture = kernel.map_or(order.architecture, |kernel| kernel.architecture);
                    order.kernels.push(value.clone());
                }
                "--smp" => order.processors = Some(value.clone()),
                "--parameter" => order.parameters.push(value.clone()),
                "--file" => order.files.push(value.into()),
                "--seconds" => {
                    let seconds = value.parse().map_err(|_| format!("{value} is not a number of seconds"))?;
                    order.limit = Some(Duration::from_secs(seconds));
                }
                _ => return Err(format!("unknown option {option}")),
            }
        }
        Ok(order)
    }

    /// Takes flamegraph along, a chain for it to look at, and, as the program, who judges what it
    /// saw; beside it own_language with its toys, and the test that switches CPUs off, which
    /// many machines don't permit.
    fn profile_by(&mut self, flamegraph: PathBuf, tests: &[Binary]) -> Outcome {
        let cpus = tests.iter().find(|test| test.name == CPUS).ok_or("the test of CPUs is not built")?;
        self.files.push(cpus.copy_to(&directory().join(CPUS))?);
        for program in ["sh", "taskset"] {
            let found = test_needs::find(program).ok_or_else(|| format!("no {program}"))?;
            self.files.push(found);
        }
        let own_language = flamegraph.with_file_name("own_language");
        self.files.extend([flamegraph, own_language, compile("xtask/live/tests/programs/chain.c")?]);
        self.files.extend([compile_toy("array")?, compile_toy("compiled")?]);
        self.program.push(compile("xtask/guest/profile.c")?.to_string_lossy().into_owned());
        self.has_second_run = true;
        Ok(())
    }

    /// Writes the initial file system.
    fn archive(&self) -> Result<PathBuf, String> {
        let (init, name) = match self.architecture {
            Architecture::Amd64 => (compile("xtask/guest/init.c")?, "initramfs.cpio"),
            Architecture::Arm64 => {
                (arm64::compile("init", "xtask/guest/init.c", &["-static"])?, "initramfs.arm64.cpio")
            }
        };
        let path = directory().join(name);
        let archive = files::collect(self.architecture, &init, &self.program, &self.files)?;
        std::fs::write(&path, archive).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Boots a kernel, for tests once more if that fails: beside other work an emulated machine has
    /// too little time.
    fn boot(&self, kernel: &Kernel, archive: &Path) -> Outcome {
        let (image, limit) = (kernel.image()?, self.limit.unwrap_or(LIMIT));
        let processors = self.processors.as_deref().unwrap_or("2");
        let boot = || {
            let machine = Machine::start(kernel.architecture, &image, archive, processors, &self.parameters)?;
            machine::run(kernel.version, machine, limit)
        };
        let outcome = boot();
        if !self.has_second_run {
            return outcome;
        }
        outcome.or_else(|first| {
            eprintln!("Linux {} failed once, second run: {first}", kernel.version);
            boot()
        })
    }
}

/// Builds a program for the guest, without libraries and without frame pointers.
fn compile(source: &str) -> Result<PathBuf, String> {
    std::fs::create_dir_all(directory()).map_err(|error| format!("{}: {error}", directory().display()))?;
    let stem = Path::new(source).file_stem().unwrap_or_default();
    let program = directory().join(stem);
    let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-fomit-frame-pointer"];
    run(command(&["gcc"]).args(flags).arg(source).arg("-o").arg(&program))?;
    Ok(program)
}

/// Builds the runtime of a toy language, which is found by the symbols that it exports.
fn compile_toy(name: &str) -> Result<PathBuf, String> {
    let (source, program) = (format!("examples/src/toy/{name}.c"), directory().join(name));
    run(command(&["gcc"]).args(["-O2", "-rdynamic", &source]).arg("-o").arg(&program))?;
    Ok(program)
}

/// The test that runs there.
const CPUS: &str = "cpus";

fn directory() -> PathBuf {
    target().join("kernels")
}

/// An emulated boot takes some seconds; the rest is for the program.
const LIMIT: Duration = Duration::from_secs(700);

fn versions() -> String {
    KERNELS.iter().map(|kernel| kernel.version).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_command_line_is_read() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let order =
        Order::parse(&words("--kernel 6.1 --seconds 9 --smp 4 --file a --file b -- prog --seconds 3"))
            .unwrap();
    assert_eq!(order.kernels, ["6.1"]);
    assert_eq!(order.limit, Some(Duration::from_secs(9)));
    assert_eq!(order.processors.as_deref(), Some("4"));
    assert_eq!(order.files, [PathBuf::from("a"), PathBuf::from("b")]);
    assert_eq!(order.program, ["prog", "--seconds", "3"]);
    assert_eq!(order.architecture, Architecture::Amd64);
    assert_eq!(Order::parse(&words("--kernel arm64-6.1")).unwrap().architecture, Architecture::Arm64);
    for wrong in ["--kernel", "--seconds x", "--what 1"] {
        assert!(Order::parse(&words(wrong)).is_err(), "{wrong}");
    }
}
