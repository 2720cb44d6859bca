//! Runs each example once, with its own assertions.

#[path = "../../examples/agent.rs"]
mod agent;
#[path = "../../examples/agent_driver.rs"]
mod agent_driver;
#[path = "../../examples/agent_executor.rs"]
mod agent_executor;
#[path = "../../examples/agent_guardrail.rs"]
mod agent_guardrail;
#[path = "../../examples/agent_hook.rs"]
mod agent_hook;
#[path = "../../examples/agent_model.rs"]
mod agent_model;
#[path = "../../examples/agent_store.rs"]
mod agent_store;

#[tokio::test]
async fn a_whole_agent_calculates_and_its_log_verifies() {
    agent::example().await.unwrap();
}

#[tokio::test]
async fn a_custom_driver_drives() {
    agent_driver::example().await.unwrap();
}

#[tokio::test]
async fn a_custom_executor_stands_before_the_pipeline() {
    agent_executor::example().await.unwrap();
}

#[tokio::test]
async fn a_rule_and_a_judge_stand_before_a_call() {
    agent_guardrail::example().await.unwrap();
}

#[tokio::test]
async fn hooks_block_and_redact() {
    agent_hook::example().await.unwrap();
}

#[tokio::test]
async fn a_closure_and_a_client_are_models() {
    agent_model::example().await.unwrap();
}

#[tokio::test]
async fn records_and_notes_go_where_they_are_sent() {
    agent_store::example().await.unwrap();
}
