;; Reads a table of the program around the host: `tests/capability/tables-reader.wit`. Results have the same layout in imports and
;; exports, so the area with the host's result is passed on.
(module
  (import "acme:database/tables@0.1.0" "select" (func $select (param i32 i32 i32 i32)))
  (memory (export "memory") 4)
  (global $free (mut i32) (i32.const 1024))
  (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.sub (i32.add (global.get $free) (local.get $align)) (i32.const 1))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $free (i32.add (local.get $at) (local.get $new)))
    (local.get $at))
  (func (export "rows") (param $table i32) (param $length i32) (param $limit i32) (result i32)
    (call $select (local.get $table) (local.get $length) (local.get $limit) (i32.const 8))
    (i32.const 8)))
