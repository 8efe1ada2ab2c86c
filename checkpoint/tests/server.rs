//! A PostgreSQL server that tests start for themselves, in a temporary folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

/// Set where a skipped test would be a mistake.
pub(crate) const NEEDED: &str = "SUPERSTEP_NEED_POSTGRES";

/// A server of our own, on a socket in its folder.
pub(crate) struct Server {
    folder: TempDir,
    programs: PathBuf,
    databases: AtomicU32,
}

impl Server {
    /// The server that all tests of this process share; nothing if PostgreSQL is not installed.
    pub(crate) fn shared() -> Option<Arc<Server>> {
        static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = server.upgrade() {
            return Some(running);
        }
        let started = Arc::new(Server::start()?);
        *server = Arc::downgrade(&started);
        Some(started)
    }

    pub(crate) fn start() -> Option<Server> {
        let Some(programs) = programs() else {
            assert!(
                std::env::var_os(NEEDED).is_none(),
                "initdb is not installed, and {NEEDED} is set"
            );
            // Past the test harness, which shows nothing of a test that passes.
            let text = b"\n*** SKIPPED: PostgreSQL is not installed (no initdb found), its tests did not run ***\n";
            std::io::stderr().write_all(text).unwrap();
            return None;
        };
        let server = Server {
            folder: tempfile::tempdir().unwrap(),
            programs,
            databases: AtomicU32::new(0),
        };
        if let Some((user, group)) = unprivileged() {
            chown(server.folder.path(), Some(user), Some(group)).unwrap();
        }
        let data = server.data();
        let data = data.to_str().unwrap();
        server.run(
            "initdb",
            &[
                "-D",
                data,
                "-U",
                "test",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ],
        );
        server.up();
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).current_dir(self.folder.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some((user, group)) = unprivileged() {
            command.uid(user).gid(group);
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{program} {arguments:?}: {status}");
    }

    /// Starts it, and waits until it is there. What it has written survives its death without `fsync`; only a loss of power would matter.
    pub(crate) fn up(&self) {
        let (data, folder) = (self.data(), self.folder.path().display().to_string());
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={folder} -c max_connections=200 -c fsync=off"
        );
        let log = self.folder.path().join("log");
        self.run(
            "pg_ctl",
            &[
                "-D",
                data.to_str().unwrap(),
                "-o",
                &options,
                "-l",
                log.to_str().unwrap(),
                "-w",
                "start",
            ],
        );
    }

    /// Kills it with SIGKILL.
    #[allow(dead_code, reason = "two test programs share this file")]
    pub(crate) fn kill(&self) {
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        let killed = Command::new("kill").args(["-9", &pid]).status().unwrap();
        assert!(killed.success());
        // Its children notice; the next start refuses as long as one of them is left.
        let gone = |pid: &str| !Path::new("/proc").join(pid).exists();
        while !gone(&pid) {
            std::thread::yield_now();
        }
    }

    fn reach(&self, database: &str) -> String {
        format!(
            "host={} user=test dbname={database}",
            self.folder.path().display()
        )
    }

    /// How to reach a new, empty database.
    pub(crate) async fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test{number}");
        let client = client(&self.reach("postgres")).await;
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        self.reach(&name)
    }

    /// Its folder.
    #[allow(dead_code, reason = "two test programs share this file")]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.data();
        if data.join("postmaster.pid").exists() {
            self.run(
                "pg_ctl",
                &[
                    "-D",
                    data.to_str().unwrap(),
                    "-m",
                    "immediate",
                    "-w",
                    "stop",
                ],
            );
        }
    }
}

/// The folder with `initdb`: one of the path, or where Debian puts it.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").is_file())
}

/// The server does not run as root: then who runs it instead.
pub(crate) fn unprivileged() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut parts = line.split(':').skip(2).map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    ids("postgres").or_else(|| ids("nobody"))
}

/// A connection of its own.
pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
}
