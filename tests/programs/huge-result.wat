;; Returns a text of 63 MiB.
(component
  (core module $m
    (memory (export "memory") 1016)
    (data (i32.const 8) "\00\00\01\00\00\00\f0\03")
    (func (export "run") (result i32)
      (memory.fill (i32.const 0x10000) (i32.const 0x61) (i32.const 0x3f00000))
      (i32.const 8)))
  (core instance $i (instantiate $m))
  (func (export "run") (result string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")))))
