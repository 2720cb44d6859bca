;; Two tools that take some hundred milliseconds: `again`, which says that it is idempotent, and `once`, which does not.
(module
  (memory (export "memory") 4)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "again")
  (data (i32.const 8) "once")
  (data (i32.const 16) "Takes its time.")
  (data (i32.const 64) "{\"type\":\"object\"}")
  ;; The last eight bytes are the annotations: read-only, destructive, idempotent, open-world.
  (data (i32.const 128)
    "\00\00\00\00" "\05\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\10\00\00\00" "\0f\00\00\00"
    "\40\00\00\00" "\11\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\00\00" "\00\00" "\01\01" "\00\00")
  (data (i32.const 184)
    "\08\00\00\00" "\04\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\10\00\00\00" "\0f\00\00\00"
    "\40\00\00\00" "\11\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\00\00" "\00\00" "\00\00" "\00\00")
  (data (i32.const 256) "\80\00\00\00\02\00\00\00")
  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32) (i32.const 256))
  (func (export "fumehood:tool/tools@0.1.0#call") (param i32 i32 i32 i32 i32 i32) (result i32)
    (local $left i32)
    (local.set $left (i32.const 400000000))
    (loop $more (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    ;; Success without content: zeroes.
    (i32.const 1024))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))
