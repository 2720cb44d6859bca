//! A session that is saved goes on from any of its entries.

use fumehood_core::saved_session::{SessionEntry, SessionStore};

use super::*;
use crate::batch::{BatchDriver, Entry, Event, ParserLimits, parse, to_entries, to_messages};
use crate::session::{Input, SavedSession, SavedSessionError};

/// A store in memory, which holds entries of one session and the records that came with them.
#[derive(Default)]
pub(super) struct Saved {
    entries: Mutex<Vec<SessionEntry>>,
    pub(super) records: Mutex<Vec<Record>>,
    /// The records of the pipeline.
    pub(super) recorder: Arc<Memory>,
    /// The number of the entry that cannot be stored.
    fails_at: Option<u64>,
}

impl SessionStore for Saved {
    fn append(&self, entry: SessionEntry, records: Vec<Record>) -> BoxFuture<'_, Result<(), RecordError>> {
        let mut entries = self.entries.lock().unwrap();
        let kept = entries.iter().find(|kept| kept.number == entry.number);
        let fails = self.fails_at == Some(entry.number) || kept.is_some_and(|kept| kept.content != entry.content);
        // Like the event log, it accepts an entry that is sent again.
        if !fails && kept.is_none() {
            entries.push(entry);
            self.records.lock().unwrap().extend(records);
        }
        Box::pin(std::future::ready(if fails { Err(RecordError("the disk is full".to_owned())) } else { Ok(()) }))
    }
}

impl Saved {
    pub(super) fn after(entries: &[SessionEntry]) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::new(entries.to_vec()), ..Self::default() })
    }

    pub(super) fn entries(&self) -> Vec<SessionEntry> {
        self.entries.lock().unwrap().clone()
    }

    pub(super) fn session(&self) -> Result<SavedSession, SavedSessionError> {
        SavedSession::from_entries(&self.entries())
    }
}

/// A model that makes two batches of two calls and answers with the number of results that it was told of. It depends
/// on the conversation only, like a real one.
fn model() -> Arc<dyn Model> {
    Arc::new(|request: &Request| {
        let last = request.messages.iter().rposition(|message| message.content.starts_with("task")).unwrap();
        let told = &request.messages[last..];
        let results = told.iter().filter(|message| message.tool_call_id.is_some()).count();
        Ok(match results {
            0 => calls(1, 2),
            2 => calls(3, 2),
            _ => Response::text(format!("{results} results")),
        })
    })
}

fn saved_agent(tools: &Arc<Tools>, saved: &Arc<Saved>) -> LoopBuilder {
    agent(model(), tools, &Arc::default()).save_to(saved.clone())
}

fn resumed(tools: &Arc<Tools>, saved: &Arc<Saved>) -> Agent {
    let session = saved.session().unwrap();
    saved_agent(tools, saved).resume(session).build().unwrap()
}

async fn finish(agent: &mut Agent) -> Option<String> {
    match agent.resume() {
        Some(iteration) => Some(iteration.finish().await.unwrap().text().to_owned()),
        None => None,
    }
}

#[tokio::test(start_paused = true)]
async fn session_goes_on_from_each_of_its_entries() {
    fn transcript(agent: &Agent) -> serde_json::Value {
        serde_json::to_value(agent.session().transcript()).unwrap()
    }

    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved::default());
    let mut whole = saved_agent(&tools, &saved).build().unwrap();
    assert_eq!(whole.run("task one").await.unwrap().text(), "4 results");
    assert_eq!(whole.run("task two").await.unwrap().text(), "4 results");
    let entries = saved.entries();
    assert_eq!(entries.len(), 1 + 2 * 6, "a head; for each message the message, three answers and two batches");
    assert_eq!(saved.session().unwrap().messages().collect::<Vec<_>>(), ["task one", "task two"]);

    for kept in 1..=entries.len() {
        let saved = Saved::after(&entries[..kept]);
        let tools = Arc::new(Tools::default());
        let mut agent = resumed(&tools, &saved);
        let is_pending = kept != 1 && kept != 7 && kept != 13;
        let ended = finish(&mut agent).await;
        assert_eq!(ended.as_deref(), is_pending.then_some("4 results"), "{kept} entries");
        let runs = agent.session().transcript().runs.len();
        assert_eq!(runs, usize::from(kept > 1) + usize::from(kept > 7), "{kept} entries");
        assert_eq!(agent.run("task three").await.unwrap().text(), "4 results", "{kept} entries");
        // What was appended can be read again, and is the same session.
        let again = resumed(&tools, &saved);
        assert_eq!(transcript(&again), transcript(&agent), "{kept} entries");
        assert_eq!(again.session().budget_usage(), agent.session().budget_usage(), "{kept} entries");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_under_way_are_interrupted_unless_they_may_be_repeated() {
    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved::default());
    saved_agent(&tools, &saved).build().unwrap().run("task").await.unwrap();
    // The head, the message, and the answer with the first two calls.
    let entries = &saved.entries()[..3];

    let tools = Arc::new(Tools::default());
    let saved = Saved::after(entries);
    let mut agent = resumed(&tools, &saved);
    assert_eq!(finish(&mut agent).await.as_deref(), Some("4 results"));
    let run = agent.session().transcript().runs[0].clone();
    for execution in run.steps[0].calls() {
        assert_eq!((execution.status, execution.is_blocked()), (Status::HandlerError, false));
        assert!(execution.error_message().starts_with("interrupted: "), "{}", execution.error_message());
    }
    assert_eq!(tools.scopes.lock().unwrap().len(), 1, "only the second batch was run");

    let tools = Arc::new(Tools::default());
    let saved = Saved::after(entries);
    let builder = saved_agent(&tools, &saved).repeat_interrupted(Arc::new(|call| call.id == "c2"));
    let mut agent = builder.resume(saved.session().unwrap()).build().unwrap();
    assert_eq!(finish(&mut agent).await.as_deref(), Some("4 results"));
    let run = agent.session().transcript().runs[0].clone();
    let statuses: Vec<Status> = run.steps[0].calls().map(|execution| execution.status).collect();
    assert_eq!(statuses, [Status::HandlerError, Status::Ok]);
    assert_eq!(tools.scopes.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn limits_count_on_and_the_time_away_does_not() {
    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved::default());
    saved_agent(&tools, &saved).build().unwrap().run("task").await.unwrap();
    let entries = &saved.entries()[..4];

    let saved = Saved::after(entries);
    let later = || Timestamp(1_000).saturating_add(Duration::from_secs(86_400));
    let builder = saved_agent(&tools, &saved).clock(Arc::new(later)).resume(saved.session().unwrap());
    let mut agent = builder.build().unwrap();
    let calls = agent.session().budget_usage().calls;
    let turns = agent.session().budget_usage().turns;
    assert_eq!((calls, turns), (2, 2), "the second request is under way");
    assert_eq!(finish(&mut agent).await.as_deref(), Some("4 results"), "a day is longer than the limit of 10 minutes");
    assert_eq!(agent.session().budget_usage().calls, 4);
}

#[tokio::test(start_paused = true)]
async fn records_of_a_resumed_session_have_ids_of_their_own() {
    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved::default());
    let memory = Arc::new(Memory::default());
    let mut first = agent(model(), &tools, &memory).save_to(saved.clone()).build().unwrap();
    first.run("task").await.unwrap();
    let session = SavedSession::from_entries(&saved.entries()[..3]).unwrap();
    let cut = Saved::after(&saved.entries()[..3]);
    let mut second = agent(model(), &tools, &memory).save_to(cut.clone()).resume(session).build().unwrap();
    finish(&mut second).await.unwrap();
    let mut ids: Vec<String> = memory.records.lock().unwrap().iter().map(|record| record.id.clone()).collect();
    ids.extend([&saved, &cut].iter().flat_map(|saved| saved.records.lock().unwrap().clone()).map(|record| record.id));
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
    let opening = cut.records.lock().unwrap()[0].clone();
    assert_eq!((opening.kind, opening.status.as_deref()), (RecordKind::SessionStarted, Some("resumed")));
}

#[tokio::test(start_paused = true)]
async fn run_that_cannot_be_saved_ends_and_leaves_a_session_without_a_gap() {
    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved { fails_at: Some(3), ..Saved::default() });
    let mut agent = saved_agent(&tools, &saved).build().unwrap();
    assert!(matches!(agent.run("task").await, Err(RunError::Record(_))));
    assert!(matches!(agent.run("task").await, Err(RunError::Record(_))), "it is not run without being saved");
    assert_eq!(saved.entries().len(), 3);
    assert_eq!(finish(&mut resumed(&tools, &Saved::after(&saved.entries()))).await.as_deref(), Some("4 results"));
}

#[tokio::test(start_paused = true)]
async fn dropped_run_is_saved_as_cancelled() {
    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved::default());
    let mut agent = saved_agent(&tools, &saved).build().unwrap();
    let mut iteration = agent.iterate("task");
    iteration.next().await.unwrap();
    drop(iteration);
    drop(agent);
    let mut agent = resumed(&tools, &Saved::after(&saved.entries()));
    assert_eq!(finish(&mut agent).await, None);
    assert_eq!(agent.session().transcript().runs[0].ending, Some(Ending::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn entries_that_do_not_fit_are_refused_in_words() {
    fn read(
        entries: &[SessionEntry],
        change: &dyn Fn(&mut Vec<SessionEntry>),
    ) -> Result<SavedSession, SavedSessionError> {
        let mut changed = entries.to_vec();
        change(&mut changed);
        SavedSession::from_entries(&changed)
    }

    fn refusal(builder: LoopBuilder) -> SavedSessionError {
        match builder.build().unwrap_err() {
            BuildError::Resume { session, source } => {
                assert_eq!(session, "s1");
                source
            }
            other => panic!("{other}"),
        }
    }

    let tools = Arc::new(Tools::default());
    let saved = Arc::new(Saved::default());
    saved_agent(&tools, &saved).build().unwrap().run("task").await.unwrap();
    let entries = saved.entries();
    assert_eq!(read(&entries, &|entries| entries.clear()).unwrap_err(), SavedSessionError::Missing);
    let error = |change: &dyn Fn(&mut Vec<SessionEntry>)| read(&entries, change).unwrap_err().to_string();
    assert!(error(&|entries| drop(entries.remove(2))).contains("entry 2 cannot be read: it is missing"));
    let newer = |entries: &mut Vec<SessionEntry>| {
        entries[0].content = entries[0].content.replace("\"version\":1", "\"version\":2");
    };
    assert_eq!(read(&entries, &newer).unwrap_err(), SavedSessionError::Version { found: 2 });
    assert!(error(&|entries| entries[4].content.truncate(10)).contains("entry 4 cannot be read"));

    let misplaced = read(&entries, &|entries| {
        let input = serde_json::to_string(&serde_json::json!({ "input": Input::Cancelled })).unwrap();
        entries[1].content = input;
    });
    let source = refusal(saved_agent(&tools, &saved).resume(misplaced.unwrap()));
    assert!(matches!(source, SavedSessionError::Inconsistent(_)), "{source}");
    let driver = crate::drivers::native::NativeDriver::default();
    let source = refusal(saved_agent(&tools, &saved).driver(driver).resume(saved.session().unwrap()));
    assert_eq!(source, SavedSessionError::Driver { found: "custom".into(), expected: "native".into() });
    let scope = Scope { actor: Some("ada".into()), ..Scope::default() };
    let source = refusal(saved_agent(&tools, &saved).scope(scope).resume(saved.session().unwrap()));
    assert_eq!(source, SavedSessionError::Actor { found: "nobody".into(), expected: "`ada`".into() });
    let config = SessionConfig { id: "no name".to_owned(), ..SessionConfig::default() };
    let unnamed = saved_agent(&tools, &saved).config(config).build().err();
    assert_eq!(unnamed, Some(BuildError::SessionId("no name".to_owned())));
}

const BATCHES: [&str; 3] = [
    "<think>one</think>\n\n  Looking. <execute>[{\"name\": \"add\", \"args\": {\"x\": 1}},\n {\"name\": \"add\", \"args\": {}}]</execute><end>",
    "<execute>[{\"name\": \"add\", \"args\": {\"x\": \"</execute>\"}}]</execute> more",
    "<think>done</think>It is 3.<end>",
];

fn batch_agent(saved: &Arc<Saved>, from: usize) -> LoopBuilder {
    let replies = BATCHES[from..].iter().map(|&reply| Response::text(reply)).collect();
    let builder = agent(script(SOON, replies), &Arc::default(), &Arc::default());
    builder.driver(BatchDriver::new()).save_to(saved.clone())
}

#[tokio::test(start_paused = true)]
async fn saved_batches_are_rebuilt_from_one_entry_for_each_call() {
    fn output(agent: &Agent) -> Vec<(fumehood_core::chat::Role, String)> {
        let steps = agent.session().transcript().runs[0].steps.clone();
        steps.iter().flat_map(|step| step.output.clone()).map(|it| (it.role, it.content)).collect::<Vec<_>>()
    }

    let saved = Arc::new(Saved::default());
    let mut live = batch_agent(&saved, 0).build().unwrap();
    assert_eq!(live.run("task").await.unwrap().text(), "It is 3.");
    let stored = saved.session().unwrap().conversation();
    let kinds: Vec<&str> = stored
        .iter()
        .map(|entry| match entry {
            Entry::User(_) => "user",
            Entry::Think(_) => "think",
            Entry::Respond(_) => "respond",
            Entry::Call(_) => "call",
            Entry::Result(_) => "result",
        })
        .collect();
    let expected = "user think respond call call result result call result think respond";
    assert_eq!(kinds.join(" "), expected, "{stored:?}");
    // Parsing what is rebuilt gives what is stored: three messages of the model, of which two have one batch each.
    let messages = to_messages(&stored);
    let replies: Vec<_> =
        messages.iter().filter(|message| message.role == fumehood_core::chat::Role::Assistant).collect();
    let parsed: Vec<Vec<Event>> = replies.iter().map(|it| parse(&it.content, ParserLimits::default())).collect();
    let batches = parsed.iter().map(|events| events.iter().filter(|event| **event == Event::Execute).count());
    assert_eq!(batches.collect::<Vec<_>>(), [1, 1, 0]);
    let again: Vec<Entry> = parsed.into_iter().flat_map(to_entries).collect();
    let said = stored.iter().filter(|entry| !matches!(entry, Entry::User(_) | Entry::Result(_)));
    assert!(again.iter().eq(said), "{again:?}");
    // The session that goes on has what the model was told, to the byte.
    for kept in 2..=saved.entries().len() {
        let saved = Saved::after(&saved.entries()[..kept]);
        let from = kept.saturating_sub(1) / 2;
        let session = saved.session().unwrap();
        let builder = batch_agent(&saved, from.min(2)).repeat_interrupted(Arc::new(|_| true)).resume(session);
        let mut agent = builder.build().unwrap();
        if let Some(run) = agent.resume() {
            assert_eq!(run.finish().await.unwrap().text(), "It is 3.", "{kept} entries");
        }
        assert_eq!(output(&agent), output(&live), "{kept} entries");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_said_is_saved_once() {
    let saved = Arc::new(Saved::default());
    batch_agent(&saved, 0).build().unwrap().run("task").await.unwrap();
    let entries = saved.entries();
    assert_eq!(entries.len(), 7, "a head, the message, three replies and two batches");
    let text: String = entries.iter().map(|entry| entry.content.as_str()).collect();
    // Marks of the protocol are not kept, and neither are pieces that the model streamed.
    for mark in ["<execute>\\n[", "<execute>[", "</execute><end>", "<end>", "<think>", "so far"] {
        assert!(!text.contains(mark), "{mark} is in {text}");
    }
    for said in ["Looking. ", "It is 3.", "\"think\":\"one\""] {
        assert_eq!(text.matches(said).count(), 1, "{said} in {text}");
    }
    // What cannot be kept ends the run.
    for fails_at in 1..7 {
        let saved = Arc::new(Saved { fails_at: Some(fails_at), ..Saved::default() });
        let failed = batch_agent(&saved, 0).build().unwrap().run("task").await;
        assert!(matches!(failed, Err(RunError::Record(_))), "{fails_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn reply_that_is_asked_about_again_is_saved_as_it_is() {
    fn transcript(agent: &Agent) -> serde_json::Value {
        serde_json::to_value(agent.session().transcript()).unwrap()
    }

    fn build(saved: &Arc<Saved>, replies: Vec<Response>) -> LoopBuilder {
        agent(script(SOON, replies), &Arc::default(), &Arc::default()).driver(BatchDriver::new()).save_to(saved.clone())
    }

    fn replies() -> Vec<Response> {
        vec![Response::text("<execute>[{]</execute>"), Response::text("<execute>[]</execute>"), Response::text("ok")]
    }

    let saved = Arc::new(Saved::default());
    let mut live = build(&saved, replies()).build().unwrap();
    assert_eq!(live.run("task").await.unwrap().text(), "ok");
    let again = build(&saved, Vec::new()).resume(saved.session().unwrap()).build().unwrap();
    assert_eq!(transcript(&again), transcript(&live));
}

fn suspend_soon(agent: &Agent) {
    let handle = agent.cancel_handle();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.suspend();
    });
}

#[tokio::test(start_paused = true)]
async fn suspended_run_goes_on_here_and_elsewhere() {
    let hangs = Arc::new(Tools { takes: Duration::from_secs(100), ..Tools::default() });
    let stalls: [(Arc<dyn Model>, Arc<Tools>); 2] = [(Arc::new(Stalls), Arc::default()), (model(), hangs)];
    for (stalled, tools) in stalls {
        let saved = Arc::new(Saved::default());
        let memory = Arc::new(Memory::default());
        let mut stopped = agent(stalled, &tools, &memory).save_to(saved.clone()).build().unwrap();
        suspend_soon(&stopped);
        let outcome = stopped.run("task").await.unwrap();
        assert_eq!((&outcome.ending, outcome.text()), (&Ending::Suspended, ""));
        let entries = saved.entries().len();
        // It goes on in the same process, and is suspended again.
        suspend_soon(&stopped);
        let outcome = stopped.resume().unwrap().finish().await.unwrap();
        assert_eq!(outcome.ending, Ending::Suspended);
        assert!(saved.entries().len() > entries);
        stopped.close().await.unwrap();
        let last = memory.records.lock().unwrap().last().and_then(|record| record.status.clone());
        assert_eq!(last.as_deref(), Some("suspended"));

        let quick = Arc::new(Tools::default());
        let mut agent = resumed(&quick, &saved);
        assert_eq!(finish(&mut agent).await.as_deref(), Some("4 results"));
    }
}

#[tokio::test(start_paused = true)]
async fn run_that_is_not_saved_is_cancelled_where_it_would_be_suspended() {
    let mut agent = agent(Arc::new(Stalls), &Arc::default(), &Arc::default()).build().unwrap();
    suspend_soon(&agent);
    assert_eq!(agent.run("one").await.unwrap().ending, Ending::Cancelled);
}
