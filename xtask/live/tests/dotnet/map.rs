//! The methods that a runtime has compiled, by the map that it writes for perf.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Names of methods in a map: `type.method`, without type arguments.
#[derive(Debug)]
pub(crate) struct Methods(BTreeSet<String>);

impl Methods {
    /// Reads the map of a process that runs with `DOTNET_PerfMapEnabled=1`, and removes it.
    pub(crate) fn take(pid: u32) -> Methods {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        fs::remove_file(path).unwrap();
        Methods(text.lines().filter_map(method).collect())
    }

    /// Returns `true` if the runtime has compiled a method of this name. One that the C# compiler has
    /// generated has its function's name in angle brackets.
    pub(crate) fn has(&self, name: &str) -> bool {
        let function = format!("<{}>", name.rsplit('.').next().unwrap_or(name));
        let (local, _) = name.split_once(" in ").unwrap_or_default();
        let is_it = |found: &String| {
            found.contains(&function) && (local.starts_with("lambda") || found.contains(local))
        };
        self.0.contains(name) || self.0.iter().any(is_it)
    }
}

/// Returns the name of a method: `0x1000 a8 instance void [Shop] App.Cart`1[System.Int32]::Add(int32)[Tier0]`.
fn method(line: &str) -> Option<String> {
    let (_, name) = line.split_once("] ")?;
    let name = &name[..name.find('(')?];
    let mut depth = 0;
    let plain = name.chars().filter(|character| {
        depth += i32::from(*character == '[');
        let is_plain = depth == 0;
        depth -= i32::from(*character == ']');
        is_plain
    });
    let plain = plain.collect::<String>().replace("::", ".").replace('+', ".");
    // Before it is the type of the result, which may be an array.
    plain.rsplit(' ').next().map(str::to_owned)
}
