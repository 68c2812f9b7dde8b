//! Cost of naming a frame of a Python script in user space: function, file and line.
//!
//! ```text
//! $ cargo bench -p benches --bench naming -- --pythons pyenv-3.8,pyenv-3.13,debian-3.14
//! $ cargo bench -p benches --bench naming -- --python python3.11 --rounds 5
//! ```
//!
//! A process per interpreter holds the functions of the standard library and prints their
//! addresses. The profiler's `Registry` on the running machine gets frames of them, as the kernel
//! side sends them:
//!
//! * cold: no function is cached, so each is read from the process
//! * other line: the functions are cached, at another instruction
//! * warm: the same frames again
//!
//! CPU time of the naming thread, in turns with the bare reads: one `process_vm_readv` for each
//! read of naming. Every name, file and line is compared with the process's answer.
//!
//! py-spy reads frames and names of a process with every sample. Its time per frame is the
//! difference between a process with a deep stack of distinct functions and one with a flat stack.
//! It includes reading the frame, which the kernel side does here (`languages` measures that), and
//! formatting the function.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

mod py_spy;

mod reads;

mod seams;

mod tables;

mod turn;

mod workload;

use std::error::Error;
use std::path::Path;

use benches::interpreter::{Interpreter, interpreters};
use benches::options::option;
use benches::report::{median, row};
use py_spy::PySpy;
use tables::{Tables, Turns};
use turn::{Questions, Turn};
use workload::Workload;

/// Default interpreters, by parts of their names.
const PYTHONS: &str = "pyenv-2.7,pyenv-3.6,pyenv-3.8,pyenv-3.11,pyenv-3.13,debian-3.14";

/// Depth of the flat stack.
const FLAT: usize = 10;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
    let bench = Bench {
        rounds: option("rounds", 15),
        depth: option("depth", 2000).max(2 * FLAT),
        py_spy: PySpy::find(&fixtures),
    };
    let mut tables = Tables::new();
    for interpreter in chosen(&fixtures)? {
        bench.run(&interpreter, &mut tables)?;
    }
    tables.print();
    Ok(())
}

/// Returns the configured interpreter, or those of the list.
fn chosen(fixtures: &Path) -> Outcome<Vec<Interpreter>> {
    let own = |program: String| Interpreter { name: program.clone(), root: String::new(), program };
    match option("python", String::new()) {
        none if none.is_empty() => Ok(interpreters(fixtures, &option("pythons", PYTHONS.to_owned()))?),
        program => Ok(vec![own(program)]),
    }
}

struct Bench {
    rounds: usize,
    /// Frames of the deep stack.
    depth: usize,
    py_spy: Option<PySpy>,
}

impl Bench {
    fn run(&self, interpreter: &Interpreter, tables: &mut Tables) -> Outcome {
        let deep = Workload::start(interpreter, self.depth)?;
        let flat = Workload::start(interpreter, FLAT)?;
        let questions = Questions::of(&deep)?;
        let turns: Vec<Turn> =
            (0..self.rounds).map(|_| questions.ask(&deep, &flat)).collect::<Outcome<_>>()?;
        let turns = Turns { name: &interpreter.name, functions: deep.library.len(), questions, turns };
        tables.names.push(turns.names());
        tables.once.push(turns.once());
        let ours = [turns.median(|it| it.deep) / self.depth as f64, turns.each(|it| it.warm)];
        tables.py_spy.push(self.compare(&interpreter.name, [deep.pid(), flat.pid()], ours));
        Ok(())
    }

    /// Runs py-spy on the same processes, for comparison with cold and warm frames.
    fn compare(&self, name: &str, pids: [u32; 2], ours: [f64; 2]) -> Vec<String> {
        let theirs = self.py_spy.as_ref().map(|py_spy| self.looks(py_spy, pids));
        let [dump, record] = match theirs {
            Some(Ok(theirs)) => theirs,
            _ => [f64::NAN; 2],
        };
        row([
            name,
            &format!("{:.0}", ours[0]),
            &format!("{dump:.0}"),
            &format!("{:.1}", dump / ours[0]),
            &format!("{:.1}", ours[1]),
            &format!("{record:.0}"),
            &format!("{:.0}", record / ours[1]),
        ])
    }

    /// Nanoseconds per frame of py-spy in one sample, and in each of many.
    fn looks(&self, py_spy: &PySpy, [deep, flat]: [u32; 2]) -> Outcome<[f64; 2]> {
        let frames = (self.depth - FLAT) as f64;
        let (mut once, mut often) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds.div_ceil(3) {
            let more = py_spy.dump(deep)?.as_nanos() as f64 - py_spy.dump(flat)?.as_nanos() as f64;
            once.push(more / frames);
            let directory = env!("CARGO_TARGET_TMPDIR");
            let (cpu, looks) = py_spy.record(deep, directory)?;
            let more = cpu.as_nanos() as f64 - py_spy.record(flat, directory)?.0.as_nanos() as f64;
            often.push(more / frames / looks.max(1) as f64);
        }
        Ok([median(&once), median(&often)])
    }
}
