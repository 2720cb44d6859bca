;; Returns a text that is not UTF-8.
(component
  (core module $m
    (memory (export "memory") 1)
    (data (i32.const 8) "\10\00\00\00\04\00\00\00" "ab\ff\fe")
    (func (export "run") (result i32) (i32.const 8)))
  (core instance $i (instantiate $m))
  (func (export "run") (result string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")))))
