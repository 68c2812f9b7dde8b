//! Names of functions as their languages write them.

/// The prefix of the names of modules in Elixir.
const ELIXIR: &str = "Elixir.";

/// Returns the name of a function.
pub(super) fn name(module: &str, function: &str, arity: u8) -> String {
    let Some(module) = module.strip_prefix(ELIXIR) else { return format!("{module}:{function}/{arity}") };
    match parent(function) {
        Some((parent, of_parent)) => {
            format!("anonymous fn/{arity} in {module}.{}/{of_parent}", quoted(parent))
        }
        None => format!("{module}.{}/{arity}", quoted(function)),
    }
}

/// Returns the name and the arity of the function that an anonymous one is in:
/// `-NAME/ARITY-fun-NUMBER-`.
fn parent(function: &str) -> Option<(&str, &str)> {
    let (parent, number) = function.strip_prefix('-')?.strip_suffix('-')?.rsplit_once("-fun-")?;
    let (name, arity) = parent.rsplit_once('/')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(arity)).then_some((name, arity))
}

/// Returns the name of a function in Elixir, in quotes if it is neither an identifier nor an
/// operator.
fn quoted(name: &str) -> String {
    let body = name.strip_suffix(['?', '!']).unwrap_or(name);
    let is_identifier = body.starts_with(|c: char| c.is_lowercase() || c == '_')
        && body.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_operator = !name.is_empty() && name.bytes().all(|byte| b"!&|<>=~^+-*/.@".contains(&byte));
    if is_identifier || is_operator { name.to_owned() } else { format!("{name:?}") }
}

#[test]
fn names_are_those_of_their_language() {
    assert_eq!(name("lists", "map", 2), "lists:map/2");
    assert_eq!(name("shapes", "-area/1-fun-0-", 1), "shapes:-area/1-fun-0-/1");
    assert_eq!(name("Elixir.Enum", "map", 2), "Enum.map/2");
    assert_eq!(name("Elixir.Enum", "-map/2-fun-0-", 2), "anonymous fn/2 in Enum.map/2");
    assert_eq!(name("Elixir.Enum", "-map/2-lc$^0/1-0-", 2), "Enum.\"-map/2-lc$^0/1-0-\"/2");
    assert_eq!(name("Elixir.A.B", "valid?", 1), "A.B.valid?/1");
    assert_eq!(name("Elixir.Kernel", "+", 2), "Kernel.+/2");
    assert_eq!(name("Elixir.ExampleTest", "test a b", 1), "ExampleTest.\"test a b\"/1");
    assert_eq!(name("Elixir", "map", 2), "Elixir:map/2");
    assert_eq!(parent("-f/x-fun-0-"), None);
}
