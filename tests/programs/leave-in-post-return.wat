;; Calls the host from the function that cleans up after a call, which the component model forbids.
(component
  (import "wasi:cli/exit@0.2.0" (instance $exit
    (export "exit" (func (param "status" (result))))))
  (core func $exit (canon lower (func $exit "exit")))
  (core module $m
    (import "host" "exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func (export "run") (result i32) (i32.const 8))
    (func (export "clean-up") (param i32) (call $exit (i32.const 0))))
  (core instance $i (instantiate $m (with "host" (instance (export "exit" (func $exit))))))
  (func (export "run") (result string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")) (post-return (core func $i "clean-up")))))
