//! Stores of your own: one for records, and one for the model's notes.
//!
//! `cargo run -p fumehood --example agent_store`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood::Host;
use fumehood::agent::memory::{Memory, MemoryError, Note};
use fumehood::boxed::BoxFuture;
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::record::{Durability, Record, RecordError, Recorder};

/// A recorder that stores records as lines. An error stops the run, because a call that is not recorded must not run.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Recorder for Lines {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        let line = serde_json::to_string(&record).map_err(|error| RecordError(error.to_string()));
        let taken = line.map(|line| self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line));
        Box::pin(std::future::ready(taken))
    }
}

/// Notes by owner and key. A real store would use a table.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<(String, String), String>>);

impl Notes {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<(String, String), String>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the key of a note of this owner. Owners never see the notes of each other.
fn owned(owner: Option<&str>, key: &str) -> (String, String) {
    (owner.unwrap_or_default().to_owned(), key.to_owned())
}

impl Memory for Notes {
    fn read<'a>(&'a self, owner: Option<&'a str>, key: &'a str) -> BoxFuture<'a, Result<Option<String>, MemoryError>> {
        let found = self.with(|notes| notes.get(&owned(owner, key)).cloned());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn write<'a>(
        &'a self,
        owner: Option<&'a str>,
        key: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        self.with(|notes| notes.insert(owned(owner, key), text.to_owned()));
        Box::pin(std::future::ready(Ok(())))
    }

    fn search<'a>(
        &'a self,
        owner: Option<&'a str>,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Note>, MemoryError>> {
        let owner = owner.unwrap_or_default();
        let found = self.with(|notes| {
            let mine = notes.iter().filter(|((of, _), text)| of == owner && text.contains(query));
            mine.take(limit).map(|((_, key), text)| Note { key: key.clone(), text: text.clone() }).collect()
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let lines = Arc::new(Lines::default());
    let notes = Arc::new(Notes::default());
    let model = ScriptedModel::new(vec![
        ScriptedReply::call("memory_write", r#"{"key": "colour", "text": "blue"}"#),
        ScriptedReply::call("memory_read", r#"{"key": "colour"}"#),
        ScriptedReply::text("Your colour is blue.").expect_text("blue"),
    ]);
    let host = Host::builder().build()?;
    let agent = host.agent(Arc::new(model)).actor("ann").memory(Arc::clone(&notes) as Arc<dyn Memory>);
    let mut agent = agent.recorder(Arc::clone(&lines) as Arc<dyn Recorder>).build()?;
    let outcome = agent.run("My colour is blue. What is my colour?").await?;
    agent.close().await?;
    let lines = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{} There are {} lines on record.", outcome.text(), lines.len());
    assert_eq!(outcome.text(), "Your colour is blue.");
    assert!(lines.first().is_some_and(|line| line.contains("session_started")));
    assert!(lines.last().is_some_and(|line| line.contains("session_finished")));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
