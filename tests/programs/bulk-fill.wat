;; Fills 32 MiB over and over, in single instructions that nothing interrupts.
(component
  (core module $m
    (memory 512)
    (func (export "run")
      (loop (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x2000000)) (br 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
