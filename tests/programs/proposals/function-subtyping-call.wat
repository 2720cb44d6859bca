;; Uses a proposal that is turned off: a function type with a supertype, and an indirect call by it.
(component
  (core module $m
    (type $super (sub (func)))
    (type $sub (sub $super (func)))
    (func $f (type $sub))
    (table 1 1 funcref)
    (elem (i32.const 0) $f)
    (func (export "run") (call_indirect (type $super) (i32.const 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
