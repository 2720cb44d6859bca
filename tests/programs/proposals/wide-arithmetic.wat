;; Uses a proposal that is turned off: wide arithmetic.
(component
  (core module $m
    (func (export "run") (i64.add128 (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)) drop drop))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
