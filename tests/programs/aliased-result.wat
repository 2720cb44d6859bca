;; Returns a list of 100,000 texts of 1 MiB, all of them the same bytes of its memory.
(component
  (core module $m
    (memory (export "memory") 64)
    (data (i32.const 8) "\00\00\10\00\a0\86\01\00")
    (func (export "run") (result i32)
      (local $n i32)
      (memory.fill (i32.const 0x300000) (i32.const 0x61) (i32.const 0x100000))
      (loop $again
        (i32.store (i32.add (i32.const 0x100000) (i32.mul (local.get $n) (i32.const 8))) (i32.const 0x300000))
        (i32.store (i32.add (i32.const 0x100004) (i32.mul (local.get $n) (i32.const 8))) (i32.const 0x100000))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $n) (i32.const 100000))))
      (i32.const 8)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list string))
    (canon lift (core func $i "run") (memory (core memory $i "memory")))))
