//! The fuzz target `batch_parser`: its body is in `src/batch_parser.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::batch_parser::run(data);
});
