//! The fuzz target `mcp_framing`: its body is in `src/mcp_framing.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::mcp_framing::run(data);
});
