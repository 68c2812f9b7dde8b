//! Demangled names, each computed once.

use std::sync::Arc;

use super::cache::Cache;

/// A name, demangled and mangled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Demangled.
    pub(super) function: Arc<str>,
    /// Mangled; empty if it is the same.
    pub(super) system: Arc<str>,
}

/// Demangles and shares names and other texts.
#[derive(Debug)]
pub(super) struct Texts {
    names: Cache<Box<[u8]>, Name>,
    others: Cache<Box<[u8]>, Arc<str>>,
    empty: Arc<str>,
    /// Number of mangled names that could not be demangled.
    pub(super) failed: u64,
}

impl Texts {
    pub(super) fn new(budget: usize) -> Texts {
        Texts {
            names: Cache::new(budget / 2),
            others: Cache::new(budget / 2),
            empty: Arc::default(),
            failed: 0,
        }
    }

    /// Returns the shared copy of a text.
    pub(super) fn share(&mut self, text: &[u8]) -> Arc<str> {
        if text.is_empty() {
            return self.empty.clone();
        }
        if let Some(shared) = self.others.get(text) {
            return shared.clone();
        }
        let shared: Arc<str> = String::from_utf8_lossy(text).into();
        self.others.insert(text.into(), shared.clone(), text.len() + shared.len());
        shared
    }

    /// Demangles a linker name.
    pub(super) fn name(&mut self, linker: &[u8]) -> Name {
        if let Some(name) = self.names.get(linker) {
            return name.clone();
        }
        let name = self.demangle(&String::from_utf8_lossy(linker));
        let bytes = linker.len() + name.function.len() + name.system.len();
        self.names.insert(linker.into(), name.clone(), bytes);
        name
    }

    fn demangle(&mut self, linker: &str) -> Name {
        let name = without_version(linker);
        let function: Arc<str> = match demangled(name) {
            Demangled::As(function) => function.into(),
            Demangled::Plain => name.into(),
            #[cfg(feature = "symbolize")]
            Demangled::Failed => {
                self.failed += 1;
                name.into()
            }
        };
        let system = if *function == *linker { self.empty.clone() } else { linker.into() };
        Name { function, system }
    }
}

/// Removes a symbol version: `pthread_create@@GLIBC_2.34` becomes `pthread_create`. The suffix of
/// `memcpy@plt` stays.
fn without_version(linker: &str) -> &str {
    match linker.split_once('@') {
        Some((name, version)) if !name.is_empty() && version != PLT => name,
        _ => linker,
    }
}

/// The suffix of entries of the linkage table, after the `@`.
const PLT: &str = "plt";

enum Demangled {
    /// The name is not mangled.
    Plain,
    /// The demangled name.
    #[cfg_attr(not(feature = "symbolize"), expect(dead_code, reason = "nothing demangles"))]
    As(String),
    /// The name is mangled incorrectly or exceeds the limits.
    #[cfg(feature = "symbolize")]
    Failed,
}

#[cfg(not(feature = "symbolize"))]
fn demangled(_: &str) -> Demangled {
    Demangled::Plain
}

/// Demangles a name. Names are untrusted, so their length is bounded before and after.
#[cfg(feature = "symbolize")]
fn demangled(linker: &str) -> Demangled {
    let (name, suffix) = linker.find('@').map_or((linker, ""), |at| linker.split_at(at));
    let is_cpp = name.starts_with("_Z");
    if !is_cpp && !name.starts_with("_R") {
        return Demangled::Plain;
    }
    if name.len() > MAX_MANGLED {
        return Demangled::Failed;
    }
    let mut out = Bounded::default();
    let done = match rustc_demangle::try_demangle(name) {
        Ok(rust) => std::fmt::write(&mut out, format_args!("{rust:#}")).is_ok(),
        Err(_) => is_cpp && demangle_cpp(name, &mut out),
    };
    if !done {
        return Demangled::Failed;
    }
    out.0.push_str(suffix);
    Demangled::As(out.0)
}

#[cfg(feature = "symbolize")]
fn demangle_cpp(name: &str, out: &mut Bounded) -> bool {
    // Parameters make a name several times longer; the mangled name still distinguishes overloads.
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type()
        .hide_expression_literal_types()
        .recursion_limit(MAX_DEPTH);
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    cpp_demangle::Symbol::new_with_options(name, &parse)
        .is_ok_and(|symbol| symbol.structured_demangle(out, &options).is_ok())
}

/// Maximum length of a mangled name, in bytes.
#[cfg(feature = "symbolize")]
const MAX_MANGLED: usize = 8 << 10;

/// Maximum length of a demangled name, in bytes.
#[cfg(feature = "symbolize")]
const MAX_DEMANGLED: usize = 16 << 10;

/// Maximum nesting of names. A level takes up to 10 KB of stack in a build without optimization; of
/// the 16,000 functions of LLVM one is deeper.
#[cfg(feature = "symbolize")]
const MAX_DEPTH: u32 = 64;

/// A text that fails to grow beyond [`MAX_DEMANGLED`].
#[cfg(feature = "symbolize")]
#[derive(Default)]
struct Bounded(String);

#[cfg(feature = "symbolize")]
impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
