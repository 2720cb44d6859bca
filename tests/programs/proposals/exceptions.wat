;; Uses a proposal that is turned off: exceptions.
(component
  (core module $m
    (tag $t)
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
