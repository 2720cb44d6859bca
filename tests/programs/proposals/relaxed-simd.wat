;; Uses a proposal that is turned off: relaxed-simd.
(component
  (core module $m
    (func (param v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 0)))
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
