;; Fills 256 MiB in a single instruction, which takes longer than the deadline and is not interrupted.
(component
  (core module $m
    (memory 4096)
    (func (export "run") (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x10000000))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
