;; Uses a proposal that is turned off: tail-call.
(component
  (core module $m
    (func $f (return_call $f))
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
