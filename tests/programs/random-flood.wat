;; `huge` asks for a terabyte of randomness at once; `steady` asks for as much as it may have, for ever.
(component
  (import "wasi:random/random@0.2.0" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  (core module $memory
    (memory (export "memory") 4)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x10000)))
  (core instance $mem (instantiate $memory))
  (core func $bytes (canon lower (func $random "get-random-bytes")
    (memory (core memory $mem "memory")) (realloc (core func $mem "realloc"))))
  (core module $m
    (import "host" "bytes" (func $bytes (param i64 i32)))
    (func (export "huge") (call $bytes (i64.const 0x10000000000) (i32.const 8)))
    (func (export "steady") (loop (call $bytes (i64.const 0x10000) (i32.const 8)) (br 0))))
  (core instance $i (instantiate $m (with "host" (instance (export "bytes" (func $bytes))))))
  (func (export "huge") (canon lift (core func $i "huge")))
  (func (export "steady") (canon lift (core func $i "steady"))))
