//! The fuzz target `engine`: its body is in `src/engine.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::engine::run(data);
});
