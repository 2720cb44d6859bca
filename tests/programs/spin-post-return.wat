;; Returns a result, and then loops for ever in the function that is to clean up after it.
(component
  (core module $m
    (memory (export "memory") 1)
    (data (i32.const 8) "\10\00\00\00\05\00\00\00" "hello")
    (func (export "run") (result i32) (i32.const 8))
    (func (export "clean-up") (param i32) (loop (br 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (result string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")) (post-return (core func $i "clean-up")))))
