;; Wants ten million table elements at once, and says what it got.
(component
  (core module $m
    (table $t 1 funcref)
    (func (export "run") (result i32)
      (table.grow $t (ref.null func) (i32.const 10000000))))
  (core instance $i (instantiate $m))
  (func (export "run") (result s32) (canon lift (core func $i "run"))))
