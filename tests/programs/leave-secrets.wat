;; Fills its memory and its table, for another component to look for what is left.
(component
  (core module $m
    (memory 16)
    (table $t 64 funcref)
    (elem declare func $filler)
    (func $filler)
    (func (export "run")
      (memory.fill (i32.const 0) (i32.const 0xab) (i32.const 0x100000))
      (table.fill $t (i32.const 0) (ref.func $filler) (i32.const 64))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
