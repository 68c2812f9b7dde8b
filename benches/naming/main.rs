//! What it costs user space to name a frame of a Python script: function, file and line.
//!
//! ```text
//! $ cargo bench -p benches --bench naming -- --pythons pyenv-3.8,pyenv-3.13,debian-3.14
//! $ cargo bench -p benches --bench naming -- --python python3.11 --rounds 5
//! ```
//!
//! A process of each interpreter holds the functions of the standard library and says where. The profiler's own
//! `Registry` over the running machine gets calls of them, as the kernel side would send them:
//!
//! * cold: no function was met before, so each is read from the process
//! * other line: they are known, and run at another instruction
//! * warm: once more the same
//!
//! CPU time of the thread that names, in turns with the bare reads: one `process_vm_readv` for each that naming did.
//! Every name, file and line is compared with what the process says.
//!
//! py-spy reads frames and names of a process at every look. What it takes for a frame is the difference between a
//! process with a deep stack of functions that are all different and one with a flat stack. It includes its reading
//! of the frame, which the kernel side does here (`scripts` measures that), and text for the function.
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

/// Which interpreters, by parts of their names.
const PYTHONS: &str = "pyenv-2.7,pyenv-3.6,pyenv-3.8,pyenv-3.11,pyenv-3.13,debian-3.14";

/// The depth of the flat stack.
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

/// The one that is asked for, or those of the list.
fn chosen(fixtures: &Path) -> Outcome<Vec<Interpreter>> {
    let own = |program: String| Interpreter { name: program.clone(), root: String::new(), program };
    match option("python", String::new()) {
        none if none.is_empty() => Ok(interpreters(fixtures, &option("pythons", PYTHONS.to_owned()))?),
        program => Ok(vec![own(program)]),
    }
}

struct Bench {
    rounds: usize,
    /// Calls of the deep stack.
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

    /// py-spy's looks at the same processes, against our cold and warm frames.
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

    /// Nanoseconds that a frame takes py-spy in one look, and in each of many.
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
