;; Uses a proposal that is turned off: component model threading.
(component
  (core func $index (canon thread.index))
  (core module $m (import "" "index" (func (result i32))) (func (export "run")))
  (core instance $i (instantiate $m (with "" (instance (export "index" (func $index))))))
  (func (export "run") (canon lift (core func $i "run"))))
