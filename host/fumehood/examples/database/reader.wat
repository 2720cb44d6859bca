;; The core module of a component of the world `reader`. Results have the same layout in imports and exports, so both
;; functions pass the area with the host's result on.
(module
  (import "acme:database/tables@0.1.0" "select" (func $select (param i32 i32 i32 i32)))
  (import "acme:database/tables@0.1.0" "scan" (func $scan (param i32 i32 i32)))
  (import "acme:database/tables@0.1.0" "[method]cursor.next" (func $next (param i32 i32)))
  (import "acme:database/tables@0.1.0" "[resource-drop]cursor" (func $drop (param i32)))
  (memory (export "memory") 2)
  ;; Everything below 1024 is the area of the result.
  (global $free (mut i32) (i32.const 1024))
  (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.sub (i32.add (global.get $free) (local.get $align)) (i32.const 1))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $free (i32.add (local.get $at) (local.get $new)))
    (if (i32.gt_u (global.get $free) (i32.shl (memory.size) (i32.const 16)))
      (then
        (drop
          (memory.grow
            (i32.add
              (i32.shr_u
                (i32.sub (global.get $free) (i32.shl (memory.size) (i32.const 16)))
                (i32.const 16))
              (i32.const 1))))))
    (local.get $at))
  (func (export "rows") (param $table i32) (param $length i32) (param $limit i32) (result i32)
    (call $select (local.get $table) (local.get $length) (local.get $limit) (i32.const 8))
    (i32.const 8))
  (func (export "first") (param $table i32) (param $length i32) (result i32)
    (local $cursor i32)
    (call $scan (local.get $table) (local.get $length) (i32.const 8))
    (if (i32.eqz (i32.load8_u (i32.const 8)))
      (then
        (local.set $cursor (i32.load (i32.const 12)))
        (call $next (local.get $cursor) (i32.const 8))
        (call $drop (local.get $cursor))))
    (i32.const 8)))
