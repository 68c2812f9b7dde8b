//! The cases: native code as compilers make it, without frame pointers.

use crate::batch;
use crate::case::Case;

/// Each line is a test. Those of the matrix are variants, which CI has no time for.
macro_rules! truth {
    ({ $($name:ident: $case:expr,)* } matrix { $($variant:ident: $variant_case:expr,)* }) => {
        $(
            #[test]
            #[ignore = "profiles: needs root"]
            fn $name() {
                test_needs::root!();
                test_needs::programs!("gcc", "g++", "strip", "gdb");
                batch::check(stringify!($name), all);
            }
        )*

        mod matrix {
            $(
                #[test]
                #[ignore = "profiles: needs root"]
                fn $variant() {
                    test_needs::root!();
                    test_needs::programs!("gcc", "g++", "strip", "gdb");
                    super::batch::check(concat!("matrix::", stringify!($variant)), super::all);
                }
            )*
        }

        fn all() -> Vec<(&'static str, Case)> {
            vec![
                $((stringify!($name), $case),)*
                $((concat!("matrix::", stringify!($variant)), $variant_case),)*
            ]
        }
    };
}

fn chain() -> Case {
    Case::new("chain.c").known("main l1 spread l2 l3 leaf")
}

fn without_unwind_data() -> Case {
    chain()
        .flags(&["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer"])
        .frame_pointers("main l1 spread l2 l3 leaf now")
}

fn calls() -> Case {
    Case::new("calls.c").step(400).known("main round_of_calls l1 l2 l3 leaf").prefixes()
}

fn recursion(levels: &'static str) -> Case {
    Case::new("recursion.c").arguments(&[levels]).known("descend leaf").known("main descend")
}

fn signals(stack: &str, timer: &str) -> Case {
    Case::new("signals.c")
        .arguments(&[stack, timer])
        .stop_at("handler_leaf")
        .known("main l1 leaf")
        .known("main l1 leaf <signal> handler handler_leaf")
        .also("main l1 leaf <signal> handler")
        .also("main l1 leaf <signal>")
}

fn null(how: &str, chain: &'static str) -> Case {
    Case::new("null_call.c").arguments(&[how]).known(chain)
}

fn plt() -> Case {
    Case::new("plt.c")
        .library("plt_library.c", "libplt.so")
        .step(60)
        .known("main l1 caller plt_leaf")
        .flags(&["-fplt", "-Wl,-z,lazy"])
}

/// In its last three instructions the unwinder is on the landing pad's stack: the landing pad's
/// function is its caller.
fn exceptions(how: &str) -> Case {
    Case::new("exceptions.cpp")
        .arguments(&[how])
        .also("main l1 l2 l3 thrower __cxa_throw")
        .also("main l1 l2 _Unwind_RaiseException")
        .also("main l1 l2 Guard::~Guard cleanup_leaf")
        .also("main l1 l2 _Unwind_Resume")
        .also("main l1 _Unwind_Resume")
        .also("main l1 caught caught_leaf")
        .also("main l1 caught std::runtime_error::what")
        .also("main l1 __cxa_end_catch")
        .prefixes()
        .beyond(UNWINDER)
}

/// A program that throws all the time. See [`exceptions`] for the callers of libgcc.
pub(crate) fn throws() -> Case {
    Case::new("throws.cpp")
        .also("main l1 l2 l3 thrower __cxa_throw")
        .also("main l1 l2 l3 thrower __cxa_allocate_exception")
        .also("main l1 l2 l3 _Unwind_RaiseException")
        .also("main l1 l2 l3 _Unwind_Resume")
        .also("main l1 l2 _Unwind_Resume")
        .also("main l1 _Unwind_Resume")
        .also("main l1 __cxa_begin_catch")
        .also("main l1 __cxa_end_catch")
        .prefixes()
        .beyond(UNWINDER)
}

fn rust() -> Case {
    Case::new("chain.rs").known("chain::l2 chain::Deeper::step chain::leaf").known("chain::main chain::l1")
}

fn vanish(how: &str) -> Case {
    Case::new("vanish.c").arguments(&[how]).learn_from(&["stay"]).known("main l1 leaf")
}

fn leader(ends: &'static str) -> Case {
    Case::new("leader.c").arguments(&[ends]).learn_from(&["stays"]).known("run_on l1 leaf")
}

fn plugin(before: &str) -> Case {
    Case::new("plugin.c")
        .library("plugin_library.c", "plugin.so")
        .arguments(&["DIR/plugin.so", before])
        .learn_from(&["DIR/plugin.so", "0"])
        .learn_from(&["DIR/plugin.so", "1000"])
        .known("main l1 plugin_entry plugin_leaf")
        .known("main l1 wait_leaf")
}

truth! {
    {
        c: chain(),
        c_stripped: chain().stripped(),
        c_fixed_address_stripped: chain().flags(&["-no-pie", "-fno-pie"]).stripped(),
        c_static_stripped: chain().flags(&["-static"]).stripped(),
        c_static_pie: chain().flags(&["-static-pie"]),
        c_unoptimized: chain().flags(&["-O0"]),
        c_with_debug_data: chain().flags(&["-g"]),

        calls_and_returns: calls(),

        cpp_exceptions: exceptions("long"),
        cpp_throws: throws(),
        cpp_inlines: Case::new("inlines.cpp").flags(&["-g"])
            .known("main shop::outer shop::Counter::middle shop::Counter::inner shop::leaf"),

        rust_release: rust(),
        rust_stripped: rust().stripped(),
        rust_abort: rust().flags(&["-Cpanic=abort"]).main_is_bare(),

        recursion_900: recursion("900"),

        signal_on_alternate_stack: signals("alternate", "alarm"),

        null_pointer_called: null("call", "main l1 calls"),
        null_pointer_jumped_to: null("jump", "main l1"),

        vdso: Case::new("vdso.c").step(400).known("main l1 leaf").prefixes(),

        plt_lazy: plt().flags(&["-fcf-protection=none"]),
        plt_with_branch_protection: plt().flags(&["-fcf-protection=branch", "-Wl,-z,ibtplt"]),

        threads: Case::new("threads.c").known("shallow w3 leaf").known("deep w2 w3 leaf").known("main wait_for_all leaf"),
        threads_whose_first_ends: leader("0.3"),

        realigned: Case::new("realign.c").known("main l1 wide_arguments l2 l3 leaf"),
        realigned_unoptimized: Case::new("realign.c").flags(&["-O0"]).known("main l1 wide_arguments l2 l3 leaf"),

        frame_pointers_only: without_unwind_data(),
        run_time_code: Case::new("jit.c").known("main l1 ? ? leaf"),

        memory_file: vanish("memfd").alone(),
        deleted: vanish("delete"),
        replaced_by_pipe: vanish("pipe"),
        executes_itself: Case::new("exec.c").arguments(&["both"]).life(4.0).learn_from(&["before"]).learn_from(&["after"])
            .known("main before1 leaf").known("main after1 after2 leaf").also("main execve").kernel_alone(EXEC).loader().alone().has_way(),
        loads_library: plugin("0"),
        loads_library_later: plugin("1.5").has_way(),
    }
    matrix {
        c_fixed_address: chain().flags(&["-no-pie", "-fno-pie"]),
        c_static: chain().flags(&["-static"]),
        c_static_pie_stripped: chain().flags(&["-static-pie"]).stripped(),
        c_small: chain().flags(&["-Os"]),
        c_one_segment: chain().flags(&["-Wl,-z,noseparate-code"]),
        calls_and_returns_static: calls().flags(&["-static"]),
        calls_and_returns_stripped: calls().stripped(),
        cpp_exceptions_static: exceptions("long").flags(&["-static"]),
        cpp_exceptions_quick: exceptions("quick"),
        cpp_throws_static: throws().flags(&["-static"]),
        cpp_inlines_without_debug_data: Case::new("inlines.cpp").known("main shop::outer shop::leaf"),
        rust_static: rust().flags(&["-Ctarget-feature=+crt-static"]),
        rust_with_lines: rust().flags(&["-Cdebuginfo=1"]).step(200),
        recursion_10: recursion("10"),
        recursion_120: recursion("120"),
        recursion_120_static_stripped: recursion("120").flags(&["-static"]).stripped(),
        signal: signals("normal", "alarm"),
        signal_of_profiling_timer: signals("alternate", "profile"),
        signal_static: signals("alternate", "alarm").flags(&["-static"]),
        vdso_static: Case::new("vdso.c").flags(&["-static"]).step(400).known("main l1 leaf").prefixes(),
        threads_without_the_first: leader("before"),
        threads_static: Case::new("threads.c").flags(&["-static"]).known("deep w2 w3 leaf"),
        realigned_avx: Case::new("realign.c").flags(&["-O3", "-mavx2"]).known("main l1 wide_arguments l2 l3 leaf"),
        frame_pointers_only_static: without_unwind_data().flags(&["-static"]),
        replaced: vanish("replace"),
    }
}

/// Between two programs there is no user stack.
const EXEC: &[&str] = &["do_execveat_common.isra.0", "bprm_execve", "begin_new_exec"];

/// Functions of the C++ run-time libraries: the stack above them is not compared.
const UNWINDER: &[&str] = &[
    "libstdc++.so",
    "libgcc_s.so",
    "__cxa_throw",
    "__cxa_allocate_exception",
    "__cxa_init_primary_exception",
    "std::runtime_error::runtime_error",
    "std::runtime_error::what",
    "std::logic_error::what", // the same function under another name
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "_Unwind_DeleteException",
    "free",
    "__cxa_begin_catch",
    "__cxa_end_catch",
    // It jumps to _Unwind_DeleteException, that to the first of these, and that to the second.
    "__gxx_exception_cleanup",
    "__cxa_free_exception",
];
