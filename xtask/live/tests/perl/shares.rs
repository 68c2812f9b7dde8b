//! Shares of subs compared with the times that NYTProf measures between calls and returns, in the
//! same run.

use crate::interpreter::Interpreter;
use live_suite::comparison::chi_squared::{limit, of_shares};
use live_suite::comparison::shares::{parse, run};

/// Prints `SUB<TAB>SECONDS` lines of a file of NYTProf.
const PRINT: &str =
    "my $subs = Devel::NYTProf::Data->new({filename => shift, quiet => 1})->subname_subinfo_map;
    printf \"%s\\t%.6f\\n\", $_, $subs->{$_}->excl_time for keys %$subs";

/// Least number of samples.
const MIN_SAMPLES: f64 = 1000.0;

/// Compares the shares of one run.
pub(crate) fn check(perl: &Interpreter) {
    let file = perl.folder().display().to_string();
    let mut command = perl.program(&["-d:NYTProf"], "shares.pl", &["15"]);
    // Of calls alone, by the CPU time of the process.
    command.env("NYTPROF", format!("file={file}:stmts=0:clock=2"));
    let (sampled, _) = run(command, "main::");
    let output = perl.bare(&["-MDevel::NYTProf::Data", "-e", PRINT, &file]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let _ = std::fs::remove_file(perl.outside(file.as_ref()));
    let measured = parse(&printed, "main::");
    let limit = limit(sampled.len());
    let chi_squared = of_shares(&sampled, &measured);
    println!(
        "Perl {}: {sampled:?} sampled, {measured:?} s by NYTProf: chi-squared {chi_squared:.1} (limit {limit})",
        perl.name
    );
    assert!(sampled.iter().sum::<f64>() >= MIN_SAMPLES && measured[0] > 0.0, "{sampled:?}, {printed}");
    assert!(chi_squared < limit, "{sampled:?}, but {measured:?} s by NYTProf");
}
