;; Uses a proposal that is turned off: component model error context.
(component
  (core func $drop (canon error-context.drop))
  (core module $m (import "" "drop" (func (param i32))) (func (export "run")))
  (core instance $i (instantiate $m (with "" (instance (export "drop" (func $drop))))))
  (func (export "run") (canon lift (core func $i "run"))))
