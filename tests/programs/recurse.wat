;; Calls itself for ever.
(component
  (core module $m
    (func $deeper (export "run") (call $deeper)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
