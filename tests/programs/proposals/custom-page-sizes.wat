;; Uses a proposal that is turned off: pages of one byte.
(component
  (core module $m
    (memory 1 (pagesize 1))
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
