;; Uses a proposal that is turned off: memory64.
(component
  (core module $m
    (memory i64 1)
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
