;; Uses a proposal that is turned off: component model async, stackful, by an asynchronous function without a callback.
(component
  (core func $return (canon task.return))
  (core module $r (import "" "return" (func $return)) (func (export "run") (call $return)))
  (core instance $i (instantiate $r (with "" (instance (export "return" (func $return))))))
  (func (export "run") async (canon lift (core func $i "run") async)))
