//! Names of containers, from the socket of an engine with Docker's interface: Docker, podman.
//!
//! ```text
//!   GET /containers/ID/json ──► {"Name":"/shop","Config":{"Image":"registry/shop:1.2",…},…}
//! ```

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The engine behind a socket.
#[derive(Clone, Debug)]
pub struct Engine(PathBuf);

/// Longest wait for the engine.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Bytes of an answer that are read.
const MAX_ANSWER: u64 = 1 << 20;

impl Engine {
    /// Returns the engine behind a socket such as `/var/run/docker.sock`.
    pub fn new(socket: impl Into<PathBuf>) -> Engine {
        Engine(socket.into())
    }

    /// Returns name and image of a container.
    ///
    /// # Errors
    ///
    /// Fails if the engine can't be asked, or doesn't know the container.
    pub fn container(&self, id: &str) -> io::Result<(String, String)> {
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no id of an engine"));
        }
        let mut socket = UnixStream::connect(&self.0)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        write!(socket, "GET /containers/{id}/json HTTP/1.0\r\nHost: engine\r\n\r\n")?;
        let mut answer = Vec::new();
        socket.take(MAX_ANSWER).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let is_found = answer.split_whitespace().nth(1) == Some("200");
        let text = |key: &str| is_found.then(|| text(&answer, key)).flatten();
        let (name, image) =
            (text("Name"), json_object(&answer, "Config").and_then(|it| self::text(it, "Image")));
        match (name, image) {
            (Some(name), Some(image)) => Ok((name.trim_start_matches('/').to_owned(), image)),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "the engine does not know it")),
        }
    }
}

/// Returns the text after `"key":{`.
fn json_object<'j>(json: &'j str, key: &str) -> Option<&'j str> {
    Some(json.split_once(&format!("\"{key}\":{{"))?.1)
}

/// Returns the first text with a key, up to a quote or an escape: names of containers and images
/// have none.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\":\""))?;
    Some(rest.split(['"', '\\']).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Answers one request; returns the answer of the engine.
    fn ask(id: &str, answer: &'static str) -> io::Result<(String, String)> {
        let path = std::env::temp_dir().join(format!("engine-{}-{id}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&socket).read_line(&mut line).unwrap();
            socket.write_all(answer.as_bytes()).unwrap();
            line
        });
        let asked = Engine::new(&path).container(id);
        let line = server.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(line, format!("GET /containers/{id}/json HTTP/1.0\r\n"));
        asked
    }

    #[test]
    fn name_and_image_are_found() {
        let answer = "HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"c0\",\"Image\":\"sha256:1\",\"Name\":\"/shop\",\
                      \"Config\":{\"Hostname\":\"x\",\"Image\":\"registry/shop:1.2\"}}";
        assert_eq!(ask("c0", answer).unwrap(), ("shop".into(), "registry/shop:1.2".into()));
    }

    #[test]
    fn other_answers_are_errors() {
        for (id, answer) in
            [("c1", ""), ("c2", "HTTP/1.0 404 Not Found\r\n\r\n{\"Name\":\"/x\"}"), ("c3", "\u{ffff}")]
        {
            assert!(ask(id, answer).is_err());
        }
        let engine = Engine::new("/no/such/socket");
        assert_eq!(engine.container("c0").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(engine.container("../images").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
