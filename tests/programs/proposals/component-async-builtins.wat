;; Uses a proposal that is turned off: component model async, more built-ins, by a read that blocks.
(component
  (type $s (stream u8))
  (core module $memory (memory (export "memory") 1))
  (core instance $m (instantiate $memory))
  (alias core export $m "memory" (core memory $mem))
  (core func $read (canon stream.read $s (memory $mem)))
  (core module $r (import "" "read" (func (param i32 i32 i32) (result i32))) (func (export "run")))
  (core instance $i (instantiate $r (with "" (instance (export "read" (func $read))))))
  (func (export "run") (canon lift (core func $i "run"))))
