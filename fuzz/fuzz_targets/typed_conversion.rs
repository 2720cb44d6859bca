//! The fuzz target `typed_conversion`: its body is in `src/typed_conversion.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::typed_conversion::run(data);
});
