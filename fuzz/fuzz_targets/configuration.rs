//! The fuzz target `configuration`: its body is in `src/configuration.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::configuration::run(data);
});
