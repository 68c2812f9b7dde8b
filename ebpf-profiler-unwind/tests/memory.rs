//! Building a table takes little more memory than the table and its input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_unwind::Table;

/// Counts what is allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(size: usize) {
    let now = NOW.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: every call is handed on to the system's allocator as it is; counting touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    /// Large blocks are moved by the kernel, page by page, so both never exist at a time.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Relaxed);
        add(size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The table and a tenth of it, 4 MiB, and the section itself.
fn bound(elf: &Elf, table: &Table) -> usize {
    let input = elf.section(".eh_frame").map_or(0, |section| section.size as usize);
    input + table.image().len() * 11 / 10 + (4 << 20)
}

#[test]
fn a_table_and_little_more() {
    // This program, and where it exists something large.
    let large = std::env::var_os("UNWIND_LARGE").unwrap_or("/usr/bin/node".into());
    for path in [std::env::current_exe().unwrap(), PathBuf::from(large)] {
        let Ok(file) = std::fs::File::open(&path) else { continue };
        let elf = Elf::open(file).unwrap();
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let table = Table::of(&elf).unwrap();
        let peak = PEAK.load(Relaxed) - before;
        println!("{}: peak {peak} bytes, table {}", path.display(), table.image().len());
        assert!(peak <= bound(&elf, &table), "{} bytes at a time", peak);
    }
}
