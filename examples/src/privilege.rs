//! Advice for missing privileges.

use ebpf_profiler_core::live::StartError;

/// Formats the error; for a missing privilege, with the command line that has it.
pub fn explain_start_error(error: &StartError) -> String {
    let (StartError::Privilege { .. } | StartError::Paranoid { .. }) = error else {
        return error.to_string();
    };
    let mut words = vec!["sudo".to_owned()];
    words.extend(std::env::current_exe().ok().map(|path| quote(&path.to_string_lossy())));
    words.extend(std::env::args().skip(1).map(|word| quote(&word)));
    format!("{error}\nto run it as root:\n\n    {}\n", words.join(" "))
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quotes_words_for_a_shell() {
        assert_eq!(quote("--output=a.html"), "--output=a.html");
        assert_eq!(quote("it's a file"), "'it'\\''s a file'");
    }
}
