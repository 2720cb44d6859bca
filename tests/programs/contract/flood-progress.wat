;; Reports progress with a hundred thousand empty parts, over and over.
(module
  (import "fumehood:tool/progress@0.1.0" "report" (func $report (param i32 f64 i32 i32 i32 i32 i32)))
  (memory (export "memory") 64)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "flood")
  (data (i32.const 16) "Talks too much.")
  (data (i32.const 64) "{\"type\":\"object\"}")
  (data (i32.const 128)
    "\00\00\00\00" "\05\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\10\00\00\00" "\0f\00\00\00"
    "\40\00\00\00" "\11\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\00\00\00\00\00\00\00\00")
  (data (i32.const 192) "\80\00\00\00\01\00\00\00")
  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32) (i32.const 192))
  (func (export "fumehood:tool/tools@0.1.0#call") (param i32 i32 i32 i32 i32 i32) (result i32)
    ;; The parts are texts without a byte: zeroes from 64 KiB on.
    (loop
      (call $report (i32.const 0) (f64.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
        (i32.const 0x10000) (i32.const 100000))
      (br 0))
    (unreachable))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))
