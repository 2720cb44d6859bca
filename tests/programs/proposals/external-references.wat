;; Uses a proposal that is turned off: a reference to a value of the host.
(component
  (core module $m
    (func (param externref))
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
