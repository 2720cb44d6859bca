;; Uses a proposal that is turned off: component model async, by a stream.
(component
  (type $s (stream u8))
  (core func $new (canon stream.new $s))
  (core module $m (import "" "new" (func (result i64))) (func (export "run")))
  (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
  (func (export "run") (canon lift (core func $i "run"))))
