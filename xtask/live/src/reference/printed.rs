//! Chains that programs print to files.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use super::chain::Chain;

/// Time in which a program prints its chain.
const READY: Duration = Duration::from_secs(30);

/// Returns the chain that is printed to a file, once it is complete.
pub fn printed(file: &Path) -> Option<Chain> {
    let end = Instant::now() + READY;
    while Instant::now() < end {
        let chain = File::open(file).ok().and_then(|file| Chain::read(&mut BufReader::new(file)));
        if chain.is_some() {
            return chain;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}
