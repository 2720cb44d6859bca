;; One way to crash for each export.
(component
  (core module $m
    (memory 1)
    (func $abort (export "unreachable") (unreachable))
    (func (export "divide-by-zero") (drop (i32.div_u (i32.const 1) (i32.const 0))))
    (func (export "out-of-bounds") (drop (i32.load (i32.const 0x7fffffff)))))
  (core instance $i (instantiate $m))
  (func (export "unreachable") (canon lift (core func $i "unreachable")))
  (func (export "divide-by-zero") (canon lift (core func $i "divide-by-zero")))
  (func (export "out-of-bounds") (canon lift (core func $i "out-of-bounds"))))
