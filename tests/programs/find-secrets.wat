;; Counts what is not zero in its memory and not null in its table. It wrote to neither.
(component
  (core module $m
    (memory 16)
    (table $t 64 funcref)
    (func (export "run") (result i32)
      (local $at i32) (local $found i32)
      (loop $memory
        (if (i64.ne (i64.load (local.get $at)) (i64.const 0))
          (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br_if $memory (i32.lt_u (local.get $at) (i32.const 0x100000))))
      (local.set $at (i32.const 0))
      (loop $table
        (if (i32.eqz (ref.is_null (table.get $t (local.get $at))))
          (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $table (i32.lt_u (local.get $at) (i32.const 64))))
      (local.get $found)))
  (core instance $i (instantiate $m))
  (func (export "run") (result u32) (canon lift (core func $i "run"))))
