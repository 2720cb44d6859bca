;; A tool, `echo`, and three resources: `test:text` is read as its URI, `test:trap` traps, `test:spin` never ends. `COUNT` and
;; `LIST` are replaced: the number of resources that `list` returns, of which the rest is empty, and code before that.
(module
  (memory (export "memory") 2)
  (global $next (mut i32) (i32.const 65536))
  (data (i32.const 0) "echo")
  (data (i32.const 16) "Returns its arguments.")
  (data (i32.const 64) "{\"type\":\"object\",\"additionalProperties\":true}")
  (data (i32.const 128)
    "\00\00\00\00" "\04\00\00\00"   ;; name
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00" ;; no title
    "\10\00\00\00" "\16\00\00\00"   ;; description
    "\40\00\00\00" "\2d\00\00\00"   ;; input schema
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00") ;; no output schema, and below no annotations
  (data (i32.const 192) "\80\00\00\00\01\00\00\00")
  (data (i32.const 512) "test:texttest:traptest:spin")
  ;; Three definitions of 100 bytes: URI, name, and nothing else.
  (data (i32.const 1024) "\00\02\00\00\09\00\00\00\00\02\00\00\09\00\00\00")
  (data (i32.const 1124) "\09\02\00\00\09\00\00\00\09\02\00\00\09\00\00\00")
  (data (i32.const 1224) "\12\02\00\00\09\00\00\00\12\02\00\00\09\00\00\00")

  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32)
    i32.const 192)

  (func (export "fumehood:tool/tools@0.1.0#call")
    (param $id i32) (param $id-len i32) (param $tool i32) (param $tool-len i32) (param $args i32) (param $args-len i32)
    (result i32)
    (i32.store (i32.const 16392) (i32.const 16448))
    (i32.store (i32.const 16396) (i32.const 1))
    (i32.store8 (i32.const 16448) (i32.const 1))
    (i32.store (i32.const 16452) (local.get $args))
    (i32.store (i32.const 16456) (local.get $args-len))
    i32.const 16384)

  (func (export "fumehood:tool/resources@0.1.0#list") (result i32)
    LIST
    (i32.store (i32.const 256) (i32.const 1024))
    (i32.store (i32.const 260) (i32.const COUNT))
    i32.const 256)

  (func (export "fumehood:tool/resources@0.1.0#read") (param $uri i32) (param $uri-len i32) (result i32)
    (local $last i32)
    (local.set $last (i32.load8_u (i32.add (local.get $uri) (i32.const 8))))
    (if (i32.eq (local.get $last) (i32.const 112)) (then unreachable))
    (if (i32.eq (local.get $last) (i32.const 110)) (then (loop $on (br $on))))
    ;; ok(text(URI)) at 16384
    (i32.store (i32.const 16396) (local.get $uri))
    (i32.store (i32.const 16400) (local.get $uri-len))
    i32.const 16384)

  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at)))
