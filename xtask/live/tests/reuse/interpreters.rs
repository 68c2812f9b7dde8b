//! The interpreters of this machine and those among the fixtures.

use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::paths::fixtures;
use live_suite::root;
use live_suite::selection::is_matrix;
use live_suite::workload::csharp;

/// The folder of the programs.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reuse/programs");

/// An interpreter, with the program that it runs.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    pub(crate) name: String,
    /// Folder to use as root; `None` for the machine's own.
    root: Option<PathBuf>,
    program: PathBuf,
    options: Vec<PathBuf>,
    script: &'static str,
    environment: Vec<(&'static str, String)>,
}

impl Interpreter {
    fn new(name: &str, program: impl Into<PathBuf>, script: &'static str) -> Interpreter {
        Interpreter {
            name: name.to_owned(),
            root: None,
            program: program.into(),
            options: Vec::new(),
            script,
            environment: Vec::new(),
        }
    }

    fn within(self, root: PathBuf) -> Interpreter {
        Interpreter { root: Some(root), ..self }
    }

    fn with(mut self, options: &[&str]) -> Interpreter {
        self.name = [&[&*self.name], options].concat().join(" ");
        self.options.extend(options.iter().map(PathBuf::from));
        self
    }

    /// Returns the command that runs the program.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let programs = Path::new(PROGRAMS);
        let mut command = root::command(self.root.as_ref(), &[programs], &self.program);
        command.args(&self.options);
        // A class has no file.
        let is_class = !self.script.contains('.');
        command.arg(if is_class { self.script.into() } else { programs.join(self.script) }).args(arguments);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("LC_ALL", "C.UTF-8");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Returns the oldest and the newest interpreter, all of them in the matrix, or those that `TRUTH_VERSION` selects.
pub(crate) fn chosen(mut all: Vec<Interpreter>) -> Vec<Interpreter> {
    let selected = std::env::var("TRUTH_VERSION").ok();
    let is_selected = |each: &Interpreter| {
        selected.as_ref().is_none_or(|parts| parts.split(',').any(|part| each.name.contains(part)))
    };
    all.retain(is_selected);
    if selected.is_none() && !is_matrix() && all.len() > 2 {
        all.drain(1..all.len() - 1);
    }
    all
}

/// Those of `cargo xtask pythons`, oldest first.
pub(crate) fn pythons() -> Vec<Interpreter> {
    let list = std::fs::read_to_string(fixtures().join("python/list")).unwrap_or_default();
    let mut found: Vec<_> = list
        .lines()
        .filter_map(|line| {
            let [name, root, program, _] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
            let interpreter = Interpreter::new(name, program, "reuse.py");
            Some(if root.is_empty() { interpreter } else { interpreter.within(root.into()) })
        })
        .collect();
    let number = |name: &str| name.trim_end_matches('t').parse::<u32>().unwrap_or(0);
    let version = |each: &Interpreter| -> Vec<u32> {
        each.name.rsplit('-').next().unwrap_or_default().split('.').map(number).collect()
    };
    found.sort_by_key(version);
    found
}

/// The machine's Perl, and those of `cargo xtask fixtures perl`.
pub(crate) fn perls() -> Vec<Interpreter> {
    let mut found = Vec::new();
    for name in ["5.32", "5.34", "5.36", "5.38", "5.40", "5.42"] {
        if let Ok(root) = fixtures().join("perl").join(name).canonicalize() {
            found.push(Interpreter::new(name, "/usr/bin/perl", "reuse.pl").within(root));
        }
    }
    if let Ok(folder) = fixtures().join("perl/5.36-unthreaded").canonicalize() {
        found.push(Interpreter::new("5.36-unthreaded", folder.join("perl"), "reuse.pl"));
    }
    if test_needs::find("perl").is_some() {
        found.push(Interpreter::new("installed", "perl", "reuse.pl"));
    }
    found
}

/// The machine's LuaJIT, and those of `cargo xtask fixtures luajit`, with traces and without.
pub(crate) fn luajits() -> Vec<Interpreter> {
    let mut found = Vec::new();
    if test_needs::find("luajit").is_some() {
        found.push(Interpreter::new("installed", "luajit", "reuse.lua"));
    }
    for name in ["bullseye", "luajit2-bookworm", "trixie", "forky"] {
        if let Ok(root) = fixtures().join("luajit").join(name).canonicalize() {
            found.push(Interpreter::new(name, "/usr/bin/luajit", "reuse.lua").within(root));
        }
    }
    found.into_iter().flat_map(|each| [each.clone().with(&["-joff"]), each]).collect()
}

/// Those of `cargo xtask fixtures ruby`.
pub(crate) fn rubies() -> Vec<Interpreter> {
    let names = ["debian-2.7", "debian-3.1", "wheel-3.2.2", "debian-3.3", "wheel-3.3.9", "wheel-3.4.7"];
    let find = |name: &str| {
        let folder = fixtures().join("ruby").join(name).canonicalize().ok()?;
        let list = std::fs::read_to_string(folder.join("complete")).ok()?;
        let [root, program, _] = list.lines().collect::<Vec<_>>()[..] else { return None };
        let interpreter = match root {
            "" => Interpreter::new(name, folder.join(program), "reuse.rb"),
            _ => Interpreter::new(name, program, "reuse.rb").within(folder),
        };
        Some(Interpreter { options: ["--disable-gems", "-W0"].map(PathBuf::from).into(), ..interpreter })
    };
    names.into_iter().filter_map(find).collect()
}

/// The static PHP, and the machine's.
pub(crate) fn phps() -> Vec<Interpreter> {
    let fetched = fixtures().join("php/8.4-static/resources/php");
    let fetched = fetched.is_file().then(|| Interpreter::new("8.4-static", fetched, "reuse.php"));
    let installed = test_needs::find("php").map(|_| Interpreter::new("installed", "php", "reuse.php"));
    installed.into_iter().chain(fetched).collect()
}

/// Versions of Node.js.
pub(crate) const NODES: &[&str] = &["12", "14", "16", "18", "20", "22", "24", "25", "26"];

/// Those of `cargo xtask fixtures v8` with these versions.
pub(crate) fn nodes(versions: &[&str]) -> Vec<Interpreter> {
    let find = |version: &str| {
        let program = fixtures().join(format!("node-{version}/bin/node"));
        let options = [PathBuf::from("--expose-gc")].into();
        let interpreter = Interpreter::new(version, program.clone(), "reuse.js");
        program.is_file().then_some(Interpreter { options, ..interpreter })
    };
    versions.iter().filter_map(|version| find(version)).collect()
}

/// Those of `cargo xtask fixtures beam`.
pub(crate) fn beams() -> Vec<Interpreter> {
    const ERLANG: &str = "/usr/lib/erlang";
    let find = |version: &str| {
        let root = fixtures().join("beam").join(version).canonicalize().ok()?;
        let mut entries = std::fs::read_dir(root.join(&ERLANG[1..])).ok()?;
        let system = entries.find_map(|entry| {
            entry.ok()?.file_name().into_string().ok().filter(|name| name.starts_with("erts-"))
        })?;
        let programs = format!("{ERLANG}/{system}/bin");
        let interpreter = Interpreter::new(version, format!("{programs}/erlexec"), "reuse.erl").within(root);
        let evaluate = "[F, V, S] = init:get_plain_arguments(), {ok, M, Code} = compile:file(F, [binary]), \
                        code:load_binary(M, F, Code), M:main(list_to_atom(V), list_to_integer(S)), halt().";
        let options = ["-noshell", "-eval", evaluate, "-extra"].map(PathBuf::from).into();
        let environment = [("ROOTDIR", ERLANG), ("BINDIR", &programs), ("EMU", "beam"), ("PROGNAME", "erl")];
        let environment = environment.map(|(name, value)| (name, value.to_owned())).into();
        Some(Interpreter { options, environment, ..interpreter })
    };
    ["25", "27", "29"].into_iter().filter_map(find).collect()
}

/// Those of `cargo xtask fixtures dotnet`: programs with .NET inside, which run a hook.
pub(crate) fn dotnets() -> Vec<Interpreter> {
    let source = Path::new(PROGRAMS).join("reuse.cs");
    let find = |version: &str| {
        let (program, hook) = csharp::hooked(version, &source)?;
        let environment = [
            ("DOTNET_STARTUP_HOOKS", hook.display().to_string()),
            ("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1".to_owned()),
        ];
        let interpreter = Interpreter::new(version, program, "reuse.cs");
        Some(Interpreter { environment: environment.into(), ..interpreter })
    };
    ["9.0.1", "10.0.0-single"].into_iter().filter_map(find).collect()
}

/// Those of `cargo xtask fixtures hotspot`, with compilers and without.
pub(crate) fn javas() -> Vec<Interpreter> {
    let mut found = Vec::new();
    for version in ["8", "11", "17", "21", "25", "26", "27", "28"] {
        let program = fixtures().join(format!("jdk-{version}/bin/java"));
        if program.is_file() {
            let mut options = ["-Xmx64m", "-XX:+UseSerialGC", "-cp"].map(PathBuf::from).to_vec();
            options.push(compiled());
            found.push(Interpreter { options, ..Interpreter::new(version, program, "Reuse") });
        }
    }
    found.into_iter().flat_map(|each| [each.clone().with(&["-Xint"]), each]).collect()
}

/// Compiles the program in Java, and returns the folder of its classes.
fn compiled() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reuse");
    let source = Path::new(PROGRAMS).join("Reuse.java");
    let status = Command::new("javac")
        .args(["-Xlint:-options", "--release", "8", "-d"])
        .arg(&folder)
        .arg(source)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "javac fails");
    folder
}
