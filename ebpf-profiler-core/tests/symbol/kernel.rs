//! Kernel functions compared with the kernel's list.

use std::collections::BTreeMap;
use std::fs;

use ebpf_profiler_core::symbol::{Symbol, SymbolOptions, Symbolizer, Symbols};

use crate::address::linker_name;
use crate::program::folder;

/// Returns a symbolizer that reads `list`.
fn symbols(test: &str, list: &str) -> (Symbols, std::path::PathBuf) {
    let path = folder(test).join("kallsyms");
    fs::write(&path, list).expect("written");
    let mut options = SymbolOptions::default();
    options.kallsyms = path.clone();
    (Symbols::new(options), path)
}

fn names(symbols: &mut Symbols, addresses: &[u64]) -> Vec<Option<Symbol>> {
    let mut found = vec![None; addresses.len()];
    symbols.kernel(addresses, &mut |number, functions| {
        assert_eq!(functions.len(), 1);
        found[number] = Some(functions[0].clone());
    });
    found
}

fn is_code(kind: &str) -> bool {
    ["t", "T", "w", "W"].contains(&kind)
}

/// Returns the names at each address of code in the kernel's list.
fn starts(list: &str) -> BTreeMap<u64, Vec<&str>> {
    let mut starts: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for line in list.lines() {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok()).expect("an address");
        let (kind, name) = (words.next().expect("a kind"), words.next().expect("a name"));
        if is_code(kind) && address != 0 {
            starts.entry(address).or_default().push(name);
        }
    }
    starts
}

#[test]
fn every_function_of_this_kernel() {
    let list = || fs::read_to_string("/proc/kallsyms").expect("the kernel's list");
    let text = list();
    let before = starts(&text);
    if before.is_empty() {
        println!("the list is hidden from this process (run as root to compare it); nothing may be named");
        assert_eq!(names(&mut Symbols::default(), &[0xffff_ffff_8100_0000]), [None]);
        return;
    }
    let addresses: Vec<u64> = before.keys().copied().collect();
    // A copy of the list: the running kernel is not asked then.
    let (mut symbols, _) = symbols("running", &text);
    let found = names(&mut symbols, &addresses);
    assert_eq!(symbols.stats().kernel_reads, 1);

    // BPF programs may be loaded and unloaded meanwhile.
    let after = list();
    let after = starts(&after);
    let mut compared = 0;
    for (found, (address, names)) in found.iter().zip(&before) {
        if after.get(address) == Some(names) {
            let found = found.as_ref().unwrap_or_else(|| panic!("{address:#x} {names:?}"));
            assert!(names.contains(&linker_name(found)), "{address:#x}: {found:?} is none of {names:?}");
            compared += 1;
        }
    }
    println!("{compared} of {} functions", addresses.len());
    assert!(compared * 100 > addresses.len() * 95);
}

const LIST: &str = "\
ffffffff81000000 T _stext
ffffffff81001000 T first
ffffffff81002000 t second
ffffffff81003000 T _etext
ffffffffc0100000 t in_module\t[loop]
ffffffffc0101000 t last_in_module\t[loop]
";

#[test]
fn modules_are_named_in_the_file() {
    let (mut symbols, _) = symbols("modules", LIST);
    let found = names(&mut symbols, &[0xffffffff81001234, 0xffffffffc0100010]);
    let found: Vec<(&str, &str)> = found.iter().flatten().map(|s| (&*s.function, &*s.file)).collect();
    assert_eq!(found, [("first", ""), ("in_module", "loop")]);
}

#[test]
fn a_program_that_came_later_gets_its_own_name() {
    let (mut symbols, path) = symbols("later", LIST);
    let addresses = [0xffffffff81002000, 0xffffffffc0101010];
    assert!(names(&mut symbols, &addresses).iter().all(Option::is_some));
    assert!(names(&mut symbols, &addresses).iter().all(Option::is_some));
    assert_eq!(symbols.stats().kernel_reads, 1, "what is cached is not read again");

    fs::write(&path, format!("{LIST}ffffffffc0300000 t bpf_prog_1234_new\t[bpf]\n")).expect("written");
    let found = names(&mut symbols, &[0xffffffffc0300010]);
    assert_eq!(found[0].as_ref().map(|s| (&*s.function, &*s.file)), Some(("bpf_prog_1234_new", "bpf")));
    assert_eq!(symbols.stats().kernel_reads, 2);
    assert!(names(&mut symbols, &[0xffffffff81001000]).iter().all(Option::is_some));
    assert_eq!(symbols.stats().kernel_reads, 2, "the kernel itself does not change");
}

#[test]
fn a_hidden_list_names_nothing_and_is_read_once() {
    let hidden: String = LIST.lines().map(|line| format!("0000000000000000{}\n", &line[16..])).collect();
    let (mut symbols, _) = symbols("hidden", &hidden);
    for address in [0, 0xffffffff81001000, 0xffffffffc0101010] {
        assert_eq!(names(&mut symbols, &[address]), [None]);
    }
    assert_eq!((symbols.stats().kernel_reads, symbols.stats().kernel_hidden), (1, 1));
}

#[test]
fn no_list_names_nothing() {
    let (mut symbols, path) = symbols("no-list", LIST);
    fs::remove_file(path).expect("removed");
    assert_eq!(names(&mut symbols, &[0xffffffff81001000]), [None]);
    assert_eq!(symbols.stats().unreadable, 1);
}
