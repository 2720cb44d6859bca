//! Calls that wait for a person: answered from elsewhere, in the same program, or never.

use std::sync::atomic::Ordering;

use fumehood_core::call::CallContext;
use fumehood_core::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood_core::policy::call::{Answer, Approver, Decision, DeferringApprover, PolicyFn, Question};
use fumehood_core::tool::ValidatedCall;
use schemars::JsonSchema;
use serde::Deserialize;

use super::saved::Saved;
use super::*;
use crate::agent::{AnswerCallError, Outcome, answer_saved};
use crate::allowlist::{Allowlists, DefaultAllowlist};
use crate::deferred::GivenAnswer;
use crate::pipeline::PipelineBuilder;
use crate::registry::{BuiltIn, BuiltInError, BuiltIns};
use crate::session::{AnswerError, SavedSession};

#[derive(Deserialize, JsonSchema)]
struct Amount {
    euros: u32,
}

/// Tools that count their runs: `pay`, about which somebody has to be asked, and `look`.
#[derive(Default, Clone)]
pub(super) struct Shop {
    pub(super) paid: Arc<AtomicUsize>,
    pub(super) looked: Arc<AtomicUsize>,
    /// The description of `pay`.
    pub(super) about: Option<&'static str>,
    /// True if nobody is asked about anything.
    pub(super) is_lax: bool,
}

impl Shop {
    pub(super) fn pipeline(&self) -> PipelineBuilder {
        let paid = Arc::clone(&self.paid);
        let looked = Arc::clone(&self.looked);
        let tools = BuiltIns::default();
        let pay = move |amount: Amount, _: CallContext| {
            paid.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, BuiltInError>(format!("paid {}", amount.euros)) }
        };
        tools.register(BuiltIn::new("pay", self.about.unwrap_or("Pays."), pay).unwrap()).unwrap();
        let look = move |_: Amount, _: CallContext| {
            looked.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, BuiltInError>("seen") }
        };
        tools.register(BuiltIn::new("look", "Looks.", look).unwrap()).unwrap();
        let is_lax = self.is_lax;
        let asks = move |call: &ValidatedCall, _: &CallContext| match call.tool().full_name() {
            "pay" if !is_lax => Decision::ask("may it pay?"),
            _ => Decision::Allow,
        };
        PipelineBuilder::default()
            .built_ins(Arc::new(tools))
            .allowlists(Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() })
            .rule(Arc::new(PolicyFn::new("ask", asks)))
    }

    fn agent(&self, saved: &Arc<Saved>) -> LoopBuilder {
        self.agent_with(saved, Arc::new(DeferringApprover))
    }

    fn agent_with(&self, saved: &Arc<Saved>, approver: Arc<dyn Approver>) -> LoopBuilder {
        let pipeline = self.pipeline().approver(approver).build().unwrap();
        agent(model(), &Arc::default(), &Arc::default()).executor(Arc::new(pipeline)).save_to(saved.clone())
    }

    pub(super) fn paid(&self) -> usize {
        self.paid.load(Ordering::SeqCst)
    }
}

fn intent(id: &str, name: &str, euros: u32) -> ToolIntent {
    ToolIntent { id: id.to_owned(), name: name.to_owned(), arguments: format!(r#"{{"euros":{euros}}}"#) }
}

/// A model that looks once and pays twice in one batch, and then repeats what it was told.
pub(super) fn model() -> Arc<dyn Model> {
    Arc::new(|request: &Request| {
        let told: Vec<&str> = request
            .messages
            .iter()
            .filter(|message| message.tool_call_id.is_some())
            .map(|message| message.content.as_str())
            .collect();
        Ok(match told.len() {
            0 => Response::calls(vec![intent("c1", "look", 0), intent("c2", "pay", 5), intent("c3", "pay", 7)]),
            _ => Response::text(told.join(" | ")),
        })
    })
}

pub(super) fn yes() -> GivenAnswer {
    GivenAnswer { yes: true, reason: String::new(), by: Some("ada".to_owned()) }
}

pub(super) fn no() -> GivenAnswer {
    GivenAnswer { yes: false, reason: "too much".to_owned(), by: None }
}

/// Answers from another program.
pub(super) async fn answer(saved: &Saved, id: &str, given: GivenAnswer) -> Result<(), AnswerCallError> {
    let restored = saved.session().unwrap().restore(Box::new(Plain::default()), None).unwrap();
    answer_saved(saved, restored, id, given, Timestamp(9_000)).await
}

async fn resume(shop: &Shop, saved: &Arc<Saved>) -> Outcome {
    let mut agent = shop.agent(saved).resume(saved.session().unwrap()).build().unwrap();
    agent.resume().unwrap().finish().await.unwrap()
}

pub(super) fn waiting(outcome: &Outcome) -> Vec<&str> {
    match &outcome.ending {
        Ending::WaitingForApproval { waiting } => waiting.iter().map(|call| call.id.as_str()).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_and_go_on_with_the_answers() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    let mut first = shop.agent(&saved).build().unwrap();
    let outcome = first.run("task").await.unwrap();
    assert_eq!(waiting(&outcome), ["s1:1", "s1:2"]);
    let Ending::WaitingForApproval { waiting: calls } = &outcome.ending else { panic!("{outcome:?}") };
    assert_eq!(
        (calls[0].tool.as_str(), calls[0].question.as_str(), calls[0].from.as_str()),
        ("pay", "may it pay?", "ask")
    );
    assert_eq!(calls[0].arguments, Some(serde_json::json!({"euros": 5})));
    assert_eq!(first.run("more").await.err(), Some(RunError::Waiting));
    drop(first);

    // Nothing happens while nobody answered, and nothing is saved.
    let entries = saved.entries().len();
    assert_eq!(waiting(&resume(&shop, &saved).await), ["s1:1", "s1:2"]);
    assert_eq!((saved.entries().len(), shop.paid()), (entries, 0));

    // The call that is answered goes on; the other one waits under the same id.
    answer(&saved, "s1:1", yes()).await.unwrap();
    assert_eq!(shop.paid(), 0, "an answer runs nothing");
    assert_eq!(waiting(&resume(&shop, &saved).await), ["s1:2"]);
    assert_eq!(shop.paid(), 1);
    answer(&saved, "s1:2", no()).await.unwrap();
    let outcome = resume(&shop, &saved).await;
    let text = outcome.text();
    assert!(text.contains("paid 5") && text.contains("seen") && text.contains("too much"), "{text}");
    assert_eq!((shop.paid(), shop.looked.load(Ordering::SeqCst)), (1, 1));
    let records = saved.records.lock().unwrap();
    let verdict = records.iter().find(|record| record.body["question"] == "s1:1").unwrap();
    assert_eq!((verdict.status.as_deref(), &verdict.body["name"]), (Some("allow"), &"ada".into()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_rule_is_none_about_flows() {
    fn labels(source: Option<FlowLabel>, sink: Option<FlowLabel>) -> FlowLabels {
        FlowLabels { source, sink }
    }

    fn agent(shop: &Shop, saved: &Arc<Saved>) -> LoopBuilder {
        let policy = FlowPolicy::new()
            .label_tool("look", labels(Some(FlowLabel::Private), None))
            .label_tool("pay", labels(None, Some(FlowLabel::Public)));
        let pipeline = shop.pipeline().flows(policy).approver(Arc::new(DeferringApprover)).build().unwrap();
        shop.agent(saved).executor(Arc::new(pipeline))
    }

    async fn resume(shop: &Shop, saved: &Arc<Saved>) -> Outcome {
        let mut agent = agent(shop, saved).resume(saved.session().unwrap()).build().unwrap();
        agent.resume().unwrap().finish().await.unwrap()
    }

    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    agent(&shop, &saved).build().unwrap().run("task").await.unwrap();
    answer(&saved, "s1:1", yes()).await.unwrap();
    let Ending::WaitingForApproval { waiting: calls } = resume(&shop, &saved).await.ending else { panic!() };
    let asked = calls.iter().find(|call| call.from == "flows").unwrap();
    assert!(asked.question.contains("private data may become public"), "{}", asked.question);
    assert_eq!(shop.paid(), 0);
    answer(&saved, &asked.id, yes()).await.unwrap();
    resume(&shop, &saved).await;
    assert_eq!(shop.paid(), 1, "both answers hold, each for its question");
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_once() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    shop.agent(&saved).build().unwrap().run("task").await.unwrap();
    let stale =
        || SavedSession::from_entries(&saved.entries()).unwrap().restore(Box::new(Plain::default()), None).unwrap();
    let one = stale();
    let other = stale();
    answer_saved(&*saved, one, "s1:1", yes(), Timestamp(9_000)).await.unwrap();
    let error = answer_saved(&*saved, other, "s1:1", no(), Timestamp(9_000)).await.unwrap_err();
    assert!(matches!(error, AnswerCallError::Record(_)), "{error:?}");
    let error = answer(&saved, "s1:1", no()).await.unwrap_err();
    let answered = AnswerError::Answered { id: "s1:1".into(), yes: true, at_ms: 9_000 };
    assert_eq!(error, AnswerCallError::Answer(answered));
    let error = answer(&saved, "s1:9", no()).await.unwrap_err();
    assert_eq!(error, AnswerCallError::Answer(AnswerError::Unknown("s1:9".into())));

    let mut agent = shop.agent(&saved).resume(saved.session().unwrap()).build().unwrap();
    agent.resume().unwrap().finish().await.unwrap();
    drop(agent);
    assert_eq!(shop.paid(), 1);
    // Two programs that resume at once: the entry of the second is refused before anything runs.
    answer(&saved, "s1:2", yes()).await.unwrap();
    let mut agents: Vec<Agent> =
        (0..2).map(|_| shop.agent(&saved).resume(saved.session().unwrap()).build().unwrap()).collect();
    assert!(agents[0].resume().unwrap().finish().await.is_ok());
    assert!(matches!(agents[1].resume().unwrap().finish().await, Err(RunError::Record(_))));
    assert_eq!(shop.paid(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_at_most_once_from_each_entry() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    shop.agent(&saved).build().unwrap().run("task").await.unwrap();
    answer(&saved, "s1:1", yes()).await.unwrap();
    answer(&saved, "s1:2", no()).await.unwrap();
    resume(&shop, &saved).await;
    let entries = saved.entries();
    let of = |kind: &str| entries.iter().position(|entry| entry.content.contains(kind)).unwrap();
    let asked = of("\"deferred\":[");
    let taken = of("calls_resumed");
    let ran = entries.len() - 2;
    assert_eq!((asked, taken, ran), (3, 6, 7), "head, message, answer, batch; two answers; resumed, batch, answer");

    for kept in 1..=entries.len() {
        let shop = Shop::default();
        let saved = Saved::after(&entries[..kept]);
        let mut agent = shop.agent(&saved).resume(saved.session().unwrap()).build().unwrap();
        let Some(iteration) = agent.resume() else {
            assert!(kept == 1 || kept == entries.len(), "{kept} entries");
            continue;
        };
        let outcome = iteration.finish().await.unwrap();
        let text = outcome.text().to_owned();
        drop(agent);
        match kept - 1 {
            // The batch had begun: all of it is told as interrupted.
            2 => assert_eq!((text.matches("interrupted").count(), shop.paid()), (3, 0)),
            at if at < asked => assert_eq!((waiting(&outcome).len(), shop.paid()), (2, 0), "{kept} entries"),
            3 => assert_eq!((waiting(&outcome), shop.paid()), (vec!["s1:1", "s1:2"], 0)),
            4 => assert_eq!((waiting(&outcome), shop.paid()), (vec!["s1:2"], 1)),
            5 => assert!(text.contains("paid 5") && text.contains("too much") && shop.paid() == 1, "{text}"),
            // It may have run: it is not run again. The refused one is refused, whenever it was stopped.
            6 => {
                assert!(text.contains("interrupted") && text.contains("too much"), "{text}");
                assert_eq!(shop.paid(), 0);
            }
            _ => assert!(text.contains("paid 5") && shop.paid() == 0, "{kept} entries: {text}"),
        }
        let again = saved.session().unwrap().restore(Box::new(Plain::default()), None);
        assert!(again.is_ok(), "{kept} entries: what was appended can be read");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_changed_is_asked_about_again() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    shop.agent(&saved).build().unwrap().run("task").await.unwrap();
    answer(&saved, "s1:1", yes()).await.unwrap();
    answer(&saved, "s1:2", yes()).await.unwrap();
    let changed = Shop { about: Some("Pays twice."), ..shop.clone() };
    assert_eq!(waiting(&resume(&changed, &saved).await), ["s1:3", "s1:4"]);
    assert_eq!(shop.paid(), 0, "what was approved was another tool");
    let error = answer(&saved, "s1:1", yes()).await.unwrap_err();
    assert!(error.to_string().contains("already answered with yes"), "{error}");
    for id in ["s1:3", "s1:4"] {
        answer(&saved, id, yes()).await.unwrap();
    }
    assert!(resume(&changed, &saved).await.text().contains("paid 7"));
    assert_eq!(shop.paid(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_stands_where_nobody_is_asked_any_more() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    shop.agent(&saved).build().unwrap().run("task").await.unwrap();
    answer(&saved, "s1:1", yes()).await.unwrap();
    answer(&saved, "s1:2", no()).await.unwrap();
    let lax = Shop { is_lax: true, ..shop.clone() };
    let text = resume(&lax, &saved).await.text().to_owned();
    assert!(text.contains("paid 5") && text.contains("too much"), "{text}");
    assert_eq!(shop.paid(), 1);
}

/// A person at a terminal, who says yes.
struct PresentPerson;

impl Approver for PresentPerson {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Allow))
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_at_hand_is_asked_about_calls_that_wait() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    shop.agent(&saved).build().unwrap().run("task").await.unwrap();
    answer(&saved, "s1:1", no()).await.unwrap();
    let mut agent = shop.agent_with(&saved, Arc::new(PresentPerson)).resume(saved.session().unwrap()).build().unwrap();
    let outcome = agent.resume().unwrap().finish().await.unwrap();
    assert!(outcome.text().contains("too much") && outcome.text().contains("paid 7"), "{}", outcome.text());
    assert_eq!(shop.paid(), 1);
    drop(agent);
    let error = answer(&saved, "s1:2", yes()).await.unwrap_err();
    assert_eq!(error, AnswerCallError::Answer(AnswerError::Withdrawn("s1:2".into())));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_saved_waits_in_memory() {
    let shop = Shop::default();
    let pipeline = shop.pipeline().approver(Arc::new(DeferringApprover)).build().unwrap();
    let mut agent = agent(model(), &Arc::default(), &Arc::default()).executor(Arc::new(pipeline)).build().unwrap();
    let outcome = agent.run("task").await.unwrap();
    assert_eq!(waiting(&outcome), ["s1:1", "s1:2"]);
    tokio::time::advance(Duration::from_secs(86_400)).await;
    agent.answer_call("s1:1", yes()).await.unwrap();
    agent.answer_call("s1:2", yes()).await.unwrap();
    assert!(agent.answer_call("s1:2", no()).await.is_err());
    let outcome = agent.resume().unwrap().finish().await.unwrap();
    assert!(outcome.text().contains("paid 7"), "a day of waiting counts towards no limit: {outcome:?}");
    assert_eq!((shop.paid(), agent.session().budget_usage().calls), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_run_can_be_cancelled() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    let mut agent = shop.agent(&saved).build().unwrap();
    agent.run("task").await.unwrap();
    let mut session = saved.session().unwrap().restore(Box::new(Plain::default()), None).unwrap().session;
    let action = session.step(crate::session::Input::Cancelled, Timestamp(9_000)).unwrap();
    assert_eq!(action, crate::session::Action::Finish(Ending::Cancelled));
    let run = session.transcript().runs[0].clone();
    let statuses: Vec<Status> = run.executions().map(|execution| execution.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::RejectedDenied, Status::RejectedDenied]);
    assert_eq!(session.check_answer("s1:1").err(), Some(AnswerError::Withdrawn("s1:1".into())));
}
