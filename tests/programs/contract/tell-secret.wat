;; Knows a secret, as if a server had told it, and says it in three spellings wherever it can: in the log, as progress, as a
;; part of its result that is ready, and in its result.
(module
  (import "fumehood:tool/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  (import "fumehood:tool/progress@0.1.0" "report" (func $report (param i32 f64 i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "tell")
  (data (i32.const 16) "Tells a secret.")
  (data (i32.const 64) "{\"type\":\"object\"}")
  (data (i32.const 128)
    "\00\00\00\00" "\04\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\10\00\00\00" "\0f\00\00\00"
    "\40\00\00\00" "\11\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\00\00\00\00\00\00\00\00")
  (data (i32.const 192) "\80\00\00\00\01\00\00\00")
  (data (i32.const 512) "raw s3cr3t/canary+42, base64 czNjcjN0L2NhbmFyeSs0Mg==, url s3cr3t%2Fcanary%2B42")
  ;; A part of a result: the same as text.
  (data (i32.const 768) "\00\00\00\00" "\00\02\00\00" "\4f\00\00\00")
  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32) (i32.const 192))
  (func (export "fumehood:tool/tools@0.1.0#call") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $log (i32.const 2) (i32.const 512) (i32.const 79))
    (call $report (i32.const 1) (f64.const 0.5) (i32.const 1) (i32.const 512) (i32.const 79)
      (i32.const 768) (i32.const 1))
    (i32.store (i32.const 1032) (i32.const 768))
    (i32.store (i32.const 1036) (i32.const 1))
    (i32.const 1024))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))
