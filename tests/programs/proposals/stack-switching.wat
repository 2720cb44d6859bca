;; Uses a proposal that is turned off: a continuation.
(component
  (core module $m
    (type $f (func))
    (type $c (cont $f))
    (func $g (type $f))
    (elem declare func $g)
    (func (export "run") (drop (cont.new $c (ref.func $g)))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
