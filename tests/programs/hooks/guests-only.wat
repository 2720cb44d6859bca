;; A hook that authorizes only calls of guests: those without an actor.
(module
  (memory (export "memory") 4)
  (global $next (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (drop (memory.grow (i32.add (i32.div_u (local.get 3) (i32.const 65536)) (i32.const 1))))
    (local.get $at))
  (data (i32.const 32) "not you")
  ;; deny(reason)
  (data (i32.const 64) "\01\00\00\00\20\00\00\00\07\00\00\00")
  (func (export "fumehood:hooks/hook@0.1.0#authorize") (param i32) (result i32)
    ;; `actor` is the fourth field, after three strings.
    (select (i32.const 64) (i32.const 0) (i32.load8_u offset=24 (local.get 0))))
  (func (export "fumehood:hooks/hook@0.1.0#before") (param i32) (result i32) (i32.const 0))
  (func (export "fumehood:hooks/hook@0.1.0#after") (param i32) (result i32) (i32.const 0)))
