//! One program, one way to build it, and what its stacks have to be.

use std::path::Path;

use crate::compare::{Expected, Rules, Verdict};
use crate::compile::{Build, Built};
use crate::name::{plain, same};
use crate::oracle::{self, Question};
use crate::process::Running;
use crate::profiler::{Order, profile};

/// A case: built, asked of gdb, profiled, judged.
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
    rules: Rules,
}

/// One question to gdb, about a run with these arguments.
#[derive(Clone, Debug, Default)]
struct Look {
    arguments: Vec<String>,
    question: Question,
}

/// How long a program is profiled, and how long it lives at most.
const SECONDS: f64 = 3.0;
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

    /// How long the program lives while it is profiled.
    pub(crate) fn life(mut self, seconds: f64) -> Case {
        self.life = seconds;
        self
    }

    /// The main function has neither unwind data nor a frame pointer: gdb takes a word that it saved for a frame.
    pub(crate) fn main_is_bare(mut self) -> Case {
        self.main_is_bare = true;
        self
    }

    /// Accepts the root side of a chain: the program calls and returns all the time.
    pub(crate) fn prefixes(mut self) -> Case {
        self.rules.prefixes = true;
        self
    }

    /// Doesn't judge what lies above these functions.
    pub(crate) fn beyond(mut self, functions: &[&str]) -> Case {
        self.rules.beyond = functions.iter().map(|&function| function.to_owned()).collect();
        self
    }

    /// Accepts that the program is still being loaded; what the loader does then is not judged.
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

    /// Runs the case under this name; fails if it isn't good.
    pub(crate) fn check(&self, name: &str) {
        let verdict = self.run(name);
        eprintln!("{name:<28} {verdict}");
        assert!(verdict.is_good(), "{name}: {verdict}");
    }

    fn run(&self, name: &str) -> Verdict {
        let built = self.build.build(name);
        let rules = self.learn(name, &built);
        let running =
            Running::start(&built.program, &arguments(self.life, &self.arguments, &built.directory));
        let outcome = profile(&Order {
            pid: Some(running.pid()),
            seconds: SECONDS,
            frequency: FREQUENCY,
            output: built.directory.join("profile.folded"),
        });
        rules.judge(&outcome.stacks)
    }

    /// What gdb says of the program, in processes of their own.
    fn learn(&self, name: &str, built: &Built) -> Rules {
        let once = [Look { arguments: self.arguments.clone(), ..Look::default() }];
        let looks = if self.looks.is_empty() { &once[..] } else { &self.looks };
        let mut rules = self.rules.clone();
        for look in looks {
            let copy = built.directory.join("learnt").join(built.program.file_name().expect("it has a name"));
            std::fs::create_dir_all(built.directory.join("learnt"))
                .expect("the target directory can be written");
            std::fs::copy(&built.program, &copy).expect("it has been built");
            let running = Running::start(&copy, &arguments(LIFE, &look.arguments, &built.directory));
            std::thread::sleep(SETTLE);
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

/// Long enough to be in the chain.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(37);

fn arguments(life: f64, more: &[String], directory: &Path) -> Vec<String> {
    let directory = directory.to_string_lossy();
    let more = more.iter().map(|argument| argument.replace("DIR", &directory));
    std::iter::once(life.to_string()).chain(more).collect()
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
