;; Uses its store while it is asked what its tools are, before anybody could have approved it. `look` answers `kept` if
;; something was there before, and keeps something if not.
(module
  (import "fumehood:tool/key-value@0.1.0" "get" (func $get (param i32 i32 i32)))
  (import "fumehood:tool/key-value@0.1.0" "set" (func $set (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "look")
  (data (i32.const 16) "Looks for what was kept.")
  (data (i32.const 64) "{\"type\":\"object\"}")
  (data (i32.const 100) "kept")
  (data (i32.const 104) "new")
  (data (i32.const 128)
    "\00\00\00\00" "\04\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\10\00\00\00" "\18\00\00\00"
    "\40\00\00\00" "\11\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\00\00\00\00\00\00\00\00")
  (data (i32.const 192) "\80\00\00\00\01\00\00\00")
  (func $keep (call $set (i32.const 0) (i32.const 4) (i32.const 100) (i32.const 4) (i32.const 1300)))
  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32)
    (call $keep)
    (i32.const 192))
  (func (export "fumehood:tool/tools@0.1.0#call") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $get (i32.const 0) (i32.const 4) (i32.const 1200))
    ;; ok(list of one part) at 1024; the part, text, at 1088
    (i32.store (i32.const 1032) (i32.const 1088))
    (i32.store (i32.const 1036) (i32.const 1))
    ;; ok at 1200, some at 1204
    (if (i32.and (i32.eqz (i32.load8_u (i32.const 1200))) (i32.load8_u (i32.const 1204)))
      (then
        (i32.store (i32.const 1092) (i32.const 100))
        (i32.store (i32.const 1096) (i32.const 4)))
      (else
        (call $keep)
        (i32.store (i32.const 1092) (i32.const 104))
        (i32.store (i32.const 1096) (i32.const 3))))
    (i32.const 1024))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))
