//! The fuzz target `mcp_answers`: its body is in `src/mcp_answers.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::mcp_answers::run(data);
});
