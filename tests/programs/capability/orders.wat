;; Passes values to the functions of the program around the host, and their results on: `tests/capability/orders.wit`.
(module
  (import "test:orders/store@0.1.0" "find" (func $find (param i64 i32)))
  (import "test:orders/store@0.1.0" "save"
    (func $save (param i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 f32 i32)))
  (import "test:orders/store@0.1.0" "nest" (func $nest (param i32 i32 i32 i32 i32 i32 i32)))
  (import "test:orders/store@0.1.0" "count" (func $count (param i32) (result i32)))
  (import "test:orders/store@0.1.0" "wait" (func $wait))
  (memory (export "memory") 64)
  ;; Everything below 1024 is the area of the result.
  (global $free (mut i32) (i32.const 1024))
  (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.sub (i32.add (global.get $free) (local.get $align)) (i32.const 1))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $free (i32.add (local.get $at) (local.get $new)))
    (local.get $at))
  (func (export "find") (param $id i64) (result i32)
    (call $find (local.get $id) (i32.const 8))
    (i32.const 8))
  (func (export "save")
    (param i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 f32) (result i32)
    (call $save
      (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
      (local.get 6) (local.get 7) (local.get 8) (local.get 9) (local.get 10) (local.get 11)
      (i32.const 8))
    (i32.const 8))
  (func (export "nest") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $nest
      (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
      (i32.const 8))
    (i32.const 8))
  (func (export "count") (param $number i32) (result i32)
    (call $count (local.get $number)))
  (func (export "wait")
    (call $wait))
  (func (export "count-forever") (result i32)
    (loop $again
      (drop (call $count (i32.const 1)))
      (br $again))
    (unreachable)))
