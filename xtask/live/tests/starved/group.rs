//! A control group with little CPU time, in which this process is for a while.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files of version 1 and their contents: the least weight, and 5 % of one CPU.
const VERSION_1: (&str, &[(&str, &str)]) = (
    "/sys/fs/cgroup/cpu",
    &[("cpu.shares", "2"), ("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "5000")],
);

/// The same of version 2.
const VERSION_2: (&str, &[(&str, &str)]) =
    ("/sys/fs/cgroup", &[("cpu.weight", "1"), ("cpu.max", "5000 100000")]);

/// The group. When it is dropped, this process returns to the root.
pub(crate) struct SmallGroup {
    root: &'static Path,
    path: PathBuf,
    files: &'static [(&'static str, &'static str)],
}

impl SmallGroup {
    /// Puts this process into a new group, which has as much as others.
    pub(crate) fn enter() -> io::Result<SmallGroup> {
        let is_version_1 = Path::new(VERSION_1.0).join("cpu.shares").exists();
        let (root, files) = if is_version_1 { VERSION_1 } else { VERSION_2 };
        let root = Path::new(root);
        if !is_version_1 {
            fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
        }
        let group =
            SmallGroup { root, path: root.join(format!("ebpf-starved-{}", std::process::id())), files };
        fs::create_dir(&group.path)?;
        move_to(&group.path)?;
        Ok(group)
    }

    /// Makes it small.
    pub(crate) fn shrink(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|(name, value)| fs::write(self.path.join(name), value))
    }
}

impl Drop for SmallGroup {
    fn drop(&mut self) {
        let _ = move_to(self.root);
        let _ = fs::remove_dir(&self.path);
    }
}

fn move_to(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}
