//! CPUs that go offline and online while a profiler runs. The test switches the last one off and
//! on: needs root, and a machine that permits it, as those of `cargo xtask kernels` do.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use ebpf_profiler_core::symbol::NoSymbols;

/// Longer than the profiler's interval (1 s) between checks for new CPUs.
const NOTICE_TIME: Duration = Duration::from_millis(1500);

mod guest {
    use std::time::Duration;

    #[test]
    #[ignore = "needs root"]
    fn a_cpu_that_comes_back_is_sampled_again() {
        test_needs::root!();
        super::switch_off_for(super::NOTICE_TIME);
    }

    #[test]
    #[ignore = "needs root"]
    fn a_cpu_that_is_away_for_a_moment_is_sampled_again() {
        test_needs::root!();
        super::switch_off_for(Duration::ZERO);
    }
}

fn switch_off_for(away: Duration) {
    let Some(cpu) = Cpu::last() else {
        return test_needs::skip("no CPU of this machine can be switched off");
    };
    let profiler = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(97)
        .symbolizer(NoSymbols)
        .frame_pointers_only()
        .start()
        .unwrap();
    assert!(is_sampled(&profiler, &Busy::on(&cpu)), "on CPU {} before", cpu.number);
    let off = match cpu.switch_off() {
        Ok(off) => off,
        Err(error) => return test_needs::skip(&format!("CPU {} can't be switched off: {error}", cpu.number)),
    };
    if !away.is_zero() {
        sleep(away);
        assert!(is_sampled(&profiler, &Busy::anywhere()), "with CPU {} switched off", cpu.number);
    }
    drop(off);
    sleep(NOTICE_TIME);
    assert!(
        is_sampled(&profiler, &Busy::on(&cpu)),
        "no samples on CPU {} after it is online again",
        cpu.number
    );
    assert_balanced(&profiler.stop().unwrap());
}

/// Returns `true` if the profiler samples the process.
fn is_sampled(profiler: &Profiler, busy: &Busy) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        sleep(Duration::from_millis(200));
        let profile = profiler.take_profile().unwrap();
        if profile.samples().any(|sample| sample.process().pid == busy.0.id()) {
            return true;
        }
    }
    false
}

fn assert_balanced(health: &Health) {
    let pipeline = &health.pipeline;
    let delivered = pipeline.samples + pipeline.unwanted + pipeline.malformed;
    assert_eq!(health.ticks, health.filtered + delivered + health.lost, "{health:?}");
}

/// A CPU that can be switched off.
struct Cpu {
    number: u32,
    switch: PathBuf,
}

impl Cpu {
    /// Returns the last online CPU, except the first one.
    fn last() -> Option<Cpu> {
        let number = |name: &str| name.strip_prefix("cpu")?.parse().ok();
        let entries = fs::read_dir("/sys/devices/system/cpu").unwrap();
        let cpus = entries.filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = number(path.file_name()?.to_str()?)?;
            Some(Cpu { number, switch: path.join("online") })
        });
        cpus.filter(|cpu| cpu.number > 0 && is_on(&cpu.switch)).max_by_key(|cpu| cpu.number)
    }

    fn switch_off(&self) -> io::Result<Off> {
        fs::write(&self.switch, "0")?;
        Ok(Off(self.switch.clone()))
    }
}

fn is_on(switch: &Path) -> bool {
    fs::read_to_string(switch).is_ok_and(|state| state.trim() == "1")
}

/// An offline CPU; switched on again on drop.
struct Off(PathBuf);

impl Drop for Off {
    fn drop(&mut self) {
        fs::write(&self.0, "1").unwrap();
    }
}

/// A process that spins.
struct Busy(Child);

impl Busy {
    const LOOP: [&str; 3] = ["sh", "-c", "while :; do :; done"];

    fn anywhere() -> Busy {
        let [shell, arguments @ ..] = Busy::LOOP;
        Busy(Command::new(shell).args(arguments).spawn().unwrap())
    }

    /// Starts a process on this CPU only.
    fn on(cpu: &Cpu) -> Busy {
        // taskset executes the shell, so the process id is the shell's.
        let bound = Command::new("taskset").args(["-c", &cpu.number.to_string()]).args(Busy::LOOP).spawn();
        Busy(bound.unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
