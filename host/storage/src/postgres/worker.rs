//! The thread that owns connections. Callers wait for it on a channel, so that they may be on any thread of any executor.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fumehood_core::log;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::connection::Connection;
use super::server::Server;
use crate::error::{OpenError, StorageError};

/// Maximum number of idle connections. More may be in use at once; the excess is closed after use.
const MAX_IDLE_CONNECTIONS: usize = 4;

type Job = Box<dyn FnOnce(Rc<Pool>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A thread with an executor of its own, which runs jobs on connections to one server, several at once.
pub(crate) struct Worker {
    jobs: UnboundedSender<Job>,
    place: String,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts the thread. Connections are made when they are needed, and wait for locks for at most `lock_timeout`.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(crate) fn start(server: &Server, lock_timeout: Duration) -> Result<Self, OpenError> {
        let (jobs, receiver) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(OpenError::Thread)?;
        let pool = (server.clone(), lock_timeout);
        let run = move || {
            let pool = Rc::new(Pool {
                server: pool.0,
                lock_timeout: pool.1,
                idle: RefCell::default(),
                is_failing: Cell::default(),
            });
            LocalSet::new().block_on(&runtime, run_jobs(receiver, pool));
        };
        thread::Builder::new().name("postgresql".to_owned()).spawn(run).map_err(OpenError::Thread)?;
        Ok(Self { jobs, place: server.place().to_owned() })
    }

    /// Returns the address without the password.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Runs a job on a connection, and blocks until it is done, for at most `limit`. A connection whose job failed is closed.
    ///
    /// # Errors
    /// That of the job, or if the server cannot be reached or does not answer in time.
    pub(crate) fn run<T, E, F>(&self, limit: Duration, job: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
        F: AsyncFnOnce(&mut Connection) -> Result<T, E> + Send + 'static,
    {
        let (answer, receiver) = mpsc::channel();
        let job: Job = Box::new(move |pool| {
            Box::pin(async move {
                let done = tokio::time::timeout(limit, pool.run(job)).await;
                let done = done.unwrap_or_else(|_| {
                    let reason = format!("it did not answer within {} s", limit.as_secs_f32());
                    Err(StorageError::Unreachable(reason).into())
                });
                drop(answer.send(done));
            })
        });
        self.jobs.send(job).map_err(|_| closed())?;
        receiver.recv().map_err(|_| closed())?
    }
}

fn closed() -> StorageError {
    StorageError::Unreachable("the connection was closed".to_owned())
}

/// Runs jobs until the worker is dropped.
async fn run_jobs(mut jobs: UnboundedReceiver<Job>, pool: Rc<Pool>) {
    while let Some(job) = jobs.recv().await {
        tokio::task::spawn_local(job(Rc::clone(&pool)));
    }
}

/// The connections that no job uses.
struct Pool {
    server: Server,
    lock_timeout: Duration,
    idle: RefCell<Vec<Connection>>,
    /// True while no connection can be made.
    is_failing: Cell<bool>,
}

impl Pool {
    async fn run<T, E: From<StorageError>>(
        &self,
        job: impl AsyncFnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        let done = job(&mut connection).await?;
        let mut idle = self.idle.borrow_mut();
        if idle.len() < MAX_IDLE_CONNECTIONS && !connection.is_closed() {
            idle.push(connection);
        }
        Ok(done)
    }

    async fn open(&self) -> Result<Connection, StorageError> {
        let opened = Connection::open(&self.server, self.lock_timeout).await;
        let was_failing = self.is_failing.replace(opened.is_err());
        match &opened {
            Ok(_) if was_failing => log::emit_storage_recovered(self.server.place()),
            Err(error) if !was_failing => log::emit_storage_failing(self.server.place(), error),
            _ => {}
        }
        opened
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }
}
