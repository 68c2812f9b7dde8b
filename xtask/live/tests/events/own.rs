//! Samples of an eBPF program that is not the profiler's: it is assembled, loaded and attached
//! here.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::live::{OwnPrograms, ProgramType, Trigger};
use ebpf_profiler_core::profile::Unit;

use crate::workload::{Program, chain};

/// Calls of a function, as the program says.
const CALLS: u64 = 20_000;

#[test]
#[ignore = "needs root"]
fn own_program_triggers_samples_with_its_values() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = Program::build("own");
    let builder = Profiler::builder().on(Trigger::own("arguments", Unit::Bytes, ProgramType::Probe));
    let run = program.profile_attached("calls", builder, |profiler| {
        let own = profiler.own_programs();
        attach(&program, own, own.kind("arguments").unwrap(), 0)
    });
    run.assert_none_lost();
    assert_eq!((run.events(0, "caller"), run.total(0, "caller")), (CALLS, (0..CALLS).sum()));
    let known = ["start_thread", "work", "caller", "called"].map(str::to_owned);
    assert_eq!(run.sum(0, |sample| chain(sample).ends_with(&known)), (0..CALLS).sum());
}

#[test]
#[ignore = "needs root"]
fn unknown_kinds_and_high_values_are_counted_as_lost() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = Program::build("own_wrong");
    for (kind, above) in [(1, 0), (u32::MAX, 0), (0, 1 << 48)] {
        let builder = Profiler::builder().on(Trigger::own("wrong", Unit::Count, ProgramType::Probe));
        let run = program.profile_attached("calls", builder, |profiler| {
            attach(&program, profiler.own_programs(), kind, above)
        });
        // 2⁴⁸ is allowed, and the first argument is 0.
        let valid = u64::from(above != 0);
        assert_eq!((run.events(0, "caller"), run.health.lost), (valid, CALLS - valid));
    }
}

#[test]
#[ignore = "needs root"]
fn walks_are_removed_from_maps_that_others_hold() {
    test_needs::root!();
    let own = Trigger::own("unused", Unit::Count, ProgramType::Probe);
    let profiler = Profiler::builder().on(own).frame_pointers_only().start().unwrap();
    let mut maps = profiler.own_programs().maps();
    // As a pin does, a descriptor keeps the elements of the map.
    let held = maps.find(|&(name, _)| name == "PROBE_WALKS").unwrap().1.try_clone_to_owned().unwrap();
    drop(maps);
    assert!(has_first(&held));
    profiler.stop().unwrap();
    assert!(!has_first(&held));
}

/// Returns `true` if a map has an element with index 0.
fn has_first(map: &OwnedFd) -> bool {
    const LOOKUP: libc::c_long = 1;
    let (key, mut value) = (0_u32, 0_u32);
    let fd = map.as_raw_fd() as u64;
    let request = [fd, &raw const key as u64, &raw mut value as u64, 0];
    // SAFETY: the addresses are those of values of the map's sizes, which outlive the call.
    unsafe { libc::syscall(libc::SYS_bpf, LOOKUP, request.as_ptr(), size_of_val(&request)) == 0 }
}

/// Attaches a program at `called`, whose samples have its argument and `above` as their value.
fn attach(program: &Program, own: &OwnPrograms, kind: u32, above: u64) -> [OwnedFd; 2] {
    let map = |name| own.maps().find(|&(it, _)| it == name).unwrap().1.as_raw_fd();
    let loaded = load(&instructions(map("OWN_EVENTS"), map("PROBE_WALKS"), kind, above)).unwrap();
    let probe = probe(program).unwrap();
    const SET_BPF: libc::c_ulong = 0x4004_2408;
    // SAFETY: the request takes the descriptor of a program.
    assert_eq!(unsafe { libc::ioctl(probe.as_raw_fd(), SET_BPF as _, loaded.as_raw_fd()) }, 0);
    [probe, loaded]
}

/// Assembles the program.
fn instructions(events: i32, walks: i32, kind: u32, above: u64) -> Vec<u64> {
    // Operation, destination and source register, offset, constant.
    let code = |op: u8, to: u8, from: u8, offset: i16, constant: i32| {
        u64::from(op)
            | u64::from(to | from << 4) << 8
            | u64::from(offset as u16) << 16
            | u64::from(constant as u32) << 32
    };
    let wide = |to, from, value: u64| [code(0x18, to, from, 0, value as i32), value & !0xffff_ffff];
    let map = |to, fd: i32| wide(to, 1, fd as u64);
    let address = |to, at: i32| [code(0xbf, to, 10, 0, 0), code(0x07, to, 0, 0, at)];
    let call = |number| [code(0x85, 0, 0, 0, number)];
    [
        // key = context; event = { argument + above, kind, 0 }
        &[code(0xbf, 6, 1, 0, 0), code(0x7b, 10, 1, -8, 0), code(0x79, 2, 1, 14 * 8, 0)][..],
        &wide(3, 0, above),
        &[code(0x0f, 2, 3, 0, 0), code(0x7b, 10, 2, -24, 0)],
        &[code(0x62, 10, 0, -16, kind as i32), code(0x62, 10, 0, -12, 0)],
        // bpf_map_update_elem(OWN_EVENTS, &key, &event, BPF_ANY)
        &map(1, events),
        &address(2, -8),
        &address(3, -24),
        &[code(0xb7, 4, 0, 0, 0)],
        &call(2),
        // bpf_tail_call(context, PROBE_WALKS, 0)
        &[code(0xbf, 1, 6, 0, 0)],
        &map(2, walks),
        &[code(0xb7, 3, 0, 0, 0)],
        &call(12),
        // bpf_map_delete_elem(OWN_EVENTS, &key); return 0
        &map(1, events),
        &address(2, -8),
        &call(3),
        &[code(0xb7, 0, 0, 0, 0), code(0x95, 0, 0, 0, 0)],
    ]
    .concat()
}

/// Loads a program for probes.
fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    const LOAD: libc::c_long = 5;
    const PROBE: u64 = 2;
    let license = c"Dual MIT/GPL";
    // Type and number of instructions, addresses; the rest is 0.
    let (count, code) = ((instructions.len() as u64) << 32, instructions.as_ptr() as u64);
    let request = [PROBE | count, code, license.as_ptr() as u64, 0, 0, 0, 0, 0];
    // SAFETY: the addresses are those of memory of the given sizes, which outlives the call.
    descriptor(unsafe { libc::syscall(libc::SYS_bpf, LOAD, request.as_ptr(), size_of_val(&request)) })
}

/// Opens a probe at the function `called`.
fn probe(program: &Program) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let elf = Elf::open(std::fs::File::open(&program.0)?).unwrap();
    let mut offset = None;
    elf.for_each_symbol(|name, symbol| {
        if name == b"called" {
            offset = elf.file_offset(symbol.address, 1);
        }
    });
    let path = CString::new(program.0.to_str().unwrap()).unwrap();
    let mut attributes = [0u64; 14];
    attributes[0] = kind.trim().parse::<u64>().unwrap() | (size_of_val(&attributes) as u64) << 32;
    (attributes[7], attributes[8]) = (path.as_ptr() as u64, offset.unwrap());
    // SAFETY: the attributes have the size that they state, and the path outlives the call.
    descriptor(unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), -1, 0, -1, 8) })
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which no one else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
