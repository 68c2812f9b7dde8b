//! main > l1 > a closure (inlined) > l2 > a trait object's method > leaf, which spins until the
//! deadline.

use std::hint::black_box;
use std::time::{Duration, Instant};

trait Step {
    fn step(&self, deadline: Instant) -> u64;
}

struct Deeper(u64);

impl Step for Deeper {
    #[inline(never)]
    fn step(&self, deadline: Instant) -> u64 {
        black_box(leaf(deadline)) + self.0
    }
}

#[inline(never)]
fn leaf(deadline: Instant) -> u64 {
    let mut work = 0;
    loop {
        for _ in 0..1 << 24 {
            work = black_box(work + 1);
        }
        if Instant::now() >= deadline {
            return work;
        }
    }
}

#[inline(never)]
fn l2(step: &dyn Step, deadline: Instant) -> u64 {
    black_box(black_box(step).step(deadline)) + 1
}

#[inline(never)]
fn l1(deadline: Instant) -> u64 {
    let steps: [Box<dyn Step>; 1] = [Box::new(Deeper(3))];
    steps.iter().map(|step| black_box(l2(step.as_ref(), deadline))).sum()
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(0.0);
    if !(0.0 < seconds && seconds <= 600.0) {
        eprintln!("usage: chain SECONDS (more than 0, at most 600)");
        std::process::exit(2);
    }
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    println!("{} ready", std::process::id());
    black_box(l1(deadline));
}
