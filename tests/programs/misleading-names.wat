;; Crashes in functions that are named after messages of the engine.
(component
  (core module $m
    (func $copied (@name "fuel allocated for hostcalls") (unreachable))
    (func $handles (@name "store handle limit exceeded") (unreachable))
    (func (export "copied") (call $copied))
    (func (export "handles") (call $handles)))
  (core instance $i (instantiate $m))
  (func (export "copied") (canon lift (core func $i "copied")))
  (func (export "handles") (canon lift (core func $i "handles"))))
