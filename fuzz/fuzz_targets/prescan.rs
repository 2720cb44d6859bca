//! The fuzz target `prescan`: its body is in `src/prescan.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ended = fumehood_fuzz::prescan::run(data);
});
