//! Programs in a folder that is their root.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Enters a root, with the devices and processes of the machine, and with folders of the machine at
/// their own paths; `--` ends their list.
const ENTER: &str = r#"
root=$0
mount --rbind /dev "$root/dev" && mount --types proc proc "$root/proc" || exit
while [ "$1" != -- ]; do
    mkdir -p "$root$1" && mount --bind "$1" "$root$1" || exit
    shift
done
shift
exec chroot "$root" "$@"
"#;

/// Returns a command that runs a program of a root, `None` being the machine's own. The program
/// sees the folders where the machine has them.
pub fn command(root: Option<&PathBuf>, folders: &[&Path], program: &Path) -> Command {
    let Some(root) = root else { return Command::new(program) };
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ENTER]).arg(root).args(folders).arg("--").arg(program);
    command
}
