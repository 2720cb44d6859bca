;; The smallest useful tool: `echo` returns its arguments as they are.
(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "echo")
  (data (i32.const 16) "Returns its arguments.")
  (data (i32.const 64) "{\"type\":\"object\",\"additionalProperties\":true}")
  ;; The list that `describe` returns points here: one definition of 56 bytes.
  (data (i32.const 128)
    "\00\00\00\00" "\04\00\00\00"   ;; name
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00" ;; no title
    "\10\00\00\00" "\16\00\00\00"   ;; description
    "\40\00\00\00" "\2d\00\00\00"   ;; input schema
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00" ;; no output schema
    "\01\01\01\00\01\01\01\00")     ;; read-only, not destructive, idempotent, closed world
  (data (i32.const 192) "\80\00\00\00\01\00\00\00")

  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32)
    i32.const 192)

  (func (export "fumehood:tool/tools@0.1.0#call")
    (param $id i32) (param $id-len i32) (param $tool i32) (param $tool-len i32) (param $args i32) (param $args-len i32)
    (result i32)
    ;; ok(list of one part) at 1024; the part, json(arguments), at 1088
    (i32.store8 (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1032) (i32.const 1088))
    (i32.store (i32.const 1036) (i32.const 1))
    (i32.store8 (i32.const 1088) (i32.const 1))
    (i32.store (i32.const 1092) (local.get $args))
    (i32.store (i32.const 1096) (local.get $args-len))
    i32.const 1024)

  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at)))
