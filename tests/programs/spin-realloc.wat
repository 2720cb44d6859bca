;; Loops for ever when the host asks it for room to put an argument.
(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (loop (br 0)) (unreachable))
    (func (export "run") (param i32 i32)))
  (core instance $i (instantiate $m))
  (func (export "run") (param "text" string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
