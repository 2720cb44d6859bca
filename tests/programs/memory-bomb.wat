;; Takes memory and writes to all of it until it gets no more, then aborts, as an allocator does.
(component
  (core module $m
    (memory 1)
    (func (export "run")
      (local $page i32)
      (loop $again
        (local.set $page (memory.grow (i32.const 16)))
        (if (i32.eq (local.get $page) (i32.const -1)) (then (unreachable)))
        (memory.fill (i32.mul (local.get $page) (i32.const 65536)) (i32.const 1) (i32.const 0x100000))
        (br $again))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
