;; Uses a proposal that is turned off: a call by a typed reference.
(component
  (core module $m
    (type $f (func))
    (func $g (type $f))
    (elem declare func $g)
    (func (export "run") (call_ref $f (ref.func $g))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
