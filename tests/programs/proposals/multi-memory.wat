;; Uses a proposal that is turned off: multi-memory.
(component
  (core module $m
    (memory 1) (memory 1)
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
