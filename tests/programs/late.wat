;; Fills 192 MiB in a single instruction, and returns as if nothing had happened.
(component
  (core module $m
    (memory 3072)
    (func (export "run") (memory.fill (i32.const 0) (i32.const 7) (i32.const 0xc000000))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
