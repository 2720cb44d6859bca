;; Waits for the same handle a million times at once.
(component
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))
    (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $outer))
    (export "pollable" (type $pollable (eq $outer)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core func $block (canon lower (func $poll "[method]pollable.block")))
  (core func $drop (canon resource.drop $pollable))
  (core module $memory
    (memory (export "memory") 128)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x600000)))
  (core instance $mem (instantiate $memory))
  (core func $poll (canon lower (func $poll "poll") (memory (core memory $mem "memory")) (realloc (core func $mem "realloc"))))
  (core module $m
    (import "host" "memory" (memory 128))
    (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
    (import "host" "poll" (func $poll (param i32 i32 i32)))
    (func (export "run")
      (local $p i32) (local $at i32)
      (local.set $p (call $subscribe (i64.const 0)))
      (local.set $at (i32.const 0x10000))
      (loop $again
        (i32.store (local.get $at) (local.get $p))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (br_if $again (i32.lt_u (local.get $at) (i32.const 0x410000))))
      (call $poll (i32.const 0x10000) (i32.const 0x100000) (i32.const 8))))
  (core instance $i (instantiate $m (with "host" (instance
    (export "memory" (memory $mem "memory"))
    (export "subscribe" (func $subscribe))
    (export "poll" (func $poll))))))
  (func (export "run") (canon lift (core func $i "run"))))
