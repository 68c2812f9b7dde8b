//! Allocators, and their functions that allocate and free.

use ebpf_programs::abi::held::cookie;

use super::operand::Operand;

/// A function of an allocator.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static [u8],
    pub(super) role: Role,
    /// Place of the number of bytes.
    pub(super) size: Operand,
}

/// The effect of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Returns new memory.
    Returns,
    /// Moves its first argument, and returns the new address.
    Moves,
    /// Writes the address of new memory to that in its first argument.
    Writes,
    /// Frees its first argument.
    Frees,
}

impl Role {
    /// Returns the bits of the cookie; `None` for functions that don't allocate.
    pub(super) fn cookie(self) -> Option<u64> {
        let role = match self {
            Role::Returns => cookie::RETURNS,
            Role::Moves => cookie::MOVES,
            Role::Writes => cookie::WRITES,
            Role::Frees => return None,
        };
        Some(role << cookie::ROLE_SHIFT)
    }
}

impl Function {
    const fn of(name: &'static [u8], role: Role, size: Operand) -> Function {
        Function { name, role, size }
    }

    const fn new(name: &'static [u8]) -> Function {
        Function::of(name, Role::Returns, Operand::argument(0))
    }

    const fn free(name: &'static [u8]) -> Function {
        Function::of(name, Role::Frees, Operand::ONE)
    }
}

/// Functions of all allocators. In musl the others call these.
const BASIC: &[Function] = &[
    Function::of(b"malloc", Role::Returns, Operand::argument(0)),
    Function::of(b"realloc", Role::Moves, Operand::argument(1)),
    Function::of(b"aligned_alloc", Role::Returns, Operand::argument(1)),
];

/// Functions that call one of the [basic](BASIC) ones in musl, and none in other allocators.
const COUNTED: &[Function] = &[
    Function::of(b"memalign", Role::Returns, Operand::argument(1)),
    Function::of(b"calloc", Role::Returns, Operand::product(0, 1)),
    Function::of(b"reallocarray", Role::Moves, Operand::product(1, 2)),
];

/// Functions that call `memalign` in tcmalloc.
const ALIGNED: &[Function] = &[
    Function::of(b"posix_memalign", Role::Writes, Operand::argument(2)),
    Function::of(b"valloc", Role::Returns, Operand::argument(0)),
    Function::of(b"pvalloc", Role::Returns, Operand::argument(0)),
];

/// `new`: plain, of arrays, without exceptions.
const NEW: &[Function] = &[
    Function::new(b"_Znwm"),
    Function::new(b"_Znam"),
    Function::new(b"_ZnwmRKSt9nothrow_t"),
    Function::new(b"_ZnamRKSt9nothrow_t"),
];

/// The same with an alignment, which call `aligned_alloc` in jemalloc.
const ALIGNED_NEW: &[Function] = &[
    Function::new(b"_ZnwmSt11align_val_t"),
    Function::new(b"_ZnamSt11align_val_t"),
    Function::new(b"_ZnwmSt11align_val_tRKSt9nothrow_t"),
    Function::new(b"_ZnamSt11align_val_tRKSt9nothrow_t"),
];

/// Functions that free. It does no harm if one calls another.
const FREE: &[Function] = &[
    Function::free(b"free"),
    Function::free(b"cfree"),
    Function::free(b"free_sized"),
    Function::free(b"free_aligned_sized"),
];

/// `delete`: plain, of arrays, with a size, aligned.
const DELETE: &[Function] = &[
    Function::free(b"_ZdlPv"),
    Function::free(b"_ZdaPv"),
    Function::free(b"_ZdlPvm"),
    Function::free(b"_ZdaPvm"),
    Function::free(b"_ZdlPvRKSt9nothrow_t"),
    Function::free(b"_ZdaPvRKSt9nothrow_t"),
    Function::free(b"_ZdlPvSt11align_val_t"),
    Function::free(b"_ZdaPvSt11align_val_t"),
    Function::free(b"_ZdlPvmSt11align_val_t"),
    Function::free(b"_ZdaPvmSt11align_val_t"),
    Function::free(b"_ZdlPvSt11align_val_tRKSt9nothrow_t"),
    Function::free(b"_ZdaPvSt11align_val_tRKSt9nothrow_t"),
];

const ALL: [&[Function]; 7] = [BASIC, COUNTED, ALIGNED, NEW, ALIGNED_NEW, FREE, DELETE];

/// An allocator, by the names in its file.
#[derive(Debug, Default)]
pub(super) struct Allocator {
    exports_malloc: bool,
    exports_new: bool,
    exports_start: bool,
    is_glibc: bool,
    has_names_of_musl: bool,
    is_tcmalloc: bool,
    is_jemalloc: bool,
}

impl Allocator {
    /// Returns `true` for the name of a function that allocates or frees.
    pub(super) fn is_named(name: &[u8]) -> bool {
        ALL.iter().copied().flatten().any(|function| function.name == name)
    }

    /// Takes a name of the file.
    pub(super) fn see(&mut self, name: &[u8], is_dynamic: bool) {
        match name {
            b"__libc_malloc_impl" | b"__malloc_donate" => self.has_names_of_musl = true,
            b"tc_memalign" => self.is_tcmalloc = true,
            b"mallocx" => self.is_jemalloc = true,
            b"gnu_get_libc_version" => self.is_glibc = true,
            b"__libc_start_main" => self.exports_start |= is_dynamic,
            b"malloc" => self.exports_malloc |= is_dynamic,
            b"_Znwm" => self.exports_new |= is_dynamic,
            _ => {}
        }
    }

    /// Returns its functions, without those whose calls count as those of another one.
    pub(super) fn functions(&self) -> impl Iterator<Item = &'static Function> {
        let is_musl = self.has_names_of_musl || self.exports_start && !self.is_glibc;
        let counted: &[&[Function]] = match self {
            _ if is_musl => &[BASIC],
            Allocator { is_tcmalloc: true, .. } => &[BASIC, COUNTED],
            _ => &[BASIC, COUNTED, ALIGNED],
        };
        // `new` of the C++ library calls `malloc`; an allocator that replaces both does not.
        let has_new = self.exports_malloc && self.exports_new;
        let of_new: &[&[Function]] = match (has_new, self.is_jemalloc) {
            (false, _) => &[],
            (true, true) => &[NEW, DELETE],
            (true, false) => &[NEW, ALIGNED_NEW, DELETE],
        };
        counted.iter().chain(&[FREE]).chain(of_new).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(seen: &[&[u8]]) -> Vec<&'static [u8]> {
        let mut allocator = Allocator::default();
        seen.iter().for_each(|name| allocator.see(name, true));
        allocator.functions().map(|function| function.name).collect()
    }

    #[test]
    fn functions_that_call_others_are_left_out() {
        let glibc = names(&[b"malloc", b"__libc_start_main", b"gnu_get_libc_version"]);
        assert!(glibc.contains(&&b"valloc"[..]) && !glibc.contains(&&b"_Znwm"[..]));
        assert_eq!(names(&[b"malloc", b"__libc_start_main"]).len(), BASIC.len() + FREE.len());
        assert!(!names(&[b"malloc", b"tc_memalign"]).contains(&&b"posix_memalign"[..]));
        let own_new = names(&[b"malloc", b"_Znwm"]);
        assert!(own_new.contains(&&b"_Znam"[..]) && own_new.contains(&&b"_ZdaPv"[..]));
        let aligned = &&b"_ZnwmSt11align_val_t"[..];
        let jemalloc = names(&[b"malloc", b"_Znwm", b"mallocx"]);
        assert!(
            own_new.contains(aligned) && jemalloc.contains(&&b"_Znam"[..]) && !jemalloc.contains(aligned)
        );
    }
}
