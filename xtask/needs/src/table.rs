//! The programs.

/// A program that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The program's name in `PATH`.
    pub program: &'static str,
    /// The package of Debian and Ubuntu that holds it.
    pub package: &'static str,
    /// Its part in the tests.
    pub purpose: &'static str,
}

/// All programs that tests run and that a machine with Rust may lack.
pub const TOOLS: &[Tool] = &[
    tool("gcc", "gcc", "compiles programs that are profiled and symbolized"),
    tool("g++", "g++", "compiles C++ programs that are profiled and symbolized"),
    tool("clang", "clang", "compiles programs whose core files are unwound"),
    tool("musl-gcc", "musl-tools", "links programs with another C library"),
    tool("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "compiles code for arm64 that is decoded"),
    tool("readelf", "binutils", "reads ELF files, for comparison"),
    tool("objdump", "binutils", "disassembles, for comparison"),
    tool("objcopy", "binutils", "changes sections of test programs"),
    tool("addr2line", "binutils", "names addresses, for comparison"),
    tool("c++filt", "binutils", "demangles, for comparison"),
    tool("nm", "binutils", "lists symbols, for comparison"),
    tool("strip", "binutils", "strips test programs"),
    tool("llvm-symbolizer", "llvm", "names addresses, for comparison"),
    tool("llvm-objcopy-22", "llvm-22", "compresses sections with Zstandard"),
    tool("gdb", "gdb", "unwinds the same stacks, for comparison"),
    tool("gcore", "gdb", "writes core files"),
    tool("eu-stack", "elfutils", "unwinds the same core files, for comparison"),
    tool("dwz", "dwz", "shares debug information between programs"),
    tool("bpftool", "bpftool", "reads the kernel's types, for comparison"),
    tool("bpftrace", "bpftrace", "sums the waits of threads, for comparison"),
    tool("chromium", "chromium", "shows flame graphs"),
    tool("chromedriver", "chromium-driver", "drives chromium"),
    tool("python3", "python3", "is profiled"),
    tool("php", "php-cli", "is profiled"),
    tool("perl", "perl", "is profiled"),
    tool("ruby", "ruby", "is profiled"),
    tool("node", "nodejs", "is profiled"),
    tool("java", "default-jdk-headless", "is profiled"),
    tool("javac", "default-jdk-headless", "compiles Java programs that are profiled"),
    tool("go", "golang-go", "reads profiles with `go tool pprof`, for comparison"),
    tool("qemu-system-x86_64", "qemu-system-x86", "boots other kernels"),
];

const fn tool(program: &'static str, package: &'static str, purpose: &'static str) -> Tool {
    Tool { program, package, purpose }
}
