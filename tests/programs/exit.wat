;; Ends itself in the middle of a call, with success or with failure.
(component
  (import "wasi:cli/exit@0.2.0" (instance $exit
    (export "exit" (func (param "status" (result))))))
  (core func $exit (canon lower (func $exit "exit")))
  (core module $m
    (import "host" "exit" (func $exit (param i32)))
    (func (export "run") (param $status i32) (call $exit (local.get $status))))
  (core instance $i (instantiate $m (with "host" (instance (export "exit" (func $exit))))))
  (func (export "run") (param "fail" bool) (canon lift (core func $i "run"))))
