//! Chains in other languages of the virtual machine, Kotlin and Scala.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::machine::{compile as compile_java, compilers};

/// A language: its chain, which is a class, the chain's source, and the compiler with arguments and
/// the start of its library's name.
struct Language {
    chain: &'static str,
    source: &'static str,
    compiler: &'static [&'static str],
    library: &'static str,
}

const LANGUAGES: &[Language] = &[
    Language {
        chain: "KotlinChain",
        source: "KotlinChain.kt",
        compiler: &[
            "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler",
            "-no-stdlib",
            "-no-reflect",
            "-jvm-target",
            "11",
        ],
        library: "kotlin-stdlib-",
    },
    Language {
        chain: "ScalaChain",
        source: "ScalaChain.scala",
        compiler: &["scala.tools.nsc.Main", "-release", "11"],
        library: "scala-library-",
    },
];

/// Compiles the chains and returns their names; `None` if the compilers are missing.
pub(crate) fn compile() -> Option<Vec<&'static str>> {
    if !compilers().join("complete").exists() {
        return None;
    }
    let classes = compile_java();
    LANGUAGES.iter().for_each(|language| language.compile(&classes));
    Some(LANGUAGES.iter().map(|language| language.chain).collect())
}

impl Language {
    fn compile(&self, classes: &Path) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hotspot/programs").join(self.source);
        let library = format!("{}:{}", self.library().display(), classes.display());
        let mut java = Command::new("java");
        java.arg("-cp").arg(compilers().join("*")).args(self.compiler).args(["-cp", &library, "-d"]);
        let status = java.arg(classes).arg(source).stderr(Stdio::null()).status();
        assert!(status.unwrap().success(), "{}", self.source);
    }

    /// Returns the file of the language's library.
    fn library(&self) -> std::path::PathBuf {
        let files = std::fs::read_dir(compilers()).unwrap().map(|entry| entry.unwrap().path());
        let is_library = |name: &str| name.starts_with(self.library) && name.ends_with(".jar");
        let mut named =
            files.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_library));
        named.next().unwrap()
    }
}
