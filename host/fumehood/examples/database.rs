//! A host interface of a service: tools read tables of its SQLite database, each tenant those that it was granted.
//!
//! `cargo run -p fumehood --example database`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood::boxed::BoxFuture;
use fumehood::capability::{
    Capability, CapabilityCall, CapabilityError, CapabilitySession, HandleTable, Value as WitValue,
};
use fumehood::{Call, Grant, Host, Isolation, Load, Workers};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Maximum number of rows of one call of `select`.
const MAX_ROWS: u32 = 1_000;

/// The database of the service. Clones share the connection; a service with many calls would have a pool.
#[derive(Clone)]
struct Database(Arc<Mutex<Connection>>);

/// The tables that a tenant may read.
#[derive(Clone, Serialize, Deserialize)]
struct Tables {
    tables: Vec<String>,
}

impl Capability for Database {
    type Grant = Tables;

    fn name(&self) -> &str {
        "database"
    }

    fn description(&self) -> &str {
        "read tables of the service"
    }

    fn wit(&self) -> &str {
        include_str!("database/database.wit")
    }

    fn open(&self, grant: Arc<Tables>) -> Box<dyn CapabilitySession> {
        Box::new(Session { database: self.clone(), grant, cursors: HandleTable::new() })
    }
}

/// The use of the database by one call of a tool.
struct Session {
    database: Database,
    grant: Arc<Tables>,
    cursors: HandleTable<Cursor>,
}

struct Cursor {
    table: String,
    next: u32,
}

impl CapabilitySession for Session {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<WitValue>, CapabilityError>> {
        Box::pin(async move {
            let result = match (call.function, call.arguments.as_slice()) {
                ("select", [WitValue::String(table), WitValue::U32(limit)]) => {
                    self.read(&call, table, 0, (*limit).min(MAX_ROWS)).await.map(WitValue::from_iter)
                }
                ("scan", [WitValue::String(table)]) => self.scan(&call, table).await?,
                ("[method]cursor.next", [WitValue::Handle(cursor)]) => self.next(&call, *cursor).await?,
                _ => return Err(CapabilityError::unknown_function(&call)),
            };
            Ok(Some(result.map_or_else(WitValue::err, WitValue::ok)))
        })
    }

    fn drop_resource(&mut self, _resource: &str, handle: u32) {
        let _cursor = self.cursors.remove(handle);
    }
}

/// What a function returns to the tool.
type Answer<T = WitValue> = Result<T, WitValue>;

impl Session {
    async fn scan(&mut self, call: &CapabilityCall<'_>, table: &str) -> Result<Answer, CapabilityError> {
        // No row yet, but the error of a table that was not granted.
        if let Err(error) = self.read(call, table, 0, 0).await {
            return Ok(Err(error));
        }
        Ok(Ok(WitValue::Handle(self.cursors.insert(Cursor { table: table.to_owned(), next: 0 })?)))
    }

    async fn next(&mut self, call: &CapabilityCall<'_>, cursor: u32) -> Result<Answer, CapabilityError> {
        let cursor = self.cursors.get_mut(cursor)?;
        let at = cursor.next;
        cursor.next = at.saturating_add(1);
        let table = cursor.table.clone();
        let rows = self.read(call, &table, at, 1).await;
        Ok(rows.map(|mut rows| WitValue::from(rows.pop())))
    }

    /// Reads rows of a table, or returns the error that the tool gets.
    async fn read(&self, call: &CapabilityCall<'_>, table: &str, offset: u32, limit: u32) -> Answer<Vec<WitValue>> {
        if !self.grant.tables.iter().any(|granted| granted == table) {
            call.context.refuse(format!("reading the table `{table}`"), "its grant does not contain the table");
            return Err(WitValue::case("denied", format!("the table `{table}` was not granted")));
        }
        let database = self.database.clone();
        let table = table.to_owned();
        // SQLite blocks its thread.
        let read = tokio::task::spawn_blocking(move || select(&database, &table, offset, limit));
        match read.await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(WitValue::case("failed", error.to_string())),
            Err(error) => Err(WitValue::case("failed", error.to_string())),
        }
    }
}

fn select(database: &Database, table: &str, offset: u32, limit: u32) -> rusqlite::Result<Vec<WitValue>> {
    let connection = database.0.lock().unwrap_or_else(PoisonError::into_inner);
    // The name is one that the operator granted. Quoted nevertheless, because a name may contain anything.
    let query = format!("SELECT * FROM \"{}\" LIMIT ?1 OFFSET ?2", table.replace('"', "\"\""));
    let mut statement = connection.prepare_cached(&query)?;
    let columns = statement.column_count();
    let rows = statement.query_map([limit, offset], |row| {
        let cells = (0..columns).map(|column| row.get_ref(column).map(to_cell));
        Ok(WitValue::record([("cells", cells.collect::<rusqlite::Result<WitValue>>()?)]))
    })?;
    rows.collect()
}

fn to_cell(value: ValueRef<'_>) -> WitValue {
    match value {
        ValueRef::Null => WitValue::Variant("null".to_owned(), None),
        ValueRef::Integer(number) => WitValue::case("integer", number),
        ValueRef::Real(number) => WitValue::case("real", number),
        ValueRef::Text(text) => WitValue::case("text", String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => WitValue::case("blob", WitValue::Bytes(bytes.to_vec())),
    }
}

fn open_database() -> rusqlite::Result<Database> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(
        "CREATE TABLE orders (id INTEGER, title TEXT, price REAL);
         INSERT INTO orders VALUES (1, 'milk', 1.5), (2, 'bread', NULL);
         CREATE TABLE salaries (name TEXT, amount INTEGER);
         INSERT INTO salaries VALUES ('ann', 5000);",
    )?;
    Ok(Database(Arc::new(Mutex::new(connection))))
}

/// Builds the component of the example. Yours is a file that a toolchain built for the world `reader`.
fn reader() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/database/database.wit");
    Ok(fumehood_tests::wrap_as(include_str!("database/reader.wat"), "reader", wit.as_ref())?)
}

#[tokio::main(flavor = "current_thread")]
async fn call_tools() -> Result<(), Box<dyn std::error::Error>> {
    let database = open_database()?;
    let workers = Workers::this_program(["run-worker"]);
    let host = Host::builder().workers(workers).capability(database.clone()).build()?;

    let ungranted = host.load(Load::bytes("reader", reader()?).isolation(Isolation::InProcess)).await;
    println!("without a grant: {}", describe_error(ungranted.err().ok_or("it should be refused")?));

    let tenants =
        [("acme", vec!["orders"], Isolation::InProcess), ("payroll", vec!["orders", "salaries"], Isolation::Process)];
    for (tenant, tables, isolation) in tenants {
        let tables = tables.into_iter().map(str::to_owned).collect();
        let granted = database.grant(&Tables { tables })?;
        let load = Load::bytes(tenant, reader()?).isolation(isolation);
        host.load(load.grant(Grant::none().with_capability(granted)?)).await?;
    }
    for (tool, table) in [("acme__rows", "orders"), ("acme__rows", "salaries"), ("payroll__rows", "salaries")] {
        let result = host.call(Call::new(tool, json!({"table": table, "limit": 10}))).await;
        match result.error() {
            None => println!("{tool} {table}: {}", result.text().unwrap_or_default()),
            Some(error) => println!("{tool} {table}: {error}"),
        }
    }
    let first = host.call(Call::new("payroll__first", json!({"table": "orders"}))).await;
    println!("payroll__first orders: {}", first.text().unwrap_or_default());
    host.shutdown(std::time::Duration::from_secs(1)).await;
    Ok(())
}

/// Returns an error with its causes.
fn describe_error(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

pub(crate) fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("run-worker") {
        return fumehood::serve_worker();
    }
    match call_tools() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
