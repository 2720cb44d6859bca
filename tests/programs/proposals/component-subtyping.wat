;; Uses a proposal that is turned off: a type with a supertype, declared by the component and not by a module.
(component
  (core type $super (sub (func)))
  (core type $sub (sub $super (func)))
  (core module $m (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
