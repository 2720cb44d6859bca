;; Hands out what each source of randomness gives first: a host that repeats itself shows.
(component
  (import "wasi:random/random@0.2.0" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))
    (export "get-random-u64" (func (result u64)))))
  (import "wasi:random/insecure@0.2.0" (instance $insecure
    (export "get-insecure-random-u64" (func (result u64)))))
  (import "wasi:random/insecure-seed@0.2.0" (instance $seed
    (export "insecure-seed" (func (result (tuple u64 u64))))))
  (core module $memory
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $mem (instantiate $memory))
  (core func $bytes (canon lower (func $random "get-random-bytes")
    (memory (core memory $mem "memory")) (realloc (core func $mem "realloc"))))
  (core func $random (canon lower (func $random "get-random-u64")))
  (core func $insecure (canon lower (func $insecure "get-insecure-random-u64")))
  (core func $seed (canon lower (func $seed "insecure-seed") (memory (core memory $mem "memory"))))
  (core module $m
    (import "host" "bytes" (func $bytes (param i64 i32)))
    (import "host" "random" (func $random (result i64)))
    (import "host" "insecure" (func $insecure (result i64)))
    (import "host" "seed" (func $seed (param i32)))
    (func (export "bytes") (result i32) (call $bytes (i64.const 32) (i32.const 8)) (i32.const 8))
    (func (export "random") (result i64) (call $random))
    (func (export "insecure") (result i64) (call $insecure))
    (func (export "seed") (result i32) (call $seed (i32.const 8)) (i32.const 8)))
  (core instance $i (instantiate $m (with "host" (instance
    (export "bytes" (func $bytes))
    (export "random" (func $random))
    (export "insecure" (func $insecure))
    (export "seed" (func $seed))))))
  (func (export "bytes") (result (list u8))
    (canon lift (core func $i "bytes") (memory (core memory $mem "memory"))))
  (func (export "random") (result u64) (canon lift (core func $i "random")))
  (func (export "insecure") (result u64) (canon lift (core func $i "insecure")))
  (func (export "seed") (result (tuple u64 u64))
    (canon lift (core func $i "seed") (memory (core memory $mem "memory")))))
