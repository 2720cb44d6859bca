//! The fuzz target `gate`: its body is in `src/gate.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::gate::run(data);
});
