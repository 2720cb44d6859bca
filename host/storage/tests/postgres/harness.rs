//! Databases for tests, in a server that all tests of this program share while one of them runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use fumehood_storage::event_log::{EventLog, Options, Reader};
use fumehood_storage::postgres::{Server, ServerSettings};
use fumehood_tests::postgres::Postgres;

use crate::suite::Database;

static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
static NEXT_DATABASE: AtomicU64 = AtomicU64::new(1);

/// An empty database.
pub struct TestDatabase {
    pub server: Arc<Postgres>,
    pub name: String,
}

impl TestDatabase {
    /// Makes a database. Returns `None`, after printing `SKIPPED`, if there is no server on this machine.
    pub fn new() -> Option<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match shared.upgrade() {
            Some(server) => server,
            None => Arc::new(Postgres::start().unwrap()?),
        };
        *shared = Arc::downgrade(&server);
        drop(shared);
        Some(Self::in_server(server))
    }

    pub fn in_server(server: Arc<Postgres>) -> Self {
        let name = format!("log_{}", NEXT_DATABASE.fetch_add(1, Ordering::Relaxed));
        server.create_database(&name).unwrap();
        Self { server, name }
    }

    /// Copies the database. Ends the connections to it, which would prevent that.
    pub fn copy(&self) -> Self {
        let name = format!("log_{}", NEXT_DATABASE.fetch_add(1, Ordering::Relaxed));
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", self.name);
        let began = Instant::now();
        loop {
            self.server.sql("postgres", &end).unwrap();
            match self.server.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {}", self.name)) {
                Ok(_) => break,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
        }
        Self { server: Arc::clone(&self.server), name }
    }

    pub fn address(&self) -> Server {
        address(&self.server.url(&self.name))
    }

    pub fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.name, &format!("SET search_path = fumehood; {sql}")).unwrap()
    }
}

pub fn address(url: &str) -> Server {
    Server::new(&ServerSettings { url: url.to_owned(), ..ServerSettings::default() }).unwrap()
}

/// Returns the options of the writer with this number as its key.
pub fn writer(number: u8) -> Options {
    let short = Duration::from_millis(500);
    Options {
        key: Some([number; 32]),
        busy_timeout: Duration::from_secs(5),
        close_timeout: short,
        ..Options::default()
    }
}

impl Database for TestDatabase {
    fn open(&self) -> EventLog {
        let options = Options { close_timeout: Duration::from_secs(10), ..writer(1) };
        EventLog::open_postgres(&self.address(), &options).unwrap()
    }

    fn reader(&self) -> Reader {
        Reader::open_postgres(&self.address(), &writer(1)).unwrap()
    }
}
