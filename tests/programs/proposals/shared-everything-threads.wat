;; Uses a proposal that is turned off: a shared global.
(component
  (core module $m
    (global (shared i32) (i32.const 0))
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
