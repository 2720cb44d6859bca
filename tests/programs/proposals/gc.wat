;; Uses a proposal that is turned off: gc.
(component
  (core module $m
    (type $s (struct (field i32)))
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
