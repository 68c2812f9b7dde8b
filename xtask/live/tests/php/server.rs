//! Servers: PHP's own for FastCGI, and Apache with PHP as a module, each in a folder of its own.
//!
//! ```text
//!   fpm      php-fpm8.2   a socket in the folder           workers are forked, and replaced after a number of requests
//!   Apache   apache2      a port of the loopback device    workers are forked
//! ```

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fastcgi;
use crate::interpreter::Interpreter;

/// The user of workers, who owns nothing.
const NOBODY: &str = "65534";

/// Time in which a server starts.
const START: Duration = Duration::from_secs(20);

/// Kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fpm,
    Apache,
}

/// Numbers of workers and of requests of each, 0 for any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workers {
    pub(crate) count: usize,
    pub(crate) requests: usize,
}

/// A running server; ended on drop.
pub(crate) struct Server {
    child: Child,
    address: Address,
    /// Its folder, as it sees it, and as the test does.
    pub(crate) folder: PathBuf,
    pub(crate) outside: PathBuf,
}

enum Address {
    Socket(PathBuf),
    Port(u16),
}

impl Server {
    /// Starts a server with PHP's `settings`, `NAME=VALUE`; `None` if it isn't in the root of the
    /// interpreter.
    pub(crate) fn start(
        kind: Kind,
        php: &Interpreter,
        settings: &[&str],
        workers: Workers,
    ) -> Option<Server> {
        let (major, minor) = php.version();
        let folder = php.folder().join(format!("{kind:?}-{}", std::process::id()));
        let outside = php.outside(&folder);
        let version = format!("{major}.{minor}");
        let (program, module) = match kind {
            Kind::Fpm => (format!("/usr/sbin/php-fpm{version}"), String::new()),
            Kind::Apache => {
                ("/usr/sbin/apache2".to_owned(), format!("/usr/lib/apache2/modules/libphp{version}.so"))
            }
        };
        let is_there = |path: &str| path.is_empty() || php.outside(Path::new(path)).is_file();
        if !is_there(&program) || !is_there(&module) {
            return None;
        }
        fs::create_dir_all(&outside).unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o777)).unwrap();
        fs::write(outside.join("php.ini"), settings.join("\n")).unwrap();
        let mut command = php.other(&program);
        let address = match kind {
            Kind::Fpm => {
                fs::write(outside.join("fpm.conf"), fpm(&folder, workers)).unwrap();
                command
                    .arg("-c")
                    .arg(folder.join("php.ini"))
                    .arg("-F")
                    .arg("-y")
                    .arg(folder.join("fpm.conf"));
                Address::Socket(outside.join("socket"))
            }
            Kind::Apache => {
                let port = free_port();
                let module =
                    format!("LoadModule php{} {module}", if major < 8 { "7_module" } else { "_module" });
                fs::write(outside.join("apache.conf"), apache(&folder, port, &module, workers)).unwrap();
                command.args(["-DFOREGROUND", "-f"]).arg(folder.join("apache.conf"));
                Address::Port(port)
            }
        };
        let log = fs::File::create(outside.join("output")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        // Apache ends its whole group.
        let child = command.process_group(0).spawn().unwrap();
        let mut server = Server { child, address, folder, outside };
        server.wait();
        Some(server)
    }

    fn wait(&mut self) {
        let end = Instant::now() + START;
        while self.connect().is_err() {
            let is_over = Instant::now() > end || self.child.try_wait().unwrap().is_some();
            let log = || fs::read_to_string(self.outside.join("output")).unwrap_or_default();
            assert!(!is_over, "the server did not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match &self.address {
            Address::Socket(path) => Box::new(UnixStream::connect(path)?),
            Address::Port(port) => Box::new(TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?),
        })
    }

    /// Returns the processes: the first one, and the workers that it has now.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let first = self.child.id();
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        let workers = children.split_whitespace().map(|pid| pid.parse().unwrap());
        [first].into_iter().chain(workers).collect()
    }

    /// Sends a request for a script of the folder.
    pub(crate) fn request(&self, script: &str, query: &str) -> std::io::Result<Box<dyn Stream>> {
        let mut stream = self.connect()?;
        let request = match self.address {
            Address::Socket(_) => fastcgi::request(&self.folder.join(script), query),
            Address::Port(_) => format!("GET /{script}?{query} HTTP/1.0\r\n\r\n").into_bytes(),
        };
        stream.write_all(&request)?;
        Ok(stream)
    }

    /// Sends a request and returns the body of the answer.
    pub(crate) fn get(&self, script: &str, query: &str) -> std::io::Result<String> {
        let mut answer = Vec::new();
        self.request(script, query)?.read_to_end(&mut answer)?;
        let answer = match self.address {
            Address::Socket(_) => fastcgi::output(&answer),
            Address::Port(_) => answer,
        };
        let text = String::from_utf8_lossy(&answer);
        Ok(text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends its workers.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let end = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.outside);
    }
}

/// A connection.
pub(crate) trait Stream: Read + Write + Send {}

impl Stream for UnixStream {}
impl Stream for TcpStream {}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn fpm(folder: &Path, Workers { count, requests }: Workers) -> String {
    let folder = folder.display();
    format!(
        "[global]\n\
         error_log = {folder}/log\n\
         [www]\n\
         user = {NOBODY}\n\
         group = {NOBODY}\n\
         listen = {folder}/socket\n\
         pm = static\n\
         pm.max_children = {count}\n\
         pm.max_requests = {requests}\n"
    )
}

fn apache(folder: &Path, port: u16, module: &str, Workers { count, requests }: Workers) -> String {
    let folder = folder.display();
    let modules: String = ["authz_core", "mime", "mpm_prefork"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    format!(
        "{modules}{module}\n\
         DefaultRuntimeDir {folder}\n\
         ServerRoot {folder}\n\
         ServerName localhost\n\
         Listen 127.0.0.1:{port}\n\
         User #{NOBODY}\n\
         Group #{NOBODY}\n\
         PidFile {folder}/pid\n\
         ErrorLog {folder}/log\n\
         TypesConfig /dev/null\n\
         PHPIniDir {folder}\n\
         DocumentRoot {folder}\n\
         StartServers {count}\n\
         MinSpareServers 1\n\
         MaxSpareServers {count}\n\
         MaxRequestWorkers {count}\n\
         ServerLimit {count}\n\
         MaxConnectionsPerChild {requests}\n\
         <FilesMatch \"[.]php$\">\n\
         SetHandler application/x-httpd-php\n\
         </FilesMatch>\n"
    )
}
