//! Shares of methods compared with those of rbspy, which samples the same run.

use std::path::Path;
use std::process::Stdio;

use crate::program::{Ruby, Running};
use crate::seen::{Seen, Stack, stacks};
use live_suite::comparison::chi_squared::{chi_squared, limit};
use live_suite::paths::fixtures;

/// The functions that the program spends its time in.
const FUNCTIONS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Samples of each function.
type Counts = [u64; FUNCTIONS.len()];

/// Seconds of the profiles.
const SECONDS: &str = "8";

/// Least number of samples of each tool.
const MIN_SAMPLES: u64 = 300;

/// Compares the shares; fails with the difference. `None` if rbspy isn't there.
pub(crate) fn check(ruby: &Ruby) -> Option<Result<(), String>> {
    let Ok(folder) = fixtures().join("ruby/rbspy/bin").canonicalize() else {
        test_needs::skip("no rbspy: cargo xtask fixtures ruby");
        return None;
    };
    let running = Running::start(ruby.seeing(&[&folder], "shares.rb"));
    let file = Path::new("/tmp").join(format!("rbspy-{}", std::process::id()));
    let profile = crate::profile(std::slice::from_ref(&running), || {
        let mut command = ruby.beside(&running, &folder.join("rbspy"));
        command.args(["record", "--silent", "--rate", "200", "--duration", SECONDS, "--format", "collapsed"]);
        command.args(["--pid", &running.pid().to_string(), "--file"]).arg(&file).stdout(Stdio::null());
        assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    });
    let file = ruby.outside(&file);
    let text = std::fs::read_to_string(&file).unwrap();
    let _ = std::fs::remove_file(&file);
    let mut sampled = Counts::default();
    for stack in stacks(&profile) {
        add(&mut sampled, leaf(&stack).and_then(|name| name.strip_prefix("Shares.")), stack.count);
    }
    let mut read = Counts::default();
    for line in text.lines() {
        // Frames as in `first - shares.rb:5`, root first, and the count.
        let (frames, count) = line.rsplit_once(' ').unwrap_or_default();
        let leaf = frames.rsplit(';').next().and_then(|frame| frame.split(' ').next());
        add(
            &mut read,
            leaf.map(|name| name.rsplit(['.', '#']).next().unwrap_or(name)),
            count.parse().unwrap_or(0),
        );
    }
    let chance = chi_squared(&sampled, &read);
    let said = format!("{sampled:?} sampled, {read:?} by rbspy: chi-squared {chance:.1}");
    println!("{said}");
    let is_enough = [sampled, read].iter().all(|counts| counts.iter().sum::<u64>() >= MIN_SAMPLES);
    Some(if is_enough && chance < limit(FUNCTIONS.len()) { Ok(()) } else { Err(said + "\n" + &text) })
}

/// Returns the name of the innermost method.
fn leaf(stack: &Stack) -> Option<&str> {
    stack.frames.iter().rev().find_map(|seen| match seen {
        Seen::Ruby { name, .. } => Some(name.as_str()),
        Seen::Native { .. } => None,
    })
}

fn add(counts: &mut Counts, function: Option<&str>, count: u64) {
    if let Some(index) = FUNCTIONS.iter().position(|name| Some(*name) == function) {
        counts[index] += count;
    }
}
