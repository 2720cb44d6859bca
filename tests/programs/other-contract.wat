;; A tool of a later version of the contract.
(component
  (core module $m (func (export "run") (result i32) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $describe (result u32) (canon lift (core func $i "run")))
  (instance $tools (export "describe" (func $describe)))
  (export "fumehood:tool/tools@0.3.0" (instance $tools)))
