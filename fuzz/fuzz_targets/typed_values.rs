//! The fuzz target `typed_values`: its body is in `src/typed_values.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::typed_values::run(data);
});
