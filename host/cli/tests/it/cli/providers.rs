//! The commands of docs/agents.md with a model, against services that refuse the same requests as the real ones.

use serde_json::Value;

use super::service::{RequestLog, Service, StandIn};
use super::workbench::{CommandOutput, Workbench};

const PAGE: &str = include_str!("../../../../../docs/agents.md");

const TASK: &str = "What is (3 + 5) * 2?";

/// Splits a line for a shell into words.
fn shell_words(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    let parts = line.split('"').enumerate();
    parts.fold(Vec::new(), |mut words, (at, part)| {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
        words
    })
}

/// Returns the commands of the page that use this provider.
fn examples(provider: &str) -> Vec<Vec<String>> {
    let asks = format!("--model {provider}:");
    let lines = PAGE.lines().filter(|line| line.starts_with("fumehood ") && line.contains(&asks));
    lines.map(|line| shell_words(line).split_off(1)).collect()
}

/// Runs a command with a key in the environment and a task on standard input.
fn ran(arguments: &[&str], stand_in: &StandIn) -> CommandOutput {
    let bench = Workbench::new();
    let dist = bench.path("example-tools/dist");
    std::fs::create_dir_all(&dist).unwrap();
    bench.example("calculator");
    std::fs::rename(bench.path("calculator.wasm"), dist.join("calculator.wasm")).unwrap();
    let mut command = bench.command(arguments);
    for name in ["OPENAI", "ANTHROPIC"] {
        command.env(format!("{name}_API_KEY"), "sk-test").env(format!("{name}_BASE_URL"), &stand_in.url);
    }
    command.env("OLLAMA_HOST", &stand_in.url);
    Workbench::run_command_with_input(command, format!("{TASK}\n"))
}

/// Runs the task of the sum with this model.
fn sum(service: Service, model: &str, more: &[&str]) -> (CommandOutput, RequestLog) {
    let stand_in = StandIn::of(service);
    let usual = ["run", TASK, "--tool", "example-tools/dist/calculator.wasm", "--model", model];
    let ran = ran(&[&usual, more].concat(), &stand_in);
    (ran, stand_in.seen())
}

fn solves(ran: &CommandOutput) {
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 16.\n"), "{ran:?}");
}

#[test]
fn the_examples_of_the_page_are_refused_nothing() {
    for (provider, service) in
        [("openai", Service::OpenAi), ("anthropic", Service::Anthropic), ("ollama", Service::Ollama)]
    {
        let examples = examples(provider);
        assert_ne!(examples.len(), 0, "docs/agents.md has no example with {provider}");
        for example in examples {
            let stand_in = StandIn::of(service);
            let arguments: Vec<&str> = example.iter().map(String::as_str).collect();
            solves(&ran(&arguments, &stand_in));
            let RequestLog { answered, refused } = stand_in.seen();
            assert_eq!((answered.len(), refused.len()), (3, 0), "{provider}: {refused:?}");
            for body in answered {
                assert_eq!(body.get("temperature"), None, "{provider}");
                assert_eq!(body.get("max_tokens").is_some(), provider == "anthropic", "{provider}");
            }
        }
    }
}

fn assert_accepted(service: Service, model: &str, more: &[&str]) -> Vec<Value> {
    let (ran, seen) = sum(service, model, more);
    solves(&ran);
    assert_eq!((seen.answered.len(), seen.refused.len()), (3, 0), "{model} {more:?}: {:?}", seen.refused);
    seen.answered
}

#[test]
fn models_that_reason_are_refused_nothing_either() {
    assert_accepted(Service::OpenAi, "openai:gpt-5-mini", &[]);
    assert_accepted(Service::OpenAi, "openai:o3", &["--reasoning-effort", "low", "--max-tokens", "20000"]);
    // The signed thoughts of the model are sent back to it.
    let asked = assert_accepted(Service::Anthropic, "anthropic:claude-sonnet-4-5", &["--reasoning-effort", "low"]);
    assert!(asked[2]["messages"].to_string().contains("sealed"), "{}", asked[2]);
}

fn assert_left_out(service: Service, model: &str, flag: &str, value: &str, parameter: &str) {
    let (ran, seen) = sum(service, model, &[flag, value]);
    solves(&ran);
    assert_eq!((seen.answered.len(), seen.refused.len()), (3, 1), "{model} {flag}: {:?}", seen.refused);
    let told = format!("without `{parameter}`");
    assert_eq!(ran.stderr.matches(&told).count(), 1, "{told}: {ran:?}");
}

#[test]
fn a_setting_that_the_model_refuses_is_left_out_with_a_warning() {
    assert_left_out(Service::OpenAi, "openai:gpt-5", "--temperature", "0.7", "temperature");
    assert_left_out(Service::OpenAi, "openai:gpt-4o-mini", "--max-tokens", "20000", "max_tokens");
    assert_left_out(Service::OpenAi, "openai:gpt-4o-mini", "--reasoning-effort", "high", "reasoning_effort");
    assert_left_out(Service::Anthropic, "anthropic:claude-sonnet-4-5", "--max-tokens", "99999", "max_tokens");
    assert_left_out(Service::Anthropic, "anthropic:claude-sonnet-4-5", "--temperature", "1.5", "temperature");
    assert_left_out(Service::Ollama, "ollama:llama3.2", "--reasoning-effort", "high", "reasoning_effort");
}

#[test]
fn after_the_last_call_the_tools_are_still_described() {
    for (service, model) in
        [(Service::OpenAi, "openai:gpt-4o-mini"), (Service::Anthropic, "anthropic:claude-sonnet-4-5")]
    {
        let (ran, seen) = sum(service, model, &["--max-calls", "1"]);
        assert_eq!((ran.stdout.as_str(), seen.refused.len()), ("I may not go on.\n", 0), "{ran:?} {:?}", seen.refused);
        let last = seen.answered.last().unwrap();
        assert!(last["tools"].to_string().contains("calculator__add"), "{last}");
        let choice = last["tool_choice"].as_str().or_else(|| last["tool_choice"]["type"].as_str());
        assert_eq!(choice, Some("none"), "{last}");
    }
    let (ran, seen) = sum(Service::Ollama, "ollama:llama3.2", &["--max-calls", "1"]);
    assert_eq!((ran.stdout.as_str(), seen.refused.len()), ("I may not go on.\n", 0), "{ran:?}");
    assert_eq!(seen.answered.last().and_then(|body| body.get("tools")), None::<&Value>);
}

#[test]
fn a_missing_model_and_one_without_tools_are_distinguished() {
    let (ran, seen) = sum(Service::Ollama, "ollama:gemma2", &[]);
    assert_eq!((ran.stdout.as_str(), seen.refused.len()), ("I may not go on.\n", 1), "{ran:?}");
    assert!(ran.stderr.contains("repeated without tools, because the model does not support tools"), "{ran:?}");
    let (ran, _) = sum(Service::Ollama, "ollama:nothing", &[]);
    assert!(ran.code == 8 && ran.stderr.contains("model 'nothing' not found"), "{ran:?}");
    assert!(ran.stderr.contains("choose another model with `--model`"), "{ran:?}");
}
