//! One program, one way to build it, and what its stacks have to be.

use std::path::Path;

use crate::busy;
use crate::compare::{Comparison, Expected, Rules};
use crate::compile::{Build, Built};
use crate::folded::Stack;
use crate::oracle::{self, Question};
use crate::process::Running;
use crate::profiler::{Order, profile};
use crate::roots::Roots;
use live_suite::comparison::name::{plain, same};

/// A case: built, asked of gdb, profiled, compared.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    build: Build,
    arguments: Vec<String>,
    looks: Vec<Look>,
    known: Vec<&'static str>,
    also: Vec<&'static str>,
    frame_pointers: &'static str,
    life: f64,
    main_is_bare: bool,
    is_alone: bool,
    other_name: &'static str,
    rules: Rules,
}

/// A case whose program is built, and whose stacks are known.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    case: Case,
    built: Built,
    rules: Rules,
}

/// One question to gdb, about a run with these arguments.
#[derive(Clone, Debug, Default)]
struct Look {
    arguments: Vec<String>,
    question: Question,
}

/// Seconds for which one program is profiled, and those that each further one adds.
const SECONDS: f64 = 3.0;
const SECONDS_MORE: f64 = 0.8;
/// Maximum life of a program, in seconds.
const LIFE: f64 = 30.0;
const FREQUENCY: u32 = 997;

impl Case {
    pub(crate) fn new(source: &'static str) -> Case {
        Case {
            build: Build::new(source),
            arguments: Vec::new(),
            looks: Vec::new(),
            known: Vec::new(),
            also: Vec::new(),
            frame_pointers: "",
            life: LIFE,
            main_is_bare: false,
            is_alone: false,
            other_name: "",
            rules: Rules::default(),
        }
    }

    /// Adds flags for the compiler.
    pub(crate) fn flags(mut self, flags: &[&'static str]) -> Case {
        self.build.flags.extend(flags);
        self
    }

    /// Takes the symbols out of what runs.
    pub(crate) fn stripped(mut self) -> Case {
        self.build.stripped = true;
        self
    }

    /// Builds a shared library beside it.
    pub(crate) fn library(mut self, source: &'static str, name: &'static str) -> Case {
        self.build.library = Some((source, name));
        self
    }

    /// Arguments behind the seconds; `DIR` is the directory that it is built in.
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Case {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// Counts stacks apart that are on the way to an expected one: the program starts or loads while it is profiled.
    pub(crate) fn has_way(mut self) -> Case {
        self.rules.has_way = true;
        self
    }

    /// Asks gdb about a run with other arguments than the one that is profiled.
    pub(crate) fn learn_from(mut self, arguments: &[&str]) -> Case {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.looks.push(Look { arguments, ..Look::default() });
        self
    }

    /// Lets gdb go on for so many instructions and look after each.
    pub(crate) fn step(self, steps: u32) -> Case {
        self.ask(Question { steps, ..Question::default() })
    }

    /// Lets gdb look where this function is called.
    pub(crate) fn stop_at(self, stop: &'static str) -> Case {
        self.ask(Question { stop, ..Question::default() })
    }

    fn ask(mut self, question: Question) -> Case {
        self.looks.push(Look { arguments: self.arguments.clone(), question });
        self
    }

    /// A chain, from main, that gdb must have seen: the oracle is checked too.
    pub(crate) fn known(mut self, chain: &'static str) -> Case {
        self.known.push(chain);
        self
    }

    /// A chain, from main, that is right although gdb may not have caught it.
    pub(crate) fn also(mut self, chain: &'static str) -> Case {
        self.also.push(chain);
        self
    }

    /// These functions have frame pointers and no unwind data: gdb must be told.
    pub(crate) fn frame_pointers(mut self, functions: &'static str) -> Case {
        self.frame_pointers = functions;
        self
    }

    /// Lifetime of the program while it is profiled.
    pub(crate) fn life(mut self, seconds: f64) -> Case {
        self.life = seconds;
        self
    }

    /// The main function has neither unwind data nor a frame pointer: gdb takes a word that it
    /// saved for a frame.
    pub(crate) fn main_is_bare(mut self) -> Case {
        self.main_is_bare = true;
        self
    }

    /// Profiles it without others beside it: its process changes its name.
    pub(crate) fn alone(mut self) -> Case {
        self.is_alone = true;
        self
    }

    /// Another name of its process, behind an exec.
    pub(crate) fn called(mut self, name: &'static str) -> Case {
        self.other_name = name;
        self
    }

    /// Accepts the root side of a chain: the program calls and returns all the time.
    pub(crate) fn prefixes(mut self) -> Case {
        self.rules.prefixes = true;
        self
    }

    /// Doesn't compare what is above these functions.
    pub(crate) fn beyond(mut self, functions: &[&str]) -> Case {
        self.rules.beyond = functions.iter().map(|&function| function.to_owned()).collect();
        self
    }

    /// Accepts that the program is still being loaded; what the loader does then is not compared.
    pub(crate) fn loader(mut self) -> Case {
        self.rules.stacks.push(graft(&[], "_start _dl_start"));
        self.rules.beyond.push("_dl_start".to_owned());
        self
    }

    /// Accepts stacks without user frames that are in one of these kernel functions.
    pub(crate) fn kernel_alone(mut self, functions: &[&str]) -> Case {
        self.rules.kernel_alone = functions.iter().map(|&function| function.to_owned()).collect();
        self
    }

    /// Builds the program, under a name of its own, and asks gdb.
    pub(crate) fn prepare(&self, name: &str, number: usize) -> Ready {
        let mut build = self.build.clone();
        build.number = Some(number);
        let built = build.build(name);
        let rules = self.learn(name, &built);
        Ready { case: self.clone(), built, rules }
    }

    /// Stacks of the program by gdb, in separate processes.
    fn learn(&self, name: &str, built: &Built) -> Rules {
        let once = [Look { arguments: self.arguments.clone(), ..Look::default() }];
        let looks = if self.looks.is_empty() { &once[..] } else { &self.looks };
        let mut rules = self.rules.clone();
        for look in looks {
            let copy = built.directory.join("learnt").join(built.program.file_name().expect("it has a name"));
            std::fs::create_dir_all(built.directory.join("learnt"))
                .expect("the target directory can be written");
            std::fs::copy(&built.program, &copy).expect("it has been built");
            let running =
                Running::start(&copy, &arguments(&LIFE.to_string(), &look.arguments, &built.directory));
            std::thread::sleep(SETTLE_TIME);
            let question = Question { frame_pointers: self.frame_pointers, ..look.question };
            let seen = oracle::ask(running.pid(), &built.symbols, question);
            rules.stacks.extend(seen.stacks);
            rules.clocks.extend(seen.clocks);
        }
        self.require_known(name, &rules.stacks);
        if self.build.stripped {
            rules.forget_inlined();
        }
        if self.main_is_bare {
            rules.forget_guess_below_main();
        }
        let root = root_of(&rules.stacks);
        rules.stacks.extend(self.also.iter().map(|chain| graft(&root, chain)));
        rules
    }

    fn require_known(&self, name: &str, stacks: &[Vec<Expected>]) {
        let names = |stack: &Vec<Expected>| -> Vec<String> {
            stack.iter().map(|frame| frame.name.clone().unwrap_or("?".to_owned())).collect()
        };
        for chain in &self.known {
            let wanted: Vec<_> = chain.split(' ').map(plain).collect();
            let has = |part: &[String]| part.iter().zip(&wanted).all(|(seen, wanted)| same(seen, wanted));
            assert!(
                stacks.iter().any(|stack| names(stack).windows(wanted.len()).any(has)),
                "{name}: gdb has not seen {chain}, but {:?}",
                stacks.iter().map(|stack| names(stack).join(" ")).collect::<Vec<_>>()
            );
        }
    }
}

impl Ready {
    /// Returns `true` if both can be profiled in one run.
    pub(crate) fn goes_with(&self, other: &Ready) -> bool {
        let [one, other] = [self, other].map(|ready| &ready.case);
        let is_same = one.build.source == other.build.source && one.build.flags == other.build.flags;
        !(one.is_alone || other.is_alone || is_same)
    }

    /// Profiles the programs of all these cases in one run, and compares each.
    pub(crate) fn profile(cases: &[&Ready]) -> Vec<Comparison> {
        let running: Vec<Running> =
            cases.iter().map(|ready| ready.start(&ready.case.life.to_string())).collect();
        let outcome = profile(&Order {
            pids: running.iter().map(Running::pid).collect(),
            seconds: SECONDS + SECONDS_MORE * (cases.len() - 1) as f64,
            frequency: FREQUENCY,
            output: cases[0].built.directory.join("profile.folded"),
        });
        let is_of = |ready: &Ready, stack: &Stack| cases.len() == 1 || stack.comm == ready.comm();
        let stacks =
            |ready| outcome.stacks.iter().filter(|stack| is_of(ready, stack)).cloned().collect::<Vec<_>>();
        cases.iter().map(|ready| ready.rules.compare(&stacks(ready))).collect()
    }

    /// Returns the samples of its process in a profile of the machine.
    pub(crate) fn own(&self, stacks: &[Stack]) -> Vec<Stack> {
        let is_own = |stack: &&Stack| stack.comm == self.comm() || stack.comm == self.case.other_name;
        stacks.iter().filter(is_own).cloned().collect()
    }

    /// Returns the number of wrong samples of a program that was profiled from its start on: all
    /// have to be whole, and those in its chain exact.
    pub(crate) fn compare_started(&self, stacks: &[Stack], roots: &Roots) -> u64 {
        let is_in_chain = |stack: &Stack| {
            stack
                .frames
                .iter()
                .any(|frame| ["l1", "leaf", "before1", "after1"].contains(&plain(&frame.name).as_str()))
        };
        let (chain, start): (Vec<Stack>, Vec<Stack>) = stacks.iter().cloned().partition(is_in_chain);
        let comparison = self.rules.compare(&chain);
        if comparison.exact < comparison.samples {
            eprintln!("{}: {comparison}", self.comm());
        }
        comparison.samples - comparison.exact + busy::broken(&start, roots)
    }

    /// Starts the program, which lives for some seconds.
    pub(crate) fn start(&self, seconds: &str) -> Running {
        let arguments = arguments(seconds, &self.case.arguments, &self.built.directory);
        Running::start(&self.built.program, &arguments)
    }

    /// The name under which the kernel knows its process.
    fn comm(&self) -> String {
        self.built.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Long enough to be in the chain.
const SETTLE_TIME: std::time::Duration = std::time::Duration::from_millis(37);

fn arguments(seconds: &str, more: &[String], directory: &Path) -> Vec<String> {
    let directory = directory.to_string_lossy();
    let more = more.iter().map(|argument| argument.replace("DIR", &directory));
    std::iter::once(seconds.to_owned()).chain(more).collect()
}

/// The frames before main, as gdb saw them.
fn root_of(stacks: &[Vec<Expected>]) -> Vec<Expected> {
    let before_main = |stack: &Vec<Expected>| {
        let main = stack.iter().rposition(|frame| frame.name.as_deref() == Some("main"))?;
        Some(stack[..main].to_vec())
    };
    stacks.iter().find_map(before_main).unwrap_or_default()
}

fn graft(root: &[Expected], chain: &str) -> Vec<Expected> {
    let named = |function: &str| Expected { name: Some(plain(function)), ..Expected::default() };
    root.iter().cloned().chain(chain.split(' ').map(named)).collect()
}
