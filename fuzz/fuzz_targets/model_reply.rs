//! The fuzz target `model_reply`: its body is in `src/model_reply.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::model_reply::run(data);
});
