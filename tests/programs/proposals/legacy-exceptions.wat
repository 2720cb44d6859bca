;; Uses a proposal that is turned off: the older way to catch exceptions.
(component
  (core module $m
    (func (export "run") try catch_all end))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
