;; Counts its calls in a global and in memory: both are 1 every time if nothing is kept.
(component
  (core module $m
    (memory 1)
    (global $calls (mut i32) (i32.const 0))
    (func (export "run") (result i32)
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
      (i32.add (global.get $calls) (i32.mul (i32.const 100) (i32.load (i32.const 0))))))
  (core instance $i (instantiate $m))
  (func (export "run") (result u32) (canon lift (core func $i "run"))))
