//! The corpora of the coverage-guided fuzz targets (`fuzz/`), run once through the same code without a fuzzer.

use std::path::Path;

use crate::engine::target as engine;

#[path = "../../../../fuzz/src/batch_parser.rs"]
mod batch_parser;
#[path = "../../../../fuzz/src/configuration.rs"]
mod configuration;
#[path = "../../../../fuzz/src/gate.rs"]
mod gate;
#[path = "../../../../fuzz/src/loopback.rs"]
mod loopback;
#[path = "../../../../fuzz/src/mcp_answers.rs"]
mod mcp_answers;
#[path = "../../../../fuzz/src/mcp_framing.rs"]
mod mcp_framing;
#[path = "../../../../fuzz/src/model_reply.rs"]
mod model_reply;
#[path = "../../../../fuzz/src/prescan.rs"]
mod prescan;
#[path = "../../../../fuzz/src/typed_conversion.rs"]
mod typed_conversion;
#[path = "../../../../fuzz/src/typed_values.rs"]
mod typed_values;

/// Runs every input of a target. Its path is printed first, so that a failure shows it.
fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    for input in inputs {
        println!("{}", input.display());
        run(&std::fs::read(&input).unwrap());
    }
}

#[test]
fn corpus_of_gate() {
    replay("gate", gate::run);
}

#[test]
fn corpus_of_batch_parser() {
    replay("batch_parser", batch_parser::run);
}

#[test]
fn corpus_of_typed_values() {
    replay("typed_values", typed_values::run);
}

#[test]
fn corpus_of_typed_conversion() {
    replay("typed_conversion", typed_conversion::run);
}

#[test]
fn corpus_of_configuration() {
    replay("configuration", configuration::run);
}

#[test]
fn corpus_of_mcp_framing() {
    replay("mcp_framing", mcp_framing::run);
}

#[test]
fn corpus_of_mcp_answers() {
    replay("mcp_answers", mcp_answers::run);
}

#[test]
fn corpus_of_model_reply() {
    replay("model_reply", model_reply::run);
}

#[test]
fn corpus_of_prescan() {
    replay("prescan", prescan::run);
}

#[test]
fn corpus_of_engine() {
    replay("engine", |input| {
        let _verdict = engine::run(input);
    });
}
