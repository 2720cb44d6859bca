;; Writes log lines of escape characters, which take six times as many bytes when they are shown.
(module
  (import "fumehood:tool/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  (import "fumehood:tool/progress@0.1.0" "report" (func $report (param i32 f64 i32 i32 i32 i32 i32)))
  (memory (export "memory") 16)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "flood")
  (data (i32.const 16) "Writes escapes.")
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
    (local $left i32)
    (memory.fill (i32.const 0x20000) (i32.const 0x1b) (i32.const 200000))
    ;; A line that fits as it is, and not as it is shown, then lines that fit both ways until nothing is left, as log and as progress.
    (call $log (i32.const 2) (i32.const 0x20000) (i32.const 200000))
    (local.set $left (i32.const 40))
    (loop $more
      (call $log (i32.const 2) (i32.const 0x20000) (i32.const 3000))
      (call $report (i32.const 0) (f64.const 0) (i32.const 1) (i32.const 0x20000) (i32.const 3000)
        (i32.const 0) (i32.const 0))
      (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    ;; Success without content: zeroes.
    (i32.const 1024))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))
