//! The service that `fumehood new --agent` makes: it compiles, answers, and keeps to its policy.

#[allow(dead_code, reason = "the program itself is not started here")]
#[path = "../templates/agent/main.rs"]
mod service;

#[tokio::test]
async fn the_scaffolded_service_runs() {
    let host = fumehood::Host::builder().build().unwrap();
    let mut output = Vec::new();
    let questions = [Ok("My printer is on fire!".to_owned())];
    service::serve(&host, questions.into_iter(), &mut output).await.unwrap();
    // The script of the template fails if the policy lets an urgent ticket pass.
    assert_eq!(String::from_utf8(output).unwrap(), "I opened ticket 1.\n");
    host.shutdown(std::time::Duration::from_secs(1)).await;
}
