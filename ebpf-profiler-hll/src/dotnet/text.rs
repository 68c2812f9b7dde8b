//! Names as they are written in source code: without what the C# compiler puts around them.

use super::metadata::MethodName;

/// Returns the name of a method.
///
/// | metadata | name |
/// |---|---|
/// | `App`, `Shop.Cart`, `Add` | `App.Shop.Cart.Add` |
/// | `Shop.<PayAsync>d__3`, `MoveNext` | `Shop.PayAsync` |
/// | `Shop.<>c`, `<Pay>b__0_1` | `lambda 0_1 in Shop.Pay` |
/// | `Shop`, `<Pay>g__Round\|0_0` | `Round in Shop.Pay` |
pub(super) fn name(of: &MethodName) -> String {
    let (mut types, mut method) = (of.types.as_slice(), of.method.as_str());
    // The state machine of an asynchronous method, or of an iterator.
    if let [outer @ .., last] = types
        && !outer.is_empty()
        && method == "MoveNext"
        && let Some((inner, rest)) = generated(last)
        && rest.starts_with('d')
    {
        (types, method) = (outer, inner);
    }
    let Some((function, rest)) = generated(method) else { return joined(of, types, method) };
    // Types that hold the variables of lambdas.
    while let [outer @ .., last] = types
        && !outer.is_empty()
        && (last == "<>c" || last.starts_with("<>c__") || last.starts_with("<>c`"))
    {
        types = outer;
    }
    // A method of a lambda in a lambda has the name of the outermost one.
    let within = joined(of, types, function);
    if let Some(number) = rest.strip_prefix("b__") {
        return format!("lambda {number} in {within}");
    }
    match rest.strip_prefix("g__").and_then(|rest| rest.split('|').next()) {
        Some(local) if !local.is_empty() => format!("{local} in {within}"),
        _ => joined(of, types, method),
    }
}

/// Returns the parts of a generated name, `<function>rest`.
fn generated(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let mut depth = 1_u32;
    let end = inner.char_indices().find_map(|(at, character)| {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    let (function, rest) = (&inner[..end], &inner[end + 1..]);
    (!function.is_empty() && !rest.is_empty()).then_some((function, rest))
}

fn joined(of: &MethodName, types: &[String], method: &str) -> String {
    let mut parts = Vec::with_capacity(types.len() + 2);
    parts.extend((!of.namespace.is_empty()).then_some(of.namespace.as_str()));
    parts.extend(types.iter().map(String::as_str));
    parts.push(method);
    parts.join(".")
}

#[test]
fn names_are_as_in_source_code() {
    let named = |namespace: &str, types: &[&str], method: &str| {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        name(&MethodName { namespace: namespace.to_owned(), types, method: method.to_owned() })
    };
    assert_eq!(named("App", &["Shop", "Cart"], "Add"), "App.Shop.Cart.Add");
    assert_eq!(named("", &["Shop"], ".ctor"), "Shop..ctor");
    assert_eq!(named("App", &["Shop", "<PayAsync>d__3"], "MoveNext"), "App.Shop.PayAsync");
    assert_eq!(named("App", &["Shop", "<>c"], "<Pay>b__0_1"), "lambda 0_1 in App.Shop.Pay");
    assert_eq!(named("", &["Shop", "<>c__DisplayClass4_0"], "<Pay>b__0"), "lambda 0 in Shop.Pay");
    assert_eq!(named("", &["Shop"], "<Pay>g__Round|0_0"), "Round in Shop.Pay");
    assert_eq!(named("", &["Program"], "<Main>$"), "Program.<Main>$");
    let asynchronous = ["Shop", "<>c", "<<Pay>b__0_0>d"];
    assert_eq!(named("", &asynchronous, "MoveNext"), "lambda 0_0 in Shop.Pay");
    assert_eq!(named("", &["<PrivateImplementationDetails>"], "Sum"), "<PrivateImplementationDetails>.Sum");
    assert_eq!(named("", &["Shop", "<>"], "<"), "Shop.<>.<");
    assert_eq!(named("", &["Shop"], "<Pay>g__|0_0"), "Shop.<Pay>g__|0_0");
    assert_eq!(named("", &["List"], "MoveNext"), "List.MoveNext");
}
