//! Equality of function names across tools.
//!
//! Debuggers and profilers agree on functions, but print them differently: parameters, hashes of
//! Rust, versions and aliases of libc, parts that the compiler split off.

/// Returns the name without the parts that tools print differently.
///
/// ```text
/// shop::leaf(int)                      shop::leaf
/// chain::l1::h509c0a67f7ee48ad         chain::l1
/// l2(int) [clone .cold]                l2
/// __libc_start_main_impl               libc_start_main
/// a::{closure#0}, a::{{closure}}       a::{closure}
/// ```
pub fn plain(name: &str) -> String {
    if name == SIGNAL {
        return name.to_owned();
    }
    let name = name.split(" [clone").next().unwrap_or(name);
    let name = without_version(name);
    let name = without_rust_hash(name);
    let name = without_part(name);
    let name = without_groups(name);
    let name = without_type(&name);
    let name = one_closure(name);
    let name = name.strip_suffix("_impl").unwrap_or(&name);
    let name = name.strip_prefix("__GI_").or_else(|| name.strip_prefix("__vdso_")).unwrap_or(name);
    name.trim_start_matches('_').trim().to_owned()
}

/// Name of the frame through which a signal handler returns.
pub const SIGNAL: &str = "<signal>";

/// Returns `true` if two plain names denote one function.
///
/// Debug data names methods after the module of their `impl`, the symbol after its type: then only
/// the last part is compared.
pub fn same(one: &str, other: &str) -> bool {
    let last = |name: &str| name.rsplit("::").next() == other.rsplit("::").next();
    one == other || ((one.contains("{impl#") || other.contains("{impl#")) && last(one))
}

fn without_version(name: &str) -> &str {
    match name.find('@') {
        Some(at) if !name[at..].starts_with("@plt") => &name[..at],
        _ => name,
    }
}

fn without_rust_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => front,
        _ => name,
    }
}

fn without_part(name: &str) -> &str {
    let parts = [".cold", ".part.", ".constprop.", ".isra.", ".llvm.", ".lto_priv."];
    parts.iter().filter_map(|part| name.find(part)).min().map_or(name, |at| &name[..at])
}

/// Removes parameters and type arguments; `<A as B>::f` becomes `A::f`.
fn without_groups(name: &str) -> String {
    if let Some(rest) = name.strip_prefix('<')
        && let Some(close) = closing(rest)
    {
        let of = rest[..close].split(" as ").next().unwrap_or_default();
        return without_groups(of) + &without_groups(&rest[close + 1..]);
    }
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in name.chars() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.trim_end().trim_end_matches(" const").to_owned()
}

/// Removes the return type, which is printed before instances of templates.
fn without_type(name: &str) -> &str {
    if name.contains("operator") { name } else { name.rsplit(' ').next().unwrap_or(name) }
}

/// Returns the offset in `text` at which the enclosing group closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn one_closure(name: &str) -> String {
    let segment = |part: &str| match part {
        "{{closure}}" => "{closure}".to_owned(),
        _ if part.starts_with("{closure") => "{closure}".to_owned(),
        _ => part.to_owned(),
    };
    name.split("::").filter(|part| !part.is_empty()).map(segment).collect::<Vec<_>>().join("::")
}

/// A frame that has no name, as `file+0xaddress` or `[something]`.
#[derive(Debug, PartialEq, Eq)]
pub enum Unnamed<'a> {
    /// An address in a file.
    At(&'a str, u64),
    /// An address outside of all files.
    Nowhere,
}

/// Parses a frame without a name; `None` if it has one.
pub fn unnamed(name: &str) -> Option<Unnamed<'_>> {
    if let Some((file, address)) = name.rsplit_once("+0x") {
        return u64::from_str_radix(address, 16).ok().map(|address| Unnamed::At(file, address));
    }
    let bare = name.starts_with('[') || name.starts_with("0x") || name == "?" || name == "??";
    bare.then_some(Unnamed::Nowhere)
}

#[test]
fn printers_agree_on_plain_names() {
    for (printed, expected) in [
        ("shop::leaf(int)", "shop::leaf"),
        ("chain::l1::h509c0a67f7ee48ad", "chain::l1"),
        ("<chain::Deeper as chain::Step>::step::heb9c20825d123a74", "chain::Deeper::step"),
        ("<chain::Deeper as chain::Step>::step", "chain::Deeper::step"),
        ("l2(int) [clone .cold]", "l2"),
        ("_Z2l2i.cold", "Z2l2i"),
        ("__libc_start_main_impl", "libc_start_main"),
        ("__libc_start_main@@GLIBC_2.34", "libc_start_main"),
        ("std::rt::lang_start::{{closure}}::hfcf11bfcdd5ba216", "std::rt::lang_start::{closure}"),
        ("std::rt::lang_start_internal::{closure#0}", "std::rt::lang_start_internal::{closure}"),
        ("shop::Counter::middle<long>(long)", "shop::Counter::middle"),
        ("int shop::Counter::middle<long>(long)", "shop::Counter::middle"),
        ("plt_leaf@plt", "plt_leaf@plt"),
        ("Guard::~Guard()", "Guard::~Guard"),
        ("Shelf::count(int) const", "Shelf::count"),
    ] {
        assert_eq!(plain(printed), expected, "{printed}");
    }
}

#[test]
fn methods_are_the_same_under_both_names() {
    assert!(same(
        &plain("chain::{impl#0}::step"),
        &plain("<chain::Deeper as chain::Step>::step::heb9c20825d123a74")
    ));
    assert!(!same(&plain("chain::{impl#0}::step"), &plain("<chain::Deeper as chain::Step>::stop")));
}

#[test]
fn functions_stay_apart() {
    for (one, other) in [("l1", "l2"), ("a::leaf", "b::leaf"), ("leaf", "leaf2"), ("leaf@plt", "leaf")] {
        assert!(!same(&plain(one), &plain(other)), "{one} {other}");
    }
}

#[test]
fn parses_frames_without_names() {
    assert_eq!(unnamed("libc.so.6+0x27249"), Some(Unnamed::At("libc.so.6", 0x27249)));
    assert_eq!(unnamed("[anonymous]"), Some(Unnamed::Nowhere));
    assert_eq!(unnamed("operator+"), None);
    assert_eq!(unnamed("main"), None);
}
