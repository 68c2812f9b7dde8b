//! Printed tables.

use std::time::Duration;

use benches::report::{median, print, row};

use crate::turn::{Questions, Turn};

/// One row per interpreter.
pub(crate) struct Tables {
    pub(crate) names: Vec<Vec<String>>,
    pub(crate) once: Vec<Vec<String>>,
    pub(crate) py_spy: Vec<Vec<String>>,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        Tables {
            names: vec![row([
                "ns a frame",
                "functions",
                "wrong",
                "cold",
                "reads",
                "bytes",
                "bare reads",
                "cold / bare",
                "other line",
                "warm",
                "cold / warm",
            ])],
            once: vec![row([
                "µs",
                "its file",
                "others",
                "each of them",
                "attach",
                "reads",
                "all, first process",
                "second",
            ])],
            py_spy: vec![row([
                "ns a frame",
                "cold",
                "py-spy dump",
                "ratio",
                "warm",
                "py-spy record",
                "ratio",
            ])],
        }
    }

    pub(crate) fn print(&self) {
        for table in [&self.names, &self.once, &self.py_spy] {
            print(table);
            println!();
        }
    }
}

/// All rounds of one interpreter.
pub(crate) struct Turns<'a> {
    pub(crate) name: &'a str,
    pub(crate) functions: usize,
    pub(crate) questions: Questions,
    pub(crate) turns: Vec<Turn>,
}

impl Turns<'_> {
    /// Nanoseconds.
    pub(crate) fn median(&self, of: fn(&Turn) -> Duration) -> f64 {
        median(&self.turns.iter().map(|turn| of(turn).as_nanos() as f64).collect::<Vec<_>>())
    }

    /// Nanoseconds per function.
    pub(crate) fn each(&self, of: fn(&Turn) -> Duration) -> f64 {
        self.median(of) / self.functions as f64
    }

    /// Returns the table of frames.
    pub(crate) fn names(&self) -> Vec<String> {
        let functions = self.functions as f64;
        let [cold, bare] = [self.each(|it| it.cold), self.each(|it| it.bare)];
        let [other, warm] = [self.each(|it| it.other), self.each(|it| it.warm)];
        row([
            self.name,
            &self.functions.to_string(),
            &self.questions.wrong.to_string(),
            &format!("{cold:.0}"),
            &format!("{:.2}", self.questions.reads.len() as f64 / functions),
            &format!("{:.0}", self.questions.bytes() as f64 / functions),
            &format!("{bare:.0}"),
            &format!("{:.2}", cold / bare),
            &format!("{other:.1}"),
            &format!("{warm:.1}"),
            &format!("{:.0}", cold / warm),
        ])
    }

    /// Returns the table of files and processes.
    pub(crate) fn once(&self) -> Vec<String> {
        let files = self.turns.first().map_or(0, |turn| turn.answers.others.1);
        let [found, others] = [self.median(|it| it.answers.found), self.median(|it| it.answers.others.0)];
        // The second process of the same file.
        let attached = self.median(|it| it.answers.attached.last().copied().unwrap_or_default());
        row([
            self.name,
            &format!("{:.0}", found / 1e3),
            &files.to_string(),
            &format!("{:.1}", others / 1e3 / f64::from(files.max(1))),
            &format!("{:.0}", attached / 1e3),
            &self.questions.attaching.to_string(),
            &format!("{:.0}", self.median(|it| it.first) / 1e3),
            &format!("{:.0}", self.median(|it| it.second) / 1e3),
        ])
    }
}
