;; Uses a proposal that is turned off: a group of recursive types, of one plain function type.
(component
  (core module $m
    (rec (type $f (func)))
    (func (export "run") (type $f)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
