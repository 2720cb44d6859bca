;; Greets like `tasks`, in a synchronous function, for comparison.
(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (data (i32.const 16) "Hello, ")
    (func (export "greet") (param $at i32) (param $length i32) (result i32)
      (memory.copy (i32.const 23) (local.get $at) (local.get $length))
      (i32.store (i32.const 512) (i32.const 16))
      (i32.store (i32.const 516) (i32.add (i32.const 7) (local.get $length)))
      (i32.const 512)))
  (core instance $i (instantiate $m))
  (func (export "greet") (param "name" string) (result string)
    (canon lift (core func $i "greet") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
